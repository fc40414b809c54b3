//! Capacity by the modes of packet pairs and the dispersion of trains: Pathrate (Dovrolis, Ramanathan, Moore, *Packet
//! Dispersion Techniques and a Capacity Estimation Methodology*, 2004), after the behaviour of its version 2.4.1.

mod bunches;
mod looks;
mod modes;
mod phases;
mod plan;
mod samples;

use std::collections::BTreeSet;

use results::estimate::{Caveat, Quantity};
use units::Duration;

use self::bunches::Bunches;
use self::looks::Looks;
use self::phases::Lengths;
use self::plan::{FAITHFUL, MODERN, Plan};
use self::samples::Samples;
use super::{ArrivalCurve, Dispersion, Interval, Method, Outcome, Path, Step, Train, TrainObservation, UDP_HEADERS};

/// Packets of the shortest train whose arrival curve shows batches and buckets.
const CURVE_PACKETS: u32 = 12;

/// The method. Every train has one packet more in front, whose gap is not used: what it waits for is not of the train.
#[derive(Debug)]
pub struct Pathrate {
    path: Path,
    plan: &'static Plan,
    stage: Stage,
    /// Trains asked for in this stage.
    sent: u32,
    /// Packets of the train that is on its way, the leading one not counted, and their bytes.
    asked: Option<(u32, u32)>,
    lengths: Lengths,
    looks: Looks,
    samples: Samples,
    bunches: Bunches,
    /// How long the last train was at the receiver.
    last: Duration,
    /// Trains that came no slower than they left, and all.
    unslowed: (u32, u32),
    caveats: BTreeSet<Caveat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lengths,
    Looks,
    Preliminary,
    Pairs,
    Trains,
    Bunches,
    Ended,
}

impl Pathrate {
    /// At most about 1 MB; with batches and token buckets told by the arrival curve of long trains.
    ///
    /// Of a bucket deeper than some 35 packets only the peak is seen, and of a policer, which drops what it does not pass,
    /// the peak and the loss.
    pub fn new(path: Path) -> Self {
        Self::by(&MODERN, path)
    }

    /// The numbers of 2.4.1: 63 preliminary trains, then if they do not agree 1000 pairs and 500 trains, half a second or
    /// a whole one apart. The thesis used the mean of the reported range (§4.3), which is the value here.
    pub fn faithful(path: Path) -> Self {
        Self::by(&FAITHFUL, path)
    }

    fn by(plan: &'static Plan, path: Path) -> Self {
        Self {
            path,
            plan,
            stage: Stage::Lengths,
            sent: 0,
            asked: None,
            lengths: Lengths::new(plan),
            looks: Looks::default(),
            samples: Samples::new(plan),
            bunches: Bunches::new(plan),
            last: Duration::ZERO,
            unslowed: (0, 0),
            caveats: BTreeSet::new(),
        }
    }

    /// Packets and their bytes of the next train of this stage.
    fn wanted(&self) -> Option<(u32, u32)> {
        let (bytes, longest) = (self.plan.bytes(&self.path), self.lengths.longest);
        let full = |packets| (packets, bytes);
        match self.stage {
            Stage::Lengths => self.lengths.wanted().map(full),
            Stage::Looks => (self.sent < self.plan.looks).then_some(full(longest)),
            Stage::Preliminary => {
                let packets = 2 + self.sent / self.plan.preliminary.1;
                (packets <= longest.min(self.plan.preliminary.0)).then_some(full(packets))
            }
            Stage::Pairs => self.samples.pairs.wanted(self.plan, bytes),
            Stage::Trains => (self.sent < self.plan.trains).then_some(full(longest)),
            Stage::Bunches => self.bunches.wanted(self.plan, bytes).map(full),
            Stage::Ended => None,
        }
    }

