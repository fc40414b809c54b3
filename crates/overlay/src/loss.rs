//! How much a link loses, by what is missing of the frames that were sent: all that was counted since the share last changed.

use units::Instant;

use crate::sensor::{LossSensor, Sensing};

/// Half-life of what is counted, in seconds, and of the latest of it. The first is long, for what becomes untrue is forgotten by then.
const HALF_LIFE: f64 = 20.0;
const QUICK: f64 = 0.4;
/// Standard deviations of an interval: 95 %.
const Z: f64 = 1.96;
/// Standard deviations of the interval of the latest.
const Z_LATEST: f64 = 3.0;
/// What speaks for a change, twice the logarithm of a ratio of likelihoods, beyond what chance has in store: four standard deviations where a stretch is two fifths of
/// what is known, five where it is a 150th. Ways are compared by what is known since, which must not be chance.
const CHANGED: f64 = 15.0;
/// What speaks for a change so much that it is worth a closer look: by chance in one of twelve looks that share nothing, which costs some probes.
const IN_DOUBT: f64 = 3.0;
/// Frames after a change from which on its share is known well enough: 0.05 within 0.025.
const SETTLED: f64 = 300.0;
/// Frames of the shortest [`SampleWindow`] that is held against what was before, and by how much each further one is longer: up to 8800. What was lost before a change
/// and is counted as since then is wrong for as long as that is remembered.
const SHORTEST: f64 = 20.0;
const LONGER: f64 = 1.5;
const STRETCHES: usize = 16;

/// Counts that lose half their weight in each half-life.
#[derive(Debug, Clone, Copy, Default)]
struct DecayingCounts {
    frames: f64,
    lost: f64,
}

impl DecayingCounts {
    fn fade(&mut self, factor: f64) {
        self.frames *= factor;
        self.lost *= factor;
    }

    fn add(&mut self, more: Self) {
        self.frames += more.frames;
        self.lost += more.lost;
    }

    fn without(self, part: Self) -> Self {
        Self { frames: (self.frames - part.frames).max(0.0), lost: (self.lost - part.lost).max(0.0) }
    }

    /// The interval of the share that was lost.
    fn interval(&self, z: f64) -> (f64, f64) {
        estimate::wilson(self.lost, self.frames, z)
    }

    fn share(&self) -> f64 {
        if self.frames > 0.0 { (self.lost / self.frames).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Logarithm of how likely these counts are where this share is lost.
    fn ln_likelihood(&self, share: f64) -> f64 {
        let term = |count: f64, p: f64| if count > 0.0 { count * p.ln() } else { 0.0 };
        term(self.lost, share) + term((self.frames - self.lost).max(0.0), 1.0 - share)
    }

    /// How much two counts speak against one share for both: twice the logarithm of the ratio of likelihoods, by chance the square of a standard normal variable
    /// (Wilks 1938).
    fn differs(&self, other: Self) -> f64 {
        let mut both = *self;
        both.add(other);
        let one = self.ln_likelihood(both.share()) + other.ln_likelihood(both.share());
        let two = self.ln_likelihood(self.share()) + other.ln_likelihood(other.share());
        (2.0 * (two - one)).max(0.0)
    }
}

/// The latest frames, as many as its length and up to twice that.
#[derive(Debug, Clone, Copy, Default)]
struct SampleWindow {
    before: DecayingCounts,
    now: DecayingCounts,
}

impl SampleWindow {
    fn of(length: f64, counts: DecayingCounts) -> Self {
        let mut stretch = Self::default();
        stretch.add(length, counts);
        stretch
    }

    fn fade(&mut self, factor: f64) {
        self.before.fade(factor);
        self.now.fade(factor);
    }

    fn add(&mut self, length: f64, counts: DecayingCounts) {
        self.now.add(counts);
        if self.now.frames >= length {
            self.before = std::mem::take(&mut self.now);
        }
    }

    fn counts(&self) -> DecayingCounts {
        let mut counts = self.before;
        counts.add(self.now);
        counts
    }

    /// All of it, and the later part of it.
    fn parts(&self) -> [DecayingCounts; 2] {
        [self.counts(), self.now]
    }
}

/// Frames of each stretch.
fn lengths() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(SHORTEST), |length| Some(LONGER * length)).take(STRETCHES)
}

/// What a link loses has become another share than before, beyond chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Less,
    More,
}

/// Share of the frames that a link loses, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossEstimate {
    pub(crate) share: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Frames that it rests on.
    pub(crate) frames: f64,
}

