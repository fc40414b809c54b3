//! A far end that reports arbitrary times.

use estimate::probe::{Method, Outcome, PacketOutcome, Step, Train, TrainObservation};
use proptest::prelude::*;
use units::Instant;

/// Outcome of a packet: mostly plausible, and sometimes arbitrary.
fn outcome() -> impl Strategy<Value = (Option<u64>, Option<u64>)> {
    let time = || prop_oneof![4 => 0..1_000_000_u64, 1 => any::<u64>(), 1 => Just(0), 1 => Just(u64::MAX)];
    (proptest::option::weighted(0.9, time()), proptest::option::weighted(0.8, time()))
}

/// Endless reports of a far end.
#[derive(Debug)]
pub(crate) struct PacketOutcomes {
    /// Departure and arrival time of each packet.
    outcomes: Vec<(Option<u64>, Option<u64>)>,
    /// Whether the reports cover as many packets as were sent.
    whole: bool,
    /// Whether times count from the planned departures.
    from_departures: bool,
}

/// Any far end.
pub(crate) fn outcomes() -> impl Strategy<Value = PacketOutcomes> {
    let fields = (proptest::collection::vec(outcome(), 0..150), any::<bool>(), any::<bool>());
    fields.prop_map(|(outcomes, whole, from_departures)| PacketOutcomes { outcomes, whole, from_departures })
}

/// Runs a method against the far end; returns the number of trains that it requested, at most one more than the bound.
pub(crate) fn trains(
    method: &mut dyn Method,
    PacketOutcomes { outcomes, whole, from_departures }: &PacketOutcomes,
    bound: usize,
) -> usize {
    let observation = |train: &Train| {
        let count = if *whole { train.departures().len() } else { outcomes.len() };
        let departures = train.departures().iter().map(Some).chain(std::iter::repeat(None));
        let outcomes = outcomes.iter().copied().cycle().zip(departures).take(count);
        let packets = outcomes.map(|((sent, received), departure)| {
            let base = departure.filter(|_| *from_departures).map_or(0, |d| u64::try_from(d.after.as_nanos()).unwrap());
            let at = |ns: u64| Instant::from_nanos(base.saturating_add(ns));
            PacketOutcome { bytes: departure.map_or(0, |d| d.bytes), sent: sent.map(at), received: received.map(at) }
        });
        TrainObservation { packets: packets.collect() }
    };
    for requested in 0..=bound {
        let Step::Send { train, .. } = method.next() else { return requested };
        let observation = observation(&train);
        let _ = method.so_far();
        method.observe(&observation);
    }
    bound + 1
}

/// Runs a method to its end; `passes` gives the observation of each train by its number.
pub(crate) fn answer(method: &mut dyn Method, mut passes: impl FnMut(usize, &Train) -> TrainObservation) -> Outcome {
    for number in 0..1000 {
        match method.next() {
            Step::Done(outcome) => return outcome,
            Step::Send { train, .. } => method.observe(&passes(number, &train)),
        }
    }
    panic!("the method does not end");
}
