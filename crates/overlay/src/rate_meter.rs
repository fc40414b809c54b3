use std::time::Duration;

use units::{Instant, Rate};

/// Span of the mean; one to two spans count. Packet trains are 30 to 90 s apart when the capacity is known, so a
/// shorter mean would be that of one train or none.
const SPAN: Duration = Duration::from_secs(60);
/// Minimum divisor of the mean, which bounds the rate after the first bytes.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// Mean rate of sparse transmissions over the last one to two minutes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateMeter {
    /// Starts of the present span and of the first one.
    starts: Option<(Instant, Instant)>,
    /// Bytes of the present span.
    bytes: u64,
    /// Bytes of the span before.
    bytes_before: u64,
}

impl RateMeter {
    /// Takes sent bytes.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        self.bytes += bytes;
    }

    fn advance(&mut self, now: Instant) {
        let (span, _) = self.starts.get_or_insert((now, now));
        let passed = now.saturating_since(*span);
        if passed >= SPAN {
            self.bytes_before = if passed < 2 * SPAN { self.bytes } else { 0 };
            (self.bytes, *span) = (0, now);
        }
    }

    /// Mean rate; zero before the first transmission.
    pub(crate) fn rate(mut self, now: Instant) -> Rate {
        self.advance(now);
        let Some((span, first)) = self.starts else { return Rate::ZERO };
        let counted = now.saturating_since(span).saturating_add(SPAN).min(now.saturating_since(first)).max(SPAN_MIN);
        Rate::from_bps((8.0 * (self.bytes + self.bytes_before) as f64 / counted.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn sparse_transmissions_have_their_mean_rate() {
        let mut meter = RateMeter::default();
        assert_eq!(meter.rate(at(5)), Rate::ZERO);
        for s in 0..600 {
            // 1 kB per second, and 30 kB every 30 s: 2 kB per second.
            meter.note(at(s), 1000 + if s % 30 == 0 { 30_000 } else { 0 });
            let bps = meter.rate(at(s)).as_bps() as f64;
            assert!(s < 90 || (bps / 16_000.0 - 1.0).abs() < 0.3, "{s}: {bps}");
        }
        assert_eq!(meter.rate(at(900)), Rate::ZERO, "no transmission for five minutes");
    }
}
