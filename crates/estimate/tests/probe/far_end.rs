//! A far end that writes what it likes.

use estimate::probe::{Method, Outcome, PacketOutcome, Step, Train, TrainObservation};
use proptest::prelude::*;
use units::Instant;

/// What becomes of a packet: mostly something near what it should, and sometimes anything.
fn fate() -> impl Strategy<Value = (Option<u64>, Option<u64>)> {
    let time = || prop_oneof![4 => 0..1_000_000_u64, 1 => any::<u64>(), 1 => Just(0), 1 => Just(u64::MAX)];
    (proptest::option::weighted(0.9, time()), proptest::option::weighted(0.8, time()))
}

/// What a far end says for ever.
#[derive(Debug)]
pub(crate) struct PacketOutcomes {
    /// When each packet left and came.
    fates: Vec<(Option<u64>, Option<u64>)>,
    /// Of as many packets as were sent.
    whole: bool,
    /// Counted from when each should leave.
    behind: bool,
}

/// Any of them.
pub(crate) fn fates() -> impl Strategy<Value = PacketOutcomes> {
    let fields = (proptest::collection::vec(fate(), 0..150), any::<bool>(), any::<bool>());
    fields.prop_map(|(fates, whole, behind)| PacketOutcomes { fates, whole, behind })
}

/// Runs a method against it; returns how many trains it asked for, at most one more than the bound.
pub(crate) fn trains(
    method: &mut dyn Method,
    PacketOutcomes { fates, whole, behind }: &PacketOutcomes,
    bound: usize,
) -> usize {
    let passage = |train: &Train| {
        let count = if *whole { train.departures().len() } else { fates.len() };
        let departures = train.departures().iter().map(Some).chain(std::iter::repeat(None));
        let fates = fates.iter().copied().cycle().zip(departures).take(count);
        let packets = fates.map(|((sent, received), departure)| {
            let base = departure.filter(|_| *behind).map_or(0, |d| u64::try_from(d.after.as_nanos()).unwrap());
            let at = |ns: u64| Instant::from_nanos(base.saturating_add(ns));
            PacketOutcome { bytes: departure.map_or(0, |d| d.bytes), sent: sent.map(at), received: received.map(at) }
        });
        TrainObservation { packets: packets.collect() }
    };
    for asked in 0..=bound {
        let Step::Send { train, .. } = method.next() else { return asked };
        let passage = passage(&train);
        let _ = method.so_far();
        method.observe(&passage);
    }
    bound + 1
}

/// Runs a method to its end; each train, with its number, passes as is said.
pub(crate) fn answer(method: &mut dyn Method, mut passes: impl FnMut(usize, &Train) -> TrainObservation) -> Outcome {
    for number in 0..1000 {
        match method.next() {
            Step::Done(outcome) => return outcome,
            Step::Send { train, .. } => method.observe(&passes(number, &train)),
        }
    }
    panic!("the method does not end");
}
