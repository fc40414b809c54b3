//! Loss estimator of a link: the share of lost frames since the last change of that share.

use units::Instant;

use crate::sensor::{LossSensor, Sensing};

/// Half-life of the counts, in seconds. It can be long, because the change detector discards outdated counts.
const HALF_LIFE_S: f64 = 20.0;
/// Half-life of the counts of [`Loss::latest`], in seconds.
const LATEST_HALF_LIFE_S: f64 = 0.4;
/// Standard deviations of the confidence interval: 95 %.
const Z: f64 = 1.96;
/// Standard deviations of the confidence interval of [`Loss::latest`].
const Z_LATEST: f64 = 3.0;
/// Threshold of the change detector: twice the log likelihood ratio, above the correction for the number of windows. It
/// is four standard deviations for a window of two fifths of all counts, and five for a 150th. Paths are compared by
/// the counts since the last change, so a false detection must be rare.
const CHANGE_THRESHOLD: f64 = 15.0;
/// Threshold above which the estimate is in doubt and is worth more probes. Without a change, one of twelve independent
/// tests exceeds it.
const DOUBT_THRESHOLD: f64 = 3.0;
/// Frames after a change after which the estimate is no longer in doubt: 0.05 is known within 0.025.
const SETTLED_FRAMES: f64 = 300.0;
/// Frames of the shortest [`SampleWindow`], ratio of the lengths of two successive windows, and number of windows. The
/// longest has 8800 frames. The ratio bounds the number of older frames that a window counts as frames after the
/// change, which distort the estimate until their weight has decayed.
const WINDOW_FRAMES_MIN: f64 = 20.0;
const WINDOW_RATIO: f64 = 1.5;
const WINDOWS: usize = 16;

/// Frame counts whose weight decays exponentially.
#[derive(Debug, Clone, Copy, Default)]
struct DecayingCounts {
    frames: f64,
    lost: f64,
}

impl DecayingCounts {
    fn decay(&mut self, factor: f64) {
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

    /// Confidence interval of the loss (Wilson). `z`: standard deviations.
    fn interval(&self, z: f64) -> (f64, f64) {
        estimate::wilson(self.lost, self.frames, z)
    }

    fn share(&self) -> f64 {
        if self.frames > 0.0 { (self.lost / self.frames).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Log likelihood of the counts at this loss.
    fn ln_likelihood(&self, share: f64) -> f64 {
        let term = |count: f64, p: f64| if count > 0.0 { count * p.ln() } else { 0.0 };
        term(self.lost, share) + term((self.frames - self.lost).max(0.0), 1.0 - share)
    }

    /// Evidence against a common loss of two counts: twice the log likelihood ratio. Under the null hypothesis it is
    /// the square of a standard normal variable (Wilks 1938).
    fn log_likelihood_ratio(&self, other: Self) -> f64 {
        let mut both = *self;
        both.add(other);
        let one = self.ln_likelihood(both.share()) + other.ln_likelihood(both.share());
        let two = self.ln_likelihood(self.share()) + other.ln_likelihood(other.share());
        (2.0 * (two - one)).max(0.0)
    }
}

/// Counts of the latest frames: at least the length of the window, at most twice that.
#[derive(Debug, Clone, Copy, Default)]
struct SampleWindow {
    before: DecayingCounts,
    now: DecayingCounts,
}

impl SampleWindow {
    fn of(length: f64, counts: DecayingCounts) -> Self {
        let mut window = Self::default();
        window.add(length, counts);
        window
    }

    fn decay(&mut self, factor: f64) {
        self.before.decay(factor);
        self.now.decay(factor);
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

    /// The counts of the whole window, and those of its later part.
    fn parts(&self) -> [DecayingCounts; 2] {
        [self.counts(), self.now]
    }
}

/// Frames of each window, in ascending order.
fn lengths() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(WINDOW_FRAMES_MIN), |length| Some(WINDOW_RATIO * length)).take(WINDOWS)
}

/// Significant change of the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Less,
    More,
}

/// Estimate of the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossEstimate {
    /// Share of lost frames, 0..=1.
    pub(crate) share: f64,
    /// Lower end of the confidence interval.
    pub(crate) low: f64,
    /// Upper end of the confidence interval.
    pub(crate) high: f64,
    /// Weighted number of frames in the estimate.
    pub(crate) frames: f64,
}

/// Loss estimator with change detection.
///
/// After each reading, the detector compares windows of the latest frames, of several lengths, with the frames before
/// them. If one differs significantly, the earlier counts are discarded. This is a generalised likelihood ratio test
/// over a few candidate times of change (Lai, *Sequential changepoint detection in quality control and dynamical
/// systems*, 1995). The delay of the detection depends on the number of frames after the change, at any frame rate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loss {
    /// Counts since the last change.
    counts: DecayingCounts,
    windows: [SampleWindow; WINDOWS],
    latest: DecayingCounts,
    at: Option<Instant>,
    /// Evidence for a change, in the unit of [`CHANGE_THRESHOLD`].
    evidence: f64,
    /// Frames since the last change, without decay.
    frames_since_change: f64,
    /// Estimate of the loss sensor of the paper, which replaces the one above.
    sensing: Option<Sensing>,
}