    fn following(&self) -> Stage {
        match self.stage {
            Stage::Lengths if self.lengths.longest >= 2 => Stage::Looks,
            Stage::Looks if self.looks.is_batched() => Stage::Bunches,
            Stage::Looks if self.looks.bucket().is_none() => Stage::Preliminary,
            Stage::Preliminary if !self.samples.preliminary.is_empty() && self.samples.agreed().is_none() => {
                Stage::Pairs
            }
            Stage::Pairs => Stage::Trains,
            Stage::Lengths | Stage::Looks | Stage::Preliminary | Stage::Trains | Stage::Bunches | Stage::Ended => {
                Stage::Ended
            }
        }
    }

    fn look(&mut self, passage: &TrainObservation) {
        if let Some((packets, batches)) = self.looks.observe(self.plan, passage) {
            self.bunches.adapt(u32::try_from(packets).unwrap_or(u32::MAX), batches);
        }
    }

    /// What a train that passed whole tells besides its rate.
    fn note(&mut self, dispersion: Dispersion) {
        self.last = dispersion.received;
        self.unslowed = (self.unslowed.0 + u32::from(!dispersion.is_slowed()), self.unslowed.1 + 1);
    }

    fn learn(&mut self, behind: &TrainObservation, (packets, bytes): (u32, u32), whole: bool) {
        let told = behind.dispersion().filter(|_| whole);
        let rate = told.map(|d| d.received_rate().as_bps() as f64);
        match self.stage {
            Stage::Lengths => {
                let too_long = told.is_some_and(|d| d.received > self.plan.spacing(&self.path));
                self.lengths.observe(whole, too_long);
                if self.plan.by_curve && packets >= CURVE_PACKETS {
                    self.look(behind);
                    self.samples.trains.extend(rate);
                }
            }
            Stage::Looks => {
                self.look(behind);
                self.samples.trains.extend(rate.filter(|_| self.plan.by_curve));
            }
            Stage::Preliminary => self.samples.preliminary.extend(rate),
            Stage::Pairs => {
                let ns = told.map(|d| units::nanos(d.received));
                self.samples.pairs.observe(self.plan, self.lengths.longest, rate.zip(ns));
            }
            Stage::Trains => self.samples.trains.extend(rate),
            Stage::Bunches => self.bunches.observe(self.plan, behind, packets, bytes),
            Stage::Ended => {}
        }
        told.into_iter().for_each(|d| self.note(d));
    }

    fn found(&self) -> BTreeSet<Caveat> {
        let mut caveats = self.caveats.clone();
        if self.looks.is_batched() {
            caveats.insert(Caveat::Batching);
            caveats.extend(self.bunches.too_few.then_some(Caveat::TooFewSamples));
            // Single batches, as of 2002, differ by what a boundary hides anyway.
            caveats.extend((self.plan.by_curve && self.bunches.is_loaded()).then_some(Caveat::LowerBound));
        } else if self.looks.bucket().is_some() {
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
            if let Some((packets, bytes)) = self.wanted() {
                self.asked = Some((packets, bytes));
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

    fn observe(&mut self, passage: &TrainObservation) {
        let Some(asked) = self.asked.take() else { return };
        let (lost, reordered) = (passage.lost(), passage.reordered());
        self.caveats.extend((lost > 0).then_some(Caveat::Loss));
        self.caveats.extend((reordered > 0).then_some(Caveat::Reordering));
        let behind = passage.without_first();
        let whole = lost == 0 && reordered == 0 && passage.sent() == asked.0 as usize + 1;
        self.learn(&behind, asked, whole);
    }

    fn so_far(&self) -> Outcome {
        let (batched, bucket) = (self.looks.is_batched(), self.looks.bucket());
        let (capacity, trains) = match bucket {
            _ if batched => (self.bunches.capacity(), self.bunches.whole.as_slice()),
            // Trains over a bucket mix what it holds with what it lets through.
            Some(bucket) => (Some(bucket), [].as_slice()),
            None => (self.samples.capacity(), self.samples.trains.as_slice()),
        };
        let mut outcome =
            Outcome::of(Quantity::Capacity, capacity.map(|(value, low, high)| Interval::from_bps(value, low, high)));
        outcome.also.extend(Interval::of_mean(trains).map(|i| (Quantity::AsymptoticDispersion, i)));
        outcome.troubled(self.found())
    }
}
