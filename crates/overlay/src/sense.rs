//! What frames tell of a link without being asked: losses by their sequence numbers, round trips by their reports, silence.

use std::time::Duration;

use units::{Instant, Rate};

/// Half-life of the estimate that follows a change, and of the one that is certain.
const QUICK: f64 = 0.4;
const CALM: f64 = 10.0;
/// Standard deviations of an interval: 95 %.
const Z: f64 = 1.96;
/// Standard deviations for a change: 1 false one in 10^4 looks.
const Z_CHANGE: f64 = 3.0;
/// Frames that the quick estimate must rest on before it may contradict the calm one.
const LEAST_FRAMES: f64 = 20.0;
/// Frames of a new beginning that are believed although the quick estimate rests on more.
const ENOUGH: f64 = 60.0;
/// For how long the least round trip is remembered: two such spans at most. A path that became longer is known to be so then.
const RTT_SPAN: Duration = Duration::from_secs(10);

/// Counts that lose half their weight in each half-life.
#[derive(Debug, Clone, Copy, Default)]
struct Fading {
    frames: f64,
    lost: f64,
}

impl Fading {
    fn fade(&mut self, seconds: f64, half_life: f64) {
        let factor = (-seconds / half_life).exp2();
        self.frames *= factor;
        self.lost *= factor;
    }

    fn add(&mut self, frames: f64, lost: f64) {
        self.frames += frames;
        self.lost += lost;
    }

    /// The interval of the share that was lost.
    fn interval(&self, z: f64) -> (f64, f64) {
        estimate::wilson(self.lost, self.frames, z)
    }

    fn share(&self) -> f64 {
        if self.frames > 0.0 { (self.lost / self.frames).clamp(0.0, 1.0) } else { 0.0 }
    }
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

/// The loss rate sensor of SAFIRE (Mark et al. 2008, section II.A): what was lost in each interval of `T_loss`, averaged over two intervals. Until the first
/// is over there is what it has seen so far.
#[derive(Debug, Clone, Copy)]
struct Intervals {
    length: Duration,
    began: Option<Instant>,
    now: Fading,
    /// Raw estimates of the last intervals, the latest last.
    raw: [Option<f64>; 2],
}

impl Intervals {
    fn note(&mut self, at: Instant, frames: f64, lost: f64) {
        let began = *self.began.get_or_insert(at);
        if at.saturating_since(began) >= self.length {
            self.raw = [self.raw[1], Some(self.now.share())];
            (self.began, self.now) = (Some(at), Fading::default());
        }
        self.now.add(frames, lost);
    }

    fn share(&self) -> f64 {
        let known = self.raw.iter().flatten();
        let count = known.clone().count();
        if count == 0 { self.now.share() } else { known.sum::<f64>() / count as f64 }
    }
}

/// Follows the losses of a link: a calm estimate, which gives way to a quick one when both cannot be true.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loss {
    quick: Fading,
    calm: Fading,
    at: Option<Instant>,
    /// Instead of both, in the paper's way.
    intervals: Option<Intervals>,
}

impl Loss {
    /// `t_loss`: by the paper's intervals of this length.
    pub(crate) fn new(t_loss: Option<Duration>) -> Self {
        let of = |length| Intervals { length, began: None, now: Fading::default(), raw: [None; 2] };
        Self { intervals: t_loss.map(of), ..Self::default() }
    }

    /// Of `frames` that were sent since the last time, `lost` did not arrive. Says whether that is another share than before.
    pub(crate) fn note(&mut self, now: Instant, frames: u64, lost: u64) -> Option<Change> {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        self.at = Some(now);
        self.quick.fade(passed, QUICK);
        self.calm.fade(passed, CALM);
        let (frames, lost) = (frames as f64, lost as f64);
        if let Some(intervals) = &mut self.intervals {
            intervals.note(now, frames, lost);
        }
        self.quick.add(frames, lost);
        self.calm.add(frames, lost);
        let (low, high) = self.quick.interval(Z_CHANGE);
        let calm = self.calm.share();
        // One that has just begun anew waits until what was before has faded from the quick one, too.
        let may_contradict = self.quick.frames >= LEAST_FRAMES && self.calm.frames >= self.quick.frames;
        let change = if calm < low { Change::More } else { Change::Less };
        (may_contradict && (calm < low || calm > high)).then(|| {
            // From here on only what is new: the quick one still holds some of what was before.
            self.calm = Fading::default();
            change
        })
    }

