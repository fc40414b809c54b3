//! Capacity by the modes of packet pairs and the dispersion of trains: Pathrate (Dovrolis, Ramanathan, Moore, *Packet
//! Dispersion Techniques and a Capacity Estimation Methodology*, 2004), after the behaviour of its version 2.4.1.

mod batched_trains;
mod modes;
mod phases;
mod plan;
mod samples;
mod train_votes;

use std::collections::BTreeSet;

use results::estimate::{Caveat, Quantity};
use units::Duration;

use self::batched_trains::BatchedTrains;
use self::phases::Lengths;
use self::plan::{FAITHFUL, MODERN, Plan};
use self::samples::Samples;
use self::train_votes::TrainVotes;
use super::{ArrivalCurve, Dispersion, Interval, Method, Outcome, Path, Step, Train, TrainObservation, UDP_HEADERS};

/// Packets of the shortest train whose arrival curve shows batches and buckets.
const CURVE_PACKETS: u32 = 12;

/// The method. Every train has one additional packet in front, whose gap is not used because its delay does not belong
/// to the train.
#[derive(Debug)]
pub struct Pathrate {
    path: Path,
    plan: &'static Plan,
    stage: Stage,
    /// Trains requested in this stage.
    sent: u32,
    /// Packets of the current train, without the leading one, and their bytes.
    requested: Option<(u32, u32)>,
    lengths: Lengths,
    receiver_tests: TrainVotes,
    samples: Samples,
    batched_trains: BatchedTrains,
    /// Duration of the last train at the receiver.
    last: Duration,
    /// Number of trains that arrived no slower than they were sent, and of all trains.
    unslowed: (u32, u32),
    caveats: BTreeSet<Caveat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lengths,
    ReceiverTest,
    Preliminary,
    Pairs,
    Trains,
    BatchedTrains,
    Ended,
}

impl Pathrate {
    /// At most about 1 MB; the arrival curves of long trains detect batches and token buckets.
    ///
    /// For a bucket deeper than about 35 packets, the method detects only the peak. For a policer, which drops excess
    /// packets, it detects the peak and the loss.
    pub fn new(path: Path) -> Self {
        Self::by(&MODERN, path)
    }

    /// The numbers of 2.4.1: 63 preliminary trains, and unless they agree 1000 pairs and 500 trains, half a second or a
    /// second apart. The value is the mean of the reported range, as in the thesis (§4.3).
    pub fn faithful(path: Path) -> Self {
        Self::by(&FAITHFUL, path)
    }

    fn by(plan: &'static Plan, path: Path) -> Self {
        Self {
            path,
            plan,
            stage: Stage::Lengths,
            sent: 0,
            requested: None,
            lengths: Lengths::new(plan),
            receiver_tests: TrainVotes::default(),
            samples: Samples::new(plan),
            batched_trains: BatchedTrains::new(plan),
            last: Duration::ZERO,
            unslowed: (0, 0),
            caveats: BTreeSet::new(),
        }
    }

    /// Packets of the next train of this stage, and their bytes.
    fn next_packets(&self) -> Option<(u32, u32)> {
        let (bytes, longest) = (self.plan.bytes(&self.path), self.lengths.longest);
        let full = |packets| (packets, bytes);
        match self.stage {
            Stage::Lengths => self.lengths.next_packets().map(full),
            Stage::ReceiverTest => (self.sent < self.plan.receiver_tests).then_some(full(longest)),
            Stage::Preliminary => {
                let packets = 2 + self.sent / self.plan.preliminary.1;
                (packets <= longest.min(self.plan.preliminary.0)).then_some(full(packets))
            }
            Stage::Pairs => self.samples.pairs.next_packets(self.plan, bytes),
            Stage::Trains => (self.sent < self.plan.trains).then_some(full(longest)),
            Stage::BatchedTrains => self.batched_trains.next_packets(self.plan, bytes).map(full),
            Stage::Ended => None,
        }
    }

    fn following(&self) -> Stage {
        match self.stage {
            Stage::Lengths if self.lengths.longest >= 2 => Stage::ReceiverTest,
            Stage::ReceiverTest if self.receiver_tests.is_batched() => Stage::BatchedTrains,
            Stage::ReceiverTest if self.receiver_tests.bucket().is_none() => Stage::Preliminary,
            Stage::Preliminary if !self.samples.preliminary.is_empty() && self.samples.agreed().is_none() => {
                Stage::Pairs
            }
            Stage::Pairs => Stage::Trains,
            Stage::Lengths
            | Stage::ReceiverTest
            | Stage::Preliminary
            | Stage::Trains
            | Stage::BatchedTrains
            | Stage::Ended => Stage::Ended,
        }
    }

