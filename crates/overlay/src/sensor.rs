//! Loss sensor of SAFIRE's sensing infrastructure (Mark et al. 2008, section II.A). In each interval T_loss it sends
//! N_loss probes with a spacing of x_loss over a link. The raw estimate is the share of lost probes in an interval; the
//! result is the mean of the last two raw estimates.

use std::time::Duration;

use units::Instant;

/// The paper's T_loss (section IV.C).
const T_LOSS: Duration = Duration::from_secs(60);
/// Default probes per second. A raw estimate over the default T_loss then has 300 probes, which measure a loss of 0.05
/// within 0.025 (95 %).
const PROBES_PER_S_DEFAULT: f64 = 5.0;
/// Minimum of N_loss. With fewer probes, no result of two intervals is significant enough for a change of route.
const PROBES_MIN: u32 = 25;
/// Minimum spacing of the probes, as the core is not polled more often.
const SPACING_MIN: Duration = Duration::from_millis(10);

/// Parameters of the loss sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossSensor {
    t_loss: Duration,
    n_loss: u32,
}

impl LossSensor {
    /// Creates the parameters. Defaults: 60 s as in the paper, and five probes per second, at least 25.
    ///
    /// # Errors
    ///
    /// Fails when the interval is zero, with fewer than 25 probes, or with a spacing below 10 ms.
    pub fn new(t_loss: Option<Duration>, n_loss: Option<u32>) -> Result<Self, String> {
        let t_loss = t_loss.unwrap_or(T_LOSS);
        if t_loss.is_zero() {
            return Err("`loss_interval` = 0s is out of range; it must be greater than 0".to_owned());
        }
        let default = || ((PROBES_PER_S_DEFAULT * t_loss.as_secs_f64()).ceil() as u32).max(PROBES_MIN);
        let sensor = Self { t_loss, n_loss: n_loss.unwrap_or_else(default) };
        if sensor.n_loss < PROBES_MIN {
            return Err(format!("`loss_probes` = {} is out of range; the minimum is {PROBES_MIN}", sensor.n_loss));
        }
        if sensor.spacing() < SPACING_MIN {
            return Err(format!(
                "`loss_probes` = {} is out of range for a `loss_interval` of {} s; the minimum spacing is {} ms",
                sensor.n_loss,
                t_loss.as_secs_f64(),
                SPACING_MIN.as_millis()
            ));
        }
        Ok(sensor)
    }

    /// Spacing x_loss of the probes. The paper states no value; here the probes fill the interval.
    pub(crate) fn spacing(self) -> Duration {
        self.t_loss / self.n_loss
    }
}

/// Sent and lost probes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    probes: u64,
    lost: u64,
}

impl Counts {
    fn share(self) -> f64 {
        if self.probes > 0 { self.lost as f64 / self.probes as f64 } else { 0.0 }
    }
}

/// Result of the sensor for one direction of a link. In the first interval it is the share of the probes so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sensing {
    t_loss: Duration,
    /// Start of the present interval.
    interval_start: Option<Instant>,
    /// Time of the last reading.
    last_reading: Option<Instant>,
    /// Counts of the present interval.
    present: Counts,
    /// Counts of the last two intervals, the latest one last.
    raw: [Option<Counts>; 2],
}

impl Sensing {
    pub(crate) fn new(sensor: LossSensor) -> Self {
        Self {
            t_loss: sensor.t_loss,
            interval_start: None,
            last_reading: None,
            present: Counts::default(),
            raw: [None; 2],
        }
    }

    /// Takes the sent and lost probes since the previous reading.
    pub(crate) fn note(&mut self, at: Instant, probes: u64, lost: u64) {
        let start = *self.interval_start.get_or_insert(at);
        self.last_reading = Some(at);
        self.present.probes += probes;
        self.present.lost += lost;
        if at.saturating_since(start) >= self.t_loss {
            self.raw = [self.raw[1], Some(self.present)];
            let next = start + self.t_loss;
            // An interval in which the link fails lasts until the next reading.
            let next = if at.saturating_since(next) < self.t_loss { next } else { at };
            (self.interval_start, self.present) = (Some(next), Counts::default());
        }
    }