    /// What the last half second or so says, with an interval of three standard deviations.
    pub(crate) fn latest(&self) -> LossEstimate {
        let (low, high) = self.quick.interval(Z_CHANGE);
        LossEstimate { share: self.quick.share(), low, high, frames: self.quick.frames }
    }

    /// What is known now.
    pub(crate) fn estimate(&self) -> LossEstimate {
        if let Some(intervals) = &self.intervals {
            // The paper takes it as it is.
            let share = intervals.share();
            return LossEstimate { share, low: share, high: share, frames: self.calm.frames };
        }
        // After a change the one with more frames: first the quick one, soon the calm one.
        let known = if self.calm.frames >= self.quick.frames.min(ENOUGH) { self.calm } else { self.quick };
        let (low, high) = known.interval(Z);
        LossEstimate { share: known.share(), low, high, frames: known.frames }
    }
}

/// Counts of a sequence at two times, and what was lost in between. Frames that are overtaken count as lost first and are given back when
/// they come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gaps {
    end: u64,
    received: u64,
    /// Lost in excess of what the numbers show: frames that came although they had been counted as lost.
    debt: u64,
}

impl Gaps {
    /// `end`: one more than the highest number, `received`: how many arrived. Gives frames sent and lost since the last time. Numbers that go
    /// back, as those of a liar may, count as nothing.
    pub(crate) fn note(&mut self, end: u64, received: u64) -> (u64, u64) {
        let sent = end.saturating_sub(self.end);
        let came = received.saturating_sub(self.received);
        self.end = self.end.max(end);
        self.received = self.received.max(received);
        let lost = sent.saturating_sub(came);
        self.debt += came.saturating_sub(sent);
        let forgiven = lost.min(self.debt);
        self.debt -= forgiven;
        (sent, lost - forgiven)
    }
}

/// The rate at which something arrives, by what its receiver reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    bytes: u64,
    at: Option<Instant>,
    bps: f64,
}

impl Carried {
    /// So many bytes had arrived; a number that goes back is that of a new session.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        let arrived = bytes.checked_sub(self.bytes);
        if let Some(arrived) = arrived.filter(|_| passed > 0.0) {
            // Half of it is that of the last third of a second or so.
            let weight = 1.0 - (-passed / QUICK).exp2();
            self.bps += weight * (8.0 * arrived as f64 / passed - self.bps);
        }
        (self.bytes, self.at) = (bytes, Some(now));
    }

    /// Bits a second, nothing when there was no report for a while.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        let recent = self.at.is_some_and(|at| now.saturating_since(at) < Duration::from_secs(1));
        Rate::from_bps(if recent { self.bps as u64 } else { 0 })
    }
}

/// The least round trip of the last seconds, and the latest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    latest: Option<Duration>,
    /// Least of the span that goes on, and of the one before.
    least: [Option<Duration>; 2],
    since: Option<Instant>,
}