/// Follows the losses of a link. After each look the latest stretches of frames, of many lengths, are held against what was before them: where one differs beyond
/// chance, the link has changed, and what was before is forgotten (generalised likelihood ratio over a few candidate times of change; Lai, *Sequential changepoint
/// detection in quality control and dynamical systems*, 1995). So a change is found as soon as the frames since then tell, be they many a second or few.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loss {
    known: DecayingCounts,
    stretches: [SampleWindow; STRETCHES],
    latest: DecayingCounts,
    at: Option<Instant>,
    /// What speaks for a change since some time, in the terms of [`CHANGED`].
    told: f64,
    /// Frames that were counted since the last change, however long ago.
    counted: f64,
    /// Instead of all that, in the paper's way.
    sensing: Option<Sensing>,
}

impl Loss {
    /// `sensor`: the share is what the paper's sensor says.
    pub(crate) fn new(sensor: Option<LossSensor>) -> Self {
        Self { sensing: sensor.map(Sensing::new), ..Self::default() }
    }

    /// Of so many probes of the sensor that were sent since the last time, so many were lost.
    pub(crate) fn note_probes(&mut self, now: Instant, probes: u64, lost: u64) {
        if let Some(sensing) = &mut self.sensing {
            sensing.note(now, probes, lost);
        }
    }

    /// Of `frames` that were sent since the last time, `lost` did not arrive. Says whether that is another share than before.
    pub(crate) fn note(&mut self, now: Instant, frames: u64, lost: u64) -> Option<Change> {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        self.at = Some(now);
        let counts = DecayingCounts { frames: frames as f64, lost: lost as f64 };
        self.latest.fade((-passed / QUICK).exp2());
        self.latest.add(counts);
        self.counted += counts.frames;
        // All alike, so that what is known and is in no stretch is what was before it.
        let factor = (-passed / HALF_LIFE).exp2();
        self.known.fade(factor);
        self.known.add(counts);
        for (stretch, length) in self.stretches.iter_mut().zip(lengths()) {
            stretch.fade(factor);
            stretch.add(length, counts);
        }
        let (since, before) = self.change()?;
        self.counted = since.frames;
        self.begin_with(since);
        Some(if since.share() > before.share() { Change::More } else { Change::Less })
    }

    /// What was counted since the share changed, and before; `None`: too little speaks for a change.
    fn change(&mut self) -> Option<(DecayingCounts, DecayingCounts)> {
        let splits =
            self.stretches.iter().flat_map(SampleWindow::parts).map(|since| (since, self.known.without(since)));
        let may_tell = |(since, before): &(DecayingCounts, DecayingCounts)| {
            since.frames >= SHORTEST && before.frames >= since.frames
        };
        // So many stretches of this length are in what is known, each of which might differ: a fast link has more of them in the same time.
        let chance = |(since, before): &(DecayingCounts, DecayingCounts)| 2.0 * (before.frames / since.frames).ln();
        let told = |split: (DecayingCounts, DecayingCounts)| (split.0.differs(split.1) - chance(&split), split);
        let most = splits.filter(may_tell).map(told).max_by(|a, b| a.0.total_cmp(&b.0));
        self.told = most.map_or(0.0, |(told, _)| told);
        most.filter(|(told, _)| *told > CHANGED).map(|(_, split)| split)
    }