    /// Whether there was a reading in the last two intervals. A peer without a sensor sends no probes.
    pub(crate) fn is_current(&self, now: Option<Instant>) -> bool {
        let since = |at| now.map_or(Duration::ZERO, |now| now.saturating_since(at));
        self.last_reading.is_some_and(|at| since(at) < 2 * self.t_loss)
    }

    fn intervals(&self) -> impl Iterator<Item = Counts> + Clone {
        let raw = self.raw.into_iter().flatten();
        let first = self.raw[1].is_none().then_some(self.present);
        raw.chain(first)
    }

    /// Share of lost probes: the mean over the intervals.
    pub(crate) fn share(&self) -> f64 {
        let intervals = self.intervals();
        intervals.clone().map(Counts::share).sum::<f64>() / intervals.count() as f64
    }

    /// Number of probes in the result.
    pub(crate) fn probes(&self) -> u64 {
        self.intervals().map(|c| c.probes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_intervals_are_averaged() {
        let mut sensing = Sensing::new(LossSensor::new(None, None).unwrap());
        let mut now = Instant::from_nanos(0);
        assert_eq!((sensing.share(), sensing.probes()), (0.0, 0));
        let mut minute = |lost: u64| {
            for _ in 0..60 {
                sensing.note(now, 100, lost);
                now = now + Duration::from_secs(1);
            }
            sensing.note(now, 0, 0);
            (sensing.share(), sensing.probes())
        };
        let results = [5, 15, 15, 5].map(&mut minute);
        // 0.05; the mean of it and 0.15; 0.15; the mean again.
        for ((result, probes), (share, of)) in results.into_iter().zip([(0.05, 1), (0.1, 2), (0.15, 2), (0.1, 2)]) {
            assert!((result - share).abs() < 1e-9, "{result} {share}");
            assert_eq!(probes, of * 6000);
        }
    }

    #[test]
    fn the_losses_of_a_failure_count_for_one_interval() {
        let mut sensing = Sensing::new(LossSensor::new(None, None).unwrap());
        let second = |n| Instant::from_nanos(0) + Duration::from_secs(n);
        (0..=60).for_each(|n| sensing.note(second(n), 5, 0));
        assert!((sensing.share(), sensing.is_current(Some(second(179)))) == (0.0, true));
        assert!(!sensing.is_current(Some(second(180))), "no reading for two intervals");
        // A failure of an hour.
        (61..80).for_each(|n| sensing.note(second(n), 5, 0));
        sensing.note(second(3680), 18_000, 17_999);
        let gone = 17_999.0 / 18_095.0 / 2.0;
        assert!((sensing.share() - gone).abs() < 1e-9, "{}", sensing.share());
        // Two intervals of the usual length later it no longer counts.
        (3681..=3740).for_each(|n| sensing.note(second(n), 5, 1));
        assert!((sensing.share() - gone - 0.1).abs() < 1e-9, "{}", sensing.share());
        (3741..=3800).for_each(|n| sensing.note(second(n), 5, 1));
        assert_eq!((sensing.share(), sensing.probes()), (0.2, 600));
    }

    #[test]
    fn the_probes_fill_the_interval() {
        let spacing = |t_loss, n_loss| LossSensor::new(t_loss, n_loss).map(LossSensor::spacing);
        let seconds = Duration::from_secs;
        assert_eq!(spacing(None, None), Ok(Duration::from_millis(200)));
        assert_eq!(spacing(Some(seconds(10)), None), Ok(Duration::from_millis(200)));
        assert_eq!(spacing(None, Some(100)), Ok(Duration::from_millis(600)));
        assert_eq!(spacing(Some(seconds(1)), None), Ok(Duration::from_millis(40)), "at least 25 probes");
        for (t_loss, n_loss, error) in [
            (Some(Duration::ZERO), None, "`loss_interval` = 0s is out of range; it must be greater than 0"),
            (None, Some(24), "`loss_probes` = 24 is out of range; the minimum is 25"),
            (
                Some(seconds(2)),
                Some(201),
                "`loss_probes` = 201 is out of range for a `loss_interval` of 2 s; the minimum spacing is 10 ms",
            ),
        ] {
            assert_eq!(spacing(t_loss, n_loss), Err(error.to_owned()));
        }
    }
}