impl Loss {
    /// `sensor`: the loss sensor of the paper, whose estimate is used while it has results.
    pub(crate) fn new(sensor: Option<LossSensor>) -> Self {
        Self { sensing: sensor.map(Sensing::new), ..Self::default() }
    }

    /// Takes the sent and lost probes of the loss sensor since the previous reading.
    pub(crate) fn note_probes(&mut self, now: Instant, probes: u64, lost: u64) {
        if let Some(sensing) = &mut self.sensing {
            sensing.note(now, probes, lost);
        }
    }

    /// Takes the sent and lost frames since the previous reading; returns a detected change of the loss.
    pub(crate) fn note(&mut self, now: Instant, frames: u64, lost: u64) -> Option<Change> {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        self.at = Some(now);
        let counts = DecayingCounts { frames: frames as f64, lost: lost as f64 };
        self.latest.decay((-passed / LATEST_HALF_LIFE_S).exp2());
        self.latest.add(counts);
        self.frames_since_change += counts.frames;
        // The same decay for all, so that the difference of all counts and those of a window are the counts before it.
        let factor = (-passed / HALF_LIFE_S).exp2();
        self.counts.decay(factor);
        self.counts.add(counts);
        for (window, length) in self.windows.iter_mut().zip(lengths()) {
            window.decay(factor);
            window.add(length, counts);
        }
        let (since, before) = self.detect_change()?;
        self.frames_since_change = since.frames;
        self.restart_with(since);
        Some(if since.share() > before.share() { Change::More } else { Change::Less })
    }

    /// The counts since a change and those before it; `None` without a significant change.
    fn detect_change(&mut self) -> Option<(DecayingCounts, DecayingCounts)> {
        let splits = self.windows.iter().flat_map(SampleWindow::parts).map(|since| (since, self.counts.without(since)));
        let is_testable = |(since, before): &(DecayingCounts, DecayingCounts)| {
            since.frames >= WINDOW_FRAMES_MIN && before.frames >= since.frames
        };
        // Correction for multiple tests: the number of windows of this length in all counts, which grows with the frame
        // rate.
        let correction = |(since, before): &(DecayingCounts, DecayingCounts)| 2.0 * (before.frames / since.frames).ln();
        let evidence = |split: (DecayingCounts, DecayingCounts)| {
            (split.0.log_likelihood_ratio(split.1) - correction(&split), split)
        };
        let strongest = splits.filter(is_testable).map(evidence).max_by(|a, b| a.0.total_cmp(&b.0));
        self.evidence = strongest.map_or(0.0, |(evidence, _)| evidence);
        strongest.filter(|(evidence, _)| *evidence > CHANGE_THRESHOLD).map(|(_, split)| split)
    }