    /// Whether something speaks for a change, or too little is known since the last one.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.told > IN_DOUBT || self.counted < SETTLED
    }

    fn begin_with(&mut self, since: DecayingCounts) {
        self.known = since;
        for (stretch, length) in self.stretches.iter_mut().zip(lengths()) {
            if stretch.counts().frames > since.frames {
                *stretch = SampleWindow::of(length, since);
            }
        }
    }

    /// What the last half second or so says, with an interval of three standard deviations; of few frames, or none, where nothing was counted since.
    pub(crate) fn latest(&self, now: Instant) -> LossEstimate {
        let mut latest = self.latest;
        latest.fade(self.at.map_or(0.0, |at| (-now.saturating_since(at).as_secs_f64() / QUICK).exp2()));
        let (low, high) = latest.interval(Z_LATEST);
        LossEstimate { share: latest.share(), low, high, frames: latest.frames }
    }

    /// What is known now.
    pub(crate) fn estimate(&self) -> LossEstimate {
        if let Some(sensing) = self.sensing.as_ref().filter(|s| s.is_current(self.at)) {
            // The paper takes it as it is.
            let share = sensing.share();
            return LossEstimate { share, low: share, high: share, frames: sensing.probes() as f64 };
        }
        let (low, high) = self.known.interval(Z);
        LossEstimate { share: self.known.share(), low, high, frames: self.known.frames }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    const TICK: Duration = Duration::from_millis(100);

    /// How many of these frames are lost.
    fn lost(prng: &mut ChaCha8Rng, of: u64, share: f64) -> u64 {
        (0..of).filter(|_| f64::from(prng.next_u32()) < share * f64::from(u32::MAX)).count() as u64
    }

    /// Seconds until the estimate is nearer to the new share than to the old one, and until its interval leaves the old one out as widely as route control wants
    /// it (two times as wide).
    fn seconds_to_notice(seed: u64, frames: u64, from: f64, to: f64) -> [f64; 2] {
        let (mut loss, mut prng, mut now) = (Loss::default(), ChaCha8Rng::seed_from_u64(seed), Instant::from_nanos(0));
        let mut told = [f64::INFINITY; 2];
        for tick in 0..1200 {
            now = now + TICK;
            let share = if tick < 600 { from } else { to };
            loss.note(now, frames, lost(&mut prng, frames, share));
            let e = loss.estimate();
            let (nearer, width) = ((e.share - to).abs() < (e.share - from).abs(), e.high - e.low);
            let sure = nearer && (e.share - from).abs() > width;
            for (told, is_so) in told.iter_mut().zip([nearer, sure]) {
                if tick >= 600 && is_so {
                    *told = told.min(f64::from(tick - 599) / 10.0);
                }
            }
        }
        told
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    #[test]
    fn the_papers_changes_are_noticed_within_two_seconds() {
        // 0.05 to 0.15 and back (figure 4), at 300 frames a second, as TCP at 5 % loss and 30 ms sends (formula 1: 1.7 Mb/s is 150; two
        // flows), and from nothing to a hundredth at 2000.
        for (frames, from, to, at_most) in
            [(30, 0.05, 0.15, 2.0), (30, 0.15, 0.05, 2.0), (200, 0.0, 0.01, 1.5), (30, 0.0, 1.0, 0.7)]
        {
            let m = median((1..100).map(|seed| seconds_to_notice(seed, frames, from, to)[0]).collect());
            assert!(m <= at_most, "{from} to {to}: {m} s");
        }
    }

    #[test]
    fn a_few_frames_a_second_are_enough_within_some_seconds() {
        // What 1 % of a link of 3 Mb/s pays for: 40. An interval of 0.15 is as narrow as that with 196 frames, 4.9 s after a change. To know 0.05 from 0.15 by
        // four standard deviations, 8 nats, takes 157 frames of 0.05 ln(1/3) + 0.95 ln(0.95/0.85) = 0.05 nats each, 3.9 s. Neither knows when it was.
        for (from, to) in [(0.05, 0.15), (0.15, 0.05)] {
            let m = median((1..100).map(|seed| seconds_to_notice(seed, 4, from, to)[1]).collect());
            assert!(m <= 6.0, "{from} to {to}: {m} s");
        }
    }

    #[test]
    fn chance_is_seldom_taken_for_a_change_however_many_frames_there_are() {
        for (frames, share) in [(4, 0.05), (5, 0.15), (30, 0.05), (80, 0.002), (80, 0.01), (80, 0.15), (1000, 0.0001)] {
            let of_seed = |seed| {
                let (mut loss, mut prng, mut now) =
                    (Loss::default(), ChaCha8Rng::seed_from_u64(seed), Instant::from_nanos(0));
                // An hour and more.
                let looks = (0..40_000).filter(|_| {
                    now = now + TICK;
                    loss.note(now, frames, lost(&mut prng, frames, share)).is_some()
                });
                looks.count()
            };
            let changes: Vec<usize> = (0..4).map(of_seed).collect();
            // A wrong one is often followed by a second, back.
            assert!(changes.iter().all(|n| *n <= 3), "{frames} of {share}: {changes:?}");
        }
    }

    #[test]
    fn a_steady_loss_stays_what_it_is() {
        for (frames, share) in [(5, 0.1), (30, 0.05), (1000, 0.001)] {
            let (mut loss, mut prng, mut now) = (Loss::default(), ChaCha8Rng::seed_from_u64(3), Instant::from_nanos(0));
            let (mut inside, mut looks) = (0, 0);
            for tick in 0..6000 {
                now = now + TICK;
                loss.note(now, frames, lost(&mut prng, frames, share));
                if tick > 300 {
                    let e = loss.estimate();
                    looks += 1;
                    inside += u32::from(e.low <= share && share <= e.high);
                }
            }
            // 95 % are wanted; looks depend on each other over some 14 s, so that 600 s are some 40 independent ones: +-7 %.
            assert!(f64::from(inside) / f64::from(looks) > 0.88, "{share}: {inside} of {looks}");
        }
    }

    #[test]
    fn of_a_member_that_sends_no_probes_of_a_sensor_all_frames_count() {
        let mut loss = Loss::new(LossSensor::new(None, None).ok());
        let second = |n| Instant::from_nanos(0) + Duration::from_secs(n);
        let share = |loss: &Loss| loss.estimate().share;
        loss.note(second(0), 1000, 300);
        assert!((share(&loss) - 0.3).abs() < 1e-9 && loss.estimate().high > 0.3);
        loss.note_probes(second(1), 5, 0);
        loss.note(second(100), 1000, 300);
        assert_eq!(share(&loss), 0.0);
        loss.note(second(122), 1000, 300);
        assert!((share(&loss) - 0.3).abs() < 1e-9, "it has sent none for two intervals");
    }
}