    fn test_receiver(&mut self, observation: &TrainObservation) {
        if let Some((packets, batches)) = self.receiver_tests.observe(self.plan, observation) {
            self.batched_trains.adapt(u32::try_from(packets).unwrap_or(u32::MAX), batches);
        }
    }

    /// Records the duration of a complete train, and whether it was delayed.
    fn record_dispersion(&mut self, dispersion: Dispersion) {
        self.last = dispersion.received;
        self.unslowed = (self.unslowed.0 + u32::from(!dispersion.is_slowed()), self.unslowed.1 + 1);
    }

    fn learn(&mut self, behind: &TrainObservation, (packets, bytes): (u32, u32), whole: bool) {
        let dispersion = behind.dispersion().filter(|_| whole);
        let rate = dispersion.map(|d| d.received_rate().as_bps() as f64);
        match self.stage {
            Stage::Lengths => {
                let too_long = dispersion.is_some_and(|d| d.received > self.plan.spacing(&self.path));
                self.lengths.observe(whole, too_long);
                if self.plan.by_curve && packets >= CURVE_PACKETS {
                    self.test_receiver(behind);
                    self.samples.trains.extend(rate);
                }
            }
            Stage::ReceiverTest => {
                self.test_receiver(behind);
                self.samples.trains.extend(rate.filter(|_| self.plan.by_curve));
            }
            Stage::Preliminary => self.samples.preliminary.extend(rate),
            Stage::Pairs => {
                let ns = dispersion.map(|d| units::nanos(d.received));
                self.samples.pairs.observe(self.plan, self.lengths.longest, rate.zip(ns));
            }
            Stage::Trains => self.samples.trains.extend(rate),
            Stage::BatchedTrains => self.batched_trains.observe(self.plan, behind, packets, bytes),
            Stage::Ended => {}
        }
        dispersion.into_iter().for_each(|d| self.record_dispersion(d));
    }

    fn all_caveats(&self) -> BTreeSet<Caveat> {
        let mut caveats = self.caveats.clone();
        if self.receiver_tests.is_batched() {
            caveats.insert(Caveat::Batching);
            caveats.extend(self.batched_trains.too_few.then_some(Caveat::TooFewSamples));
            // Single batches, as of 2002, differ by what a boundary hides in any case.
            caveats.extend((self.plan.by_curve && self.batched_trains.is_loaded()).then_some(Caveat::LowerBound));
        } else if self.receiver_tests.bucket().is_some() {
            caveats.insert(Caveat::TokenBucket);
        } else if self.samples.is_unsteady() {
            caveats.insert(Caveat::Unsteady);
        }
        if self.unslowed.0 * 2 > self.unslowed.1 {
            caveats.extend([Caveat::SenderTooSlow, Caveat::LowerBound]);
        }
        caveats
    }
}

impl Method for Pathrate {
    fn next(&mut self) -> Step {
        loop {
            if let Some((packets, bytes)) = self.next_packets() {
                self.requested = Some((packets, bytes));
                self.sent += 1;
                let pause = self.plan.pause(&self.path, self.last, self.stage == Stage::Trains);
                return Step::Send { train: Train::spaced(packets + 1, bytes, Duration::ZERO), pause };
            }
            if self.stage == Stage::Ended {
                return Step::Done(self.so_far());
            }
            (self.stage, self.sent) = (self.following(), 0);
        }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        let Some(requested) = self.requested.take() else { return };
        let (lost, reordered) = (observation.lost(), observation.reordered());
        self.caveats.extend((lost > 0).then_some(Caveat::Loss));
        self.caveats.extend((reordered > 0).then_some(Caveat::Reordering));
        let behind = observation.without_first();
        let whole = lost == 0 && reordered == 0 && observation.sent() == requested.0 as usize + 1;
        self.learn(&behind, requested, whole);
    }

    fn so_far(&self) -> Outcome {
        let (batched, bucket) = (self.receiver_tests.is_batched(), self.receiver_tests.bucket());
        let (capacity, trains) = match bucket {
            _ if batched => (self.batched_trains.capacity(), self.batched_trains.whole.as_slice()),
            // Trains through a bucket mix its contents with its rate.
            Some(bucket) => (Some(bucket), [].as_slice()),
            None => (self.samples.capacity(), self.samples.trains.as_slice()),
        };
        let mut outcome =
            Outcome::of(Quantity::Capacity, capacity.map(|(value, low, high)| Interval::from_bps(value, low, high)));
        outcome.also.extend(Interval::of_mean(trains).map(|i| (Quantity::AsymptoticDispersion, i)));
        outcome.with_caveats(self.all_caveats())
    }
}
