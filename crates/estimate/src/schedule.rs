use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use units::{Bytes, Duration, Instant, Rate};

/// Departure times of the datagrams of a stream: absolute deadlines, so that a late departure does not delay the next.
///
/// Gaps are whole nanoseconds; the fraction is carried into the next gap. At rate zero the next deadline is never.
#[derive(Debug, Clone)]
pub struct Schedule {
    deadline: Instant,
    gap: Duration,
    gaps: Gaps,
}

#[derive(Debug, Clone)]
enum Gaps {
    /// Equal gaps of `whole_ns + numerator / denominator`; `carry` is the numerator of the fraction not yet used.
    Constant { whole_ns: u64, numerator: u64, denominator: u64, carry: u64 },
    /// Exponential gaps.
    Poisson { mean_ns: f64, carry_ns: f64, rng: Box<ChaCha12Rng> },
}

impl Schedule {
    /// Departures at equal gaps that yield `rate` with packets of `packet_bytes`; the first at the start.
    pub fn constant(rate: Rate, packet_bytes: Bytes) -> Self {
        let bit_ns = u128::from(packet_bytes.as_u64()) * 8 * 1_000_000_000;
        let denominator = rate.as_bps();
        let gaps = if denominator == 0 {
            Gaps::Constant { whole_ns: u64::MAX, numerator: 0, denominator: 1, carry: 0 }
        } else {
            Gaps::Constant {
                whole_ns: u64::try_from(bit_ns / u128::from(denominator)).unwrap_or(u64::MAX),
                // The remainder of a division by a u64 is a u64.
                numerator: (bit_ns % u128::from(denominator)) as u64,
                denominator,
                carry: 0,
            }
        };
        Self::with(gaps, Duration::ZERO)
    }

    /// Departures as a Poisson process (RFC 2330 §11.1) that yield a mean of `rate` with packets of `packet_bytes`.
    ///
    /// The first departs one gap after the start, as every event of such a process does. The same seed gives the same
    /// departures on every host and in every release: the generator's output is fixed by its specification.
    pub fn poisson(rate: Rate, packet_bytes: Bytes, seed: u64) -> Self {
        let mean_ns = packet_bytes.as_u64() as f64 * 8e9 / rate.as_bps() as f64;
        Self::poisson_of(mean_ns, seed)
    }

    /// Departures at equal gaps; the first at the start.
    pub fn every(gap: Duration) -> Self {
        let whole_ns = units::nanos(gap);
        Self::with(Gaps::Constant { whole_ns, numerator: 0, denominator: 1, carry: 0 }, Duration::ZERO)
    }

    /// Departures as a Poisson process (RFC 2330 §11.1) with this mean gap; the first one gap after the start.
    pub fn poisson_every(mean: Duration, seed: u64) -> Self {
        Self::poisson_of(mean.as_nanos() as f64, seed)
    }

    fn poisson_of(mean_ns: f64, seed: u64) -> Self {
        let mut gaps = Gaps::Poisson { mean_ns, carry_ns: 0.0, rng: Box::new(ChaCha12Rng::seed_from_u64(seed)) };
        let first = gaps.draw();
        Self::with(gaps, first)
    }

    fn with(mut gaps: Gaps, first: Duration) -> Self {
        let gap = gaps.draw();
        Self { deadline: Instant::ZERO + first, gap, gaps }
    }

    /// Counts the departures from `start` instead of the clock's origin. Call it before the first departure.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.deadline = start + Duration::from_nanos(self.deadline.as_nanos());
        self
    }

    /// Departure time of the next datagram.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The gap between the next departure and the one after it.
    pub fn next_gap(&self) -> Duration {
        self.gap
    }

    /// Advances to the following departure.
    pub fn advance(&mut self) {
        self.deadline = self.deadline + self.gap;
        self.gap = self.gaps.draw();
    }
}

impl Gaps {
    fn draw(&mut self) -> Duration {
        match self {
            Self::Constant { whole_ns, numerator, denominator, carry } => {
                let sum = u128::from(*carry) + u128::from(*numerator);
                let overflow = sum >= u128::from(*denominator);
                *carry = (sum - if overflow { u128::from(*denominator) } else { 0 }) as u64;
                Duration::from_nanos(whole_ns.saturating_add(u64::from(overflow)))
            }
            Self::Poisson { mean_ns, carry_ns, rng } => {
                let exact_ns = exponential(rng) * *mean_ns + *carry_ns;
                // `as` saturates: an infinite mean (rate zero) gives the longest gap, and NaN (zero bytes at rate zero)
                // a gap of zero.
                let whole_ns = exact_ns as u64;
                *carry_ns = if exact_ns.is_finite() { exact_ns.fract() } else { 0.0 };
                Duration::from_nanos(whole_ns)
            }
        }
    }
}