impl RoundTrip {
    pub(crate) fn note(&mut self, now: Instant, rtt: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) > RTT_SPAN {
            self.least = [None, self.least[0]];
            self.since = Some(now);
        }
        self.latest = Some(rtt);
        let lower = self.least[0].map_or(rtt, |l| l.min(rtt));
        self.least[0] = Some(lower);
    }

    /// That of the idle path, as far as the last seconds show it.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least.iter().flatten().min().copied()
    }

    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    const TICK: Duration = Duration::from_millis(100);

    /// How many of these frames are lost.
    fn lost(draws: &mut ChaCha8Rng, of: u64, share: f64) -> u64 {
        (0..of).filter(|_| f64::from(draws.next_u32()) < share * f64::from(u32::MAX)).count() as u64
    }

    /// Seconds until the estimate is nearer to the new share than to the old one.
    fn seconds_to_notice(seed: u64, frames: u64, from: f64, to: f64) -> f64 {
        let (mut loss, mut draws, mut now) = (Loss::default(), ChaCha8Rng::seed_from_u64(seed), Instant::from_nanos(0));
        for tick in 0..1000 {
            now = now + TICK;
            let share = if tick < 600 { from } else { to };
            loss.note(now, frames, lost(&mut draws, frames, share));
            let estimate = loss.estimate().share;
            if tick >= 600 && (estimate - to).abs() < (estimate - from).abs() {
                return f64::from(tick - 599) / 10.0;
            }
        }
        f64::INFINITY
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
            let times: Vec<f64> = (1..100).map(|seed| seconds_to_notice(seed, frames, from, to)).collect();
            let m = median(times);
            assert!(m <= at_most, "{from} to {to}: {m} s");
        }
    }

    #[test]
    fn a_steady_loss_stays_what_it_is() {
        for (frames, share) in [(5, 0.1), (30, 0.05), (1000, 0.001)] {
            let (mut loss, mut draws, mut now) =
                (Loss::default(), ChaCha8Rng::seed_from_u64(3), Instant::from_nanos(0));
            let (mut inside, mut looks) = (0, 0);
            for tick in 0..6000 {
                now = now + TICK;
                loss.note(now, frames, lost(&mut draws, frames, share));
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
    fn the_papers_sensor_averages_the_last_two_intervals() {
        let (mut loss, mut now) = (Loss::new(Some(Duration::from_secs(60))), Instant::from_nanos(0));
        let mut minute = |loss: &mut Loss, lost: u64| {
            for _ in 0..60 {
                loss.note(now, 100, lost);
                now = now + Duration::from_secs(1);
            }
            loss.note(now, 0, 0);
            let e = loss.estimate();
            assert_eq!((e.low, e.high), (e.share, e.share));
            e.share
        };
        let told = [5, 15, 15, 5].map(|lost| minute(&mut loss, lost));
        // 0.05; the mean of it and 0.15; 0.15; the mean again.
        for (told, expected) in told.into_iter().zip([0.05, 0.1, 0.15, 0.1]) {
            assert!((told - expected).abs() < 1e-9, "{told} {expected}");
        }
    }

    #[test]
    fn overtaken_frames_are_given_back() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.note(10, 8), (10, 2));
        assert_eq!(gaps.note(20, 20), (10, 0), "two came late");
        assert_eq!(gaps.note(30, 28), (10, 0), "and are taken from what is lost next");
        assert_eq!(gaps.note(5, 3), (0, 0), "numbers that go back are ignored");
        assert_eq!(gaps.note(40, 37), (10, 1));
    }

    #[test]
    fn what_arrives_is_known_within_a_second_and_forgotten_with_the_reports() {
        let (mut carried, mut now) = (Carried::default(), Instant::from_nanos(1));
        for report in 0..20 {
            now = now + TICK;
            carried.note(now, 125_000 * report);
        }
        let rate = carried.rate(now).as_bps() as f64;
        assert!((rate / 10e6 - 1.0).abs() < 0.1, "10 Mb/s: {rate}");
        carried.note(now + TICK, 0);
        assert_eq!(carried.rate(now + 2 * Duration::from_secs(1)).as_bps(), 0);
    }

    #[test]
    fn a_path_that_became_longer_is_known_to_be_so() {
        let mut rtt = RoundTrip::default();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        let ms = Duration::from_millis;
        rtt.note(at(0), ms(10));
        rtt.note(at(5), ms(30));
        assert_eq!(rtt.least(), Some(ms(10)));
        rtt.note(at(11), ms(30));
        assert_eq!(rtt.least(), Some(ms(10)), "it may have been a queue");
        rtt.note(at(22), ms(30));
        assert_eq!((rtt.least(), rtt.latest()), (Some(ms(30)), Some(ms(30))));
    }
}