    /// Whether more frames would help: there is some evidence for a change, or there were few frames since the last
    /// one.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.evidence > DOUBT_THRESHOLD || self.frames_since_change < SETTLED_FRAMES
    }

    fn restart_with(&mut self, since: DecayingCounts) {
        self.counts = since;
        for (window, length) in self.windows.iter_mut().zip(lengths()) {
            if window.counts().frames > since.frames {
                *window = SampleWindow::of(length, since);
            }
        }
    }

    /// Loss over about the last half second, with a confidence interval of three standard deviations. The number of
    /// frames decays to zero without new ones.
    pub(crate) fn latest(&self, now: Instant) -> LossEstimate {
        let mut latest = self.latest;
        latest.decay(self.at.map_or(0.0, |at| (-now.saturating_since(at).as_secs_f64() / LATEST_HALF_LIFE_S).exp2()));
        let (low, high) = latest.interval(Z_LATEST);
        LossEstimate { share: latest.share(), low, high, frames: latest.frames }
    }

    /// Loss since the last change, or the result of the loss sensor.
    pub(crate) fn estimate(&self) -> LossEstimate {
        if let Some(sensing) = self.sensing.as_ref().filter(|s| s.is_current(self.at)) {
            // The paper has no confidence interval.
            let share = sensing.share();
            return LossEstimate { share, low: share, high: share, frames: sensing.probes() as f64 };
        }
        let (low, high) = self.counts.interval(Z);
        LossEstimate { share: self.counts.share(), low, high, frames: self.counts.frames }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    const TICK: Duration = Duration::from_millis(100);

    /// Random number of lost frames.
    fn lost(prng: &mut ChaCha8Rng, of: u64, share: f64) -> u64 {
        (0..of).filter(|_| f64::from(prng.next_u32()) < share * f64::from(u32::MAX)).count() as u64
    }

    /// Seconds until the estimate is closer to the new loss than to the old one, and until their distance exceeds the
    /// width of the confidence interval, as route control requires.
    fn seconds_to_detect(seed: u64, frames: u64, from: f64, to: f64) -> [f64; 2] {
        let (mut loss, mut prng, mut now) = (Loss::default(), ChaCha8Rng::seed_from_u64(seed), Instant::from_nanos(0));
        let mut seconds = [f64::INFINITY; 2];
        for tick in 0..1200 {
            now = now + TICK;
            let share = if tick < 600 { from } else { to };
            loss.note(now, frames, lost(&mut prng, frames, share));
            let e = loss.estimate();
            let (is_closer, width) = ((e.share - to).abs() < (e.share - from).abs(), e.high - e.low);
            let is_significant = is_closer && (e.share - from).abs() > width;
            for (seconds, is_reached) in seconds.iter_mut().zip([is_closer, is_significant]) {
                if tick >= 600 && is_reached {
                    *seconds = seconds.min(f64::from(tick - 599) / 10.0);
                }
            }
        }
        seconds
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    #[test]
    fn the_changes_of_the_paper_are_detected_within_two_seconds() {
        // 0.05 to 0.15 and back (figure 4), at 300 frames per second, the rate of two TCP flows at 5 % loss and 30 ms
        // (formula 1: 1.7 Mb/s or 150 frames per second each); and 0 to 0.01 at 2000 frames per second.
        for (frames, from, to, seconds_max) in
            [(30, 0.05, 0.15, 2.0), (30, 0.15, 0.05, 2.0), (200, 0.0, 0.01, 1.5), (30, 0.0, 1.0, 0.7)]
        {
            let m = median((1..100).map(|seed| seconds_to_detect(seed, frames, from, to)[0]).collect());
            assert!(m <= seconds_max, "{from} to {to}: {m} s");
        }
    }

    #[test]
    fn changes_are_detected_within_six_seconds_at_forty_frames_per_second() {
        // 40 frames per second are 1 % of a link of 3 Mb/s. The confidence interval of 0.15 is narrow enough with 196
        // frames, 4.9 s after a change. Four standard deviations between 0.05 and 0.15, 8 nats, take 157 frames of 0.05
        // ln(1/3) + 0.95 ln(0.95/0.85) = 0.05 nats each, 3.9 s. Both bounds assume a known time of the change.
        for (from, to) in [(0.05, 0.15), (0.15, 0.05)] {
            let m = median((1..100).map(|seed| seconds_to_detect(seed, 4, from, to)[1]).collect());
            assert!(m <= 6.0, "{from} to {to}: {m} s");
        }
    }

    #[test]
    fn false_detections_are_rare_at_any_frame_rate() {
        for (frames, share) in [(4, 0.05), (5, 0.15), (30, 0.05), (80, 0.002), (80, 0.01), (80, 0.15), (1000, 0.0001)] {
            let of_seed = |seed| {
                let (mut loss, mut prng, mut now) =
                    (Loss::default(), ChaCha8Rng::seed_from_u64(seed), Instant::from_nanos(0));
                // More than an hour.
                let looks = (0..40_000).filter(|_| {
                    now = now + TICK;
                    loss.note(now, frames, lost(&mut prng, frames, share)).is_some()
                });
                looks.count()
            };
            let changes: Vec<usize> = (0..4).map(of_seed).collect();
            // A second detection often follows a false one, in the opposite direction.
            assert!(changes.iter().all(|n| *n <= 3), "{frames} of {share}: {changes:?}");
        }
    }

    #[test]
    fn the_interval_contains_a_constant_loss() {
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
            // The nominal coverage is 95 %. Readings are correlated over some 14 s, so 600 s have some 40 independent
            // ones: +-7 %.
            assert!(f64::from(inside) / f64::from(looks) > 0.88, "{share}: {inside} of {looks}");
        }
    }

    #[test]
    fn without_sensor_probes_all_frames_count() {
        let mut loss = Loss::new(LossSensor::new(None, None).ok());
        let second = |n| Instant::from_nanos(0) + Duration::from_secs(n);
        let share = |loss: &Loss| loss.estimate().share;
        loss.note(second(0), 1000, 300);
        assert!((share(&loss) - 0.3).abs() < 1e-9 && loss.estimate().high > 0.3);
        loss.note_probes(second(1), 5, 0);
        loss.note(second(100), 1000, 300);
        assert_eq!(share(&loss), 0.0);
        loss.note(second(122), 1000, 300);
        assert!((share(&loss) - 0.3).abs() < 1e-9, "no probe for two intervals");
    }
}