/// An exponential variate of mean one: `Ei = -ln(Ui)` (RFC 2330 §11.1.3).
fn exponential(rng: &mut ChaCha12Rng) -> f64 {
    // 53 random bits, moved from [0, 1) to (0, 1] because ln(0) is infinite.
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(schedule: &mut Schedule, n: usize) -> Vec<f64> {
        (0..n)
            .map(|_| {
                let gap = schedule.next_gap();
                schedule.advance();
                gap.as_nanos() as f64
            })
            .collect()
    }

    /// Kolmogorov-Smirnov distance of the sample from the exponential distribution of this mean.
    fn ks_distance(sample: &[f64], mean: f64) -> f64 {
        let mut sorted = sample.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len() as f64;
        sorted
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let cdf = 1.0 - (-x / mean).exp();
                (cdf - i as f64 / n).abs().max((cdf - (i + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        // 1500 B at 1 Gb/s: a mean gap of 12 us, where thrulay's schedule was constant-rate.
        const N: usize = 100_000;
        for seed in 0..5 {
            let mut s = Schedule::poisson(Rate::from_bps(1_000_000_000), Bytes::new(1500), seed);
            let sample = gaps(&mut s, N);
            let mean = sample.iter().sum::<f64>() / N as f64;
            let variance = sample.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / N as f64;
            let variation = variance.sqrt() / mean;
            // Standard errors: mean 1/sqrt(N) = 0.32 %, coefficient of variation 1/sqrt(N) = 0.32 %; four of them.
            assert!((mean / 12_000.0 - 1.0).abs() < 0.0127, "seed {seed}: mean {mean}");
            assert!((variation - 1.0).abs() < 0.0127, "seed {seed}: coefficient of variation {variation}");
            // 1 % critical value of the KS test: 1.63 / sqrt(N).
            let distance = ks_distance(&sample, 12_000.0);
            assert!(distance < 1.63 / (N as f64).sqrt(), "seed {seed}: {distance}");
            // The test rejects constant gaps, thrulay's stream, which are 1 - 1/e away.
            assert!(ks_distance(&vec![12_000.0; N], 12_000.0) > 0.6);
        }
    }

    #[test]
    fn successive_gaps_are_uncorrelated() {
        const N: usize = 100_000;
        let sample = gaps(&mut Schedule::poisson(Rate::from_bps(1_000_000), Bytes::new(100), 3), N);
        let mean = sample.iter().sum::<f64>() / N as f64;
        let variance = sample.iter().map(|g| (g - mean).powi(2)).sum::<f64>();
        let lagged = sample.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>();
        assert!((lagged / variance).abs() < 4.0 / (N as f64).sqrt());
    }

    #[test]
    fn a_seed_gives_the_same_departures_and_another_seed_others() {
        let make = |seed| gaps(&mut Schedule::poisson(Rate::from_bps(10_000_000), Bytes::new(1000), seed), 50);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn constant_departures_never_drift() {
        // 1472 B at 7 Gb/s: 1682.2857... ns. After n gaps the deadline is the exact quotient rounded down.
        let start = Instant::from_nanos(1_000_000_007);
        let mut s = Schedule::constant(Rate::from_bps(7_000_000_000), Bytes::new(1472)).starting_at(start);
        assert_eq!(s.deadline(), start);
        for n in 1..=1_000_000_u128 {
            s.advance();
            let exact = n * 1472 * 8 * 1_000_000_000 / 7_000_000_000;
            assert_eq!(u128::from(s.deadline().as_nanos()), 1_000_000_007 + exact);
        }
    }

    #[test]
    fn fractions_of_nanoseconds_are_carried() {
        // A mean gap of 0.8 ns (100 B at 1 Tb/s): truncating each gap would give far too short a schedule.
        let mut s = Schedule::poisson(Rate::from_bps(1_000_000_000_000), Bytes::new(100), 9);
        let total = gaps(&mut s, 1_000_000).iter().sum::<f64>();
        assert!((total / 800_000.0 - 1.0).abs() < 0.005, "{total}");
    }

    #[test]
    fn a_rate_of_zero_never_departs_again() {
        for mut s in [Schedule::constant(Rate::ZERO, Bytes::new(1)), Schedule::poisson(Rate::ZERO, Bytes::new(1), 1)] {
            s.advance();
            assert_eq!(s.deadline(), Instant::from_nanos(u64::MAX));
            s.advance();
        }
        let mut degenerate = Schedule::poisson(Rate::ZERO, Bytes::ZERO, 1);
        degenerate.advance();
        Schedule::constant(Rate::from_bps(u64::MAX), Bytes::new(u64::MAX)).advance();
    }
}
