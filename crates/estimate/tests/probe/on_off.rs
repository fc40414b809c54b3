//! Cross traffic in bursts: on and off periods with unbounded variance (Pareto), like sums of file transfers.

use std::time::Duration;

use estimate::draw;
use units::{Instant, Rate};

/// Shape of both distributions: their means are finite and their variances are not, which makes sums self-similar.
const SHAPE: f64 = 1.5;

/// Packets of a burst on average.
const BURST: f64 = 20.0;

/// Packets at the peak rate in bursts, with pauses that yield the mean rate.
#[derive(Debug)]
pub(crate) struct ParetoOnOff {
    seed: u64,
    drawn: u64,
    /// Time of a packet at the peak rate, in seconds.
    packet_s: f64,
    mean_off_s: f64,
    /// Packets of this burst that follow the next one.
    remaining: u64,
    deadline: Instant,
}

impl ParetoOnOff {
    /// Packets of this length; the mean must be below the peak.
    pub(crate) fn new(mean: Rate, peak: Rate, bytes: u32, seed: u64) -> Self {
        let packet_s = f64::from(bytes) * 8.0 / peak.as_bps() as f64;
        let mean_off_s = BURST * packet_s * (peak.as_bps() as f64 / mean.as_bps() as f64 - 1.0);
        let mut source = Self { seed, drawn: 0, packet_s, mean_off_s, remaining: 0, deadline: Instant::ZERO };
        source.advance();
        source
    }

    /// Time of the next packet.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Advances to the following packet.
    pub(crate) fn advance(&mut self) {
        let mut wait_s = self.packet_s;
        if self.remaining == 0 {
            wait_s += self.pareto(self.mean_off_s);
            self.remaining = self.pareto(BURST).round() as u64;
        }
        self.remaining -= 1;
        self.deadline = self.deadline + Duration::from_secs_f64(wait_s);
    }

    /// A variate of this mean: the minimum, which is a third of the mean, over a power of a uniform variate.
    fn pareto(&mut self, mean: f64) -> f64 {
        let even = 1.0 - draw(self.seed, self.drawn);
        self.drawn += 1;
        mean * (SHAPE - 1.0) / SHAPE * even.powf(-1.0 / SHAPE)
    }
}

#[test]
fn the_mean_rate_is_the_requested_one_and_packets_arrive_at_the_peak_rate() {
    let (mean, peak) = (Rate::from_bps(50_000_000), Rate::from_bps(200_000_000));
    let mut rates: Vec<f64> = (0..7)
        .map(|seed| {
            let mut source = ParetoOnOff::new(mean, peak, 1500, seed);
            let end = Instant::ZERO + Duration::from_secs(5);
            let mut packets = 0.0;
            while source.deadline() < end {
                packets += 1.0;
                let before = source.deadline();
                source.advance();
                // 1500 bytes at 200 Mb/s.
                assert!(source.deadline().saturating_since(before) >= Duration::from_nanos(59_999));
            }
            packets * 12_000.0 / 5.0
        })
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    // About 1000 bursts each. The mean of n values of shape 1.5 is off by about n^(-1/3), here 10 %, and occasionally
    // by much more because of a single pause of seconds: the median of seven is robust against those.
    assert!((rates[3] / 50e6 - 1.0).abs() < 0.1, "{rates:?}");
}
