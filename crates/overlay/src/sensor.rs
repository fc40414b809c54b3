//! The loss rate sensor of SAFIRE's sensing infrastructure (Mark et al. 2008, section II.A): once every T_loss it sends N_loss probes with a spacing of x_loss over a
//! link. What is lost of them, over N_loss, is the raw estimate, and the mean of the last two of these what is told.

use std::time::Duration;

use units::Instant;

/// The paper's T_loss (section IV.C).
const T_LOSS: Duration = Duration::from_secs(60);
/// Probes a second where N_loss is not told: a raw estimate of T_loss then has 300, by which 0.05 is known within 0.025 (95 %).
const USUAL: f64 = 5.0;
/// Of fewer, two intervals say so little that no way is changed for them.
const LEAST_PROBES: u32 = 25;
/// The least spacing: more often than this nobody looks.
const LEAST_SPACING: Duration = Duration::from_millis(10);

/// How losses are sensed in the paper's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossSensor {
    t_loss: Duration,
    n_loss: u32,
}

impl LossSensor {
    /// Absent: the paper's 60 s, and five probes for each second, or 25.
    ///
    /// # Errors
    ///
    /// In words, when there is no time, or there are fewer than 25 probes, or more than one each 10 ms.
    pub fn new(t_loss: Option<Duration>, n_loss: Option<u32>) -> Result<Self, String> {
        let t_loss = t_loss.unwrap_or(T_LOSS);
        if t_loss.is_zero() {
            return Err("`loss_interval` must be more than 0".to_owned());
        }
        let usual = || ((USUAL * t_loss.as_secs_f64()).ceil() as u32).max(LEAST_PROBES);
        let sensor = Self { t_loss, n_loss: n_loss.unwrap_or_else(usual) };
        if sensor.n_loss < LEAST_PROBES {
            return Err(format!("`loss_probes` is {}; it is {LEAST_PROBES} or more", sensor.n_loss));
        }
        if sensor.spacing() < LEAST_SPACING {
            return Err(format!(
                "`loss_probes` is {} in a `loss_interval` of {} s; probes are sent {} ms apart or more",
                sensor.n_loss,
                t_loss.as_secs_f64(),
                LEAST_SPACING.as_millis()
            ));
        }
        Ok(sensor)
    }

    /// x_loss, of which the paper has no value: so that the probes fill the interval.
    pub(crate) fn spacing(self) -> Duration {
        self.t_loss / self.n_loss
    }
}

/// Probes that were sent, and of these those that were lost.
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

/// What the sensor says of a direction of a link. Until the first interval is over that is what it has seen so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sensing {
    t_loss: Duration,
    began: Option<Instant>,
    /// When probes last told something.
    told: Option<Instant>,
    now: Counts,
    /// The last intervals, the latest last.
    raw: [Option<Counts>; 2],
}

impl Sensing {
    pub(crate) fn new(sensor: LossSensor) -> Self {
        Self { t_loss: sensor.t_loss, began: None, told: None, now: Counts::default(), raw: [None; 2] }
    }

    /// Of so many probes that were sent since the last time, so many were lost.
    pub(crate) fn note(&mut self, at: Instant, probes: u64, lost: u64) {
        let began = *self.began.get_or_insert(at);
        self.told = Some(at);
        self.now.probes += probes;
        self.now.lost += lost;
        if at.saturating_since(began) >= self.t_loss {
            self.raw = [self.raw[1], Some(self.now)];
            let next = began + self.t_loss;
            // One in which the link was gone for long lasts until it is back.
            let next = if at.saturating_since(next) < self.t_loss { next } else { at };
            (self.began, self.now) = (Some(next), Counts::default());
        }
    }

    /// Whether probes have told something in the last two intervals before this time: those of another member come only if it has a sensor, too.
    pub(crate) fn is_current(&self, now: Option<Instant>) -> bool {
        let since = |told| now.map_or(Duration::ZERO, |now| now.saturating_since(told));
        self.told.is_some_and(|told| since(told) < 2 * self.t_loss)
    }

    fn known(&self) -> impl Iterator<Item = Counts> + Clone {
        let raw = self.raw.into_iter().flatten();
        let first = self.raw[1].is_none().then_some(self.now);
        raw.chain(first)
    }

    /// Share of the probes that is lost.
    pub(crate) fn share(&self) -> f64 {
        let known = self.known();
        known.clone().map(Counts::share).sum::<f64>() / known.count() as f64
    }

    /// Probes that it rests on.
    pub(crate) fn probes(&self) -> u64 {
        self.known().map(|c| c.probes).sum()
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
        let told = [5, 15, 15, 5].map(&mut minute);
        // 0.05; the mean of it and 0.15; 0.15; the mean again.
        for ((told, probes), (share, of)) in told.into_iter().zip([(0.05, 1), (0.1, 2), (0.15, 2), (0.1, 2)]) {
            assert!((told - share).abs() < 1e-9, "{told} {share}");
            assert_eq!(probes, of * 6000);
        }
    }

    #[test]
    fn what_is_lost_while_the_link_is_gone_is_the_share_of_one_interval() {
        let mut sensing = Sensing::new(LossSensor::new(None, None).unwrap());
        let second = |n| Instant::from_nanos(0) + Duration::from_secs(n);
        (0..=60).for_each(|n| sensing.note(second(n), 5, 0));
        assert!((sensing.share(), sensing.is_current(Some(second(179)))) == (0.0, true));
        assert!(!sensing.is_current(Some(second(180))), "nothing has come for two intervals");
        // An hour.
        (61..80).for_each(|n| sensing.note(second(n), 5, 0));
        sensing.note(second(3680), 18_000, 17_999);
        let gone = 17_999.0 / 18_095.0 / 2.0;
        assert!((sensing.share() - gone).abs() < 1e-9, "{}", sensing.share());
        // Two intervals later it is forgotten, and each has lasted as long as the others.
        (3681..=3740).for_each(|n| sensing.note(second(n), 5, 1));
        assert!((sensing.share() - gone - 0.1).abs() < 1e-9, "{}", sensing.share());
        (3741..=3800).for_each(|n| sensing.note(second(n), 5, 1));
        assert_eq!((sensing.share(), sensing.probes()), (0.2, 600));
    }

    #[test]
    fn as_many_probes_as_are_asked_for_fill_the_interval() {
        let spacing = |t_loss, n_loss| LossSensor::new(t_loss, n_loss).map(LossSensor::spacing);
        let seconds = Duration::from_secs;
        assert_eq!(spacing(None, None), Ok(Duration::from_millis(200)));
        assert_eq!(spacing(Some(seconds(10)), None), Ok(Duration::from_millis(200)));
        assert_eq!(spacing(None, Some(100)), Ok(Duration::from_millis(600)));
        assert_eq!(spacing(Some(seconds(1)), None), Ok(Duration::from_millis(40)), "25 at least");
        for (t_loss, n_loss, why) in [
            (Some(Duration::ZERO), None, "`loss_interval` must be more than 0"),
            (None, Some(24), "`loss_probes` is 24; it is 25 or more"),
            (
                Some(seconds(2)),
                Some(201),
                "`loss_probes` is 201 in a `loss_interval` of 2 s; probes are sent 10 ms apart or more",
            ),
        ] {
            assert_eq!(spacing(t_loss, n_loss), Err(why.to_owned()));
        }
    }
}
