use std::time::Duration;

use units::{Instant, Rate};

/// Trains come half to one and a half minutes apart once they agree: a mean over less would be that of one train, or of none.
const SPAN: Duration = Duration::from_secs(60);
/// What was spent in less is not yet a rate.
const LEAST: Duration = Duration::from_secs(1);

/// The mean rate of what is sent now and then, over the last one to two minutes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateMeter {
    /// When the present span began, the first one, too.
    began: Option<(Instant, Instant)>,
    bytes: u64,
    /// Of the span before.
    before: u64,
}

impl RateMeter {
    /// So many bytes were sent.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        self.turn(now);
        self.bytes += bytes;
    }

    fn turn(&mut self, now: Instant) {
        let (span, _) = self.began.get_or_insert((now, now));
        let passed = now.saturating_since(*span);
        if passed >= SPAN {
            self.before = if passed < 2 * SPAN { self.bytes } else { 0 };
            (self.bytes, *span) = (0, now);
        }
    }

    /// Nothing, as long as nothing was sent.
    pub(crate) fn rate(mut self, now: Instant) -> Rate {
        self.turn(now);
        let Some((span, first)) = self.began else { return Rate::ZERO };
        let counted = now.saturating_since(span).saturating_add(SPAN).min(now.saturating_since(first)).max(LEAST);
        Rate::from_bps((8.0 * (self.bytes + self.before) as f64 / counted.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn what_is_spent_now_and_then_has_its_mean_rate() {
        let mut spent = RateMeter::default();
        assert_eq!(spent.rate(at(5)), Rate::ZERO);
        for s in 0..600 {
            // 1 kB a second, and 30 kB each 30 s: 2 kB a second.
            spent.note(at(s), 1000 + if s % 30 == 0 { 30_000 } else { 0 });
            let bps = spent.rate(at(s)).as_bps() as f64;
            assert!(s < 90 || (bps / 16_000.0 - 1.0).abs() < 0.3, "{s}: {bps}");
        }
        assert_eq!(spent.rate(at(900)), Rate::ZERO, "nothing for five minutes");
    }
}
