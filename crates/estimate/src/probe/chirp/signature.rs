//! Analysis of one chirp: the segmentation of its delay signature into excursions, and the mean over its packets.

/// Delay signature of a chirp: queueing delays by packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signature<'a> {
    /// Length of every packet, in bytes of IP.
    pub bytes: u32,
    /// Gap from each packet to the next at the sender, in ns: one fewer than there are delays.
    pub gaps_ns: &'a [f64],
    /// Delay of each packet in ns, up to a constant.
    pub delays_ns: &'a [f64],
}

/// Parameters that define an excursion of the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segmentation {
    /// Minimum length of an excursion in packets: shorter ones are noise.
    pub busy_period: usize,
    /// An excursion ends where the delay falls below its maximum divided by this factor, both above the delay at its
    /// start.
    pub decrease_factor: f64,
    /// Maximum slope of the delay that starts no excursion: clocks drift apart by less.
    pub drift: f64,
}

/// The estimate of one chirp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Available bandwidth in b/s.
    pub available_bps: f64,
    /// The packet from which the delay rises without falling again; `None`: the chirp was nowhere too fast.
    pub onset: Option<usize>,
}

/// An excursion: its first packet, and the packet at which it ended, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Excursion {
    first: usize,
    end: Option<usize>,
}

impl Signature<'_> {
    /// The mean of the estimates of all packets, weighted with the gap to the next packet (Ribeiro, Riedi, Baraniuk,
    /// Navratil, Cottrell, *pathChirp: Efficient Available Bandwidth Estimation for Network Paths*, PAM 2003).
    ///
    /// A packet in an excursion that ends has its own rate as its estimate where the delay does not fall. A packet in
    /// the excursion that does not end has the rate at which that excursion starts. Every other packet has the same
    /// rate, or the fastest rate if no excursion stays open. `None` if packets are too few, their numbers contradict
    /// each other, or two left at once.
    pub fn reading(&self, segmentation: &Segmentation) -> Option<Reading> {
        let n = self.gaps_ns.len();
        let is_sound = n > 0 && self.delays_ns.len() == n + 1 && self.delays_ns.iter().all(|q| q.is_finite());
        if !is_sound || !self.gaps_ns.iter().all(|gap| gap.is_finite() && *gap > 0.0) {
            return None;
        }
        let rates: Vec<f64> = self.gaps_ns.iter().map(|gap| f64::from(self.bytes) * 8e9 / gap).collect();
        let mut estimates: Vec<Option<f64>> = vec![None; n];
        let mut onset = None;
        for Excursion { first, end } in self.excursions(segmentation) {
            let Some(end) = end else {
                onset = Some(first);
                continue;
            };
            let steps = self.delays_ns.windows(2).zip(&rates).zip(&mut estimates);
            for ((step, rate), estimates) in steps.take(end).skip(first) {
                *estimates = (step.first() <= step.last()).then_some(*rate);
            }
        }
        let otherwise = *onset.map_or_else(|| rates.last(), |first| rates.get(first))?;
        let weighted = estimates.iter().zip(self.gaps_ns).map(|(rate, gap)| rate.unwrap_or(otherwise) * gap);
        let available_bps = weighted.sum::<f64>() / self.gaps_ns.iter().sum::<f64>();
        available_bps.is_finite().then_some(Reading { available_bps, onset })
    }

    /// Excursions at least as long as a busy period. Only the last one can stay open.
    fn excursions(&self, segmentation: &Segmentation) -> Vec<Excursion> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.gaps_ns.len() {
            if !self.rises(at, segmentation) {
                at += 1;
                continue;
            }
            let end = self.end(at, segmentation);
            let last = end.unwrap_or(self.gaps_ns.len());
            if last - at >= segmentation.busy_period {
                found.push(Excursion { first: at, end });
            }
            at = last;
        }
        found
    }

    /// Whether the delay rises from this packet to the next.
    fn rises(&self, at: usize, segmentation: &Segmentation) -> bool {
        let Some([from, to]) = self.delays_ns.get(at..at + 2) else { return false };
        to - from > self.gaps_ns.get(at).map_or(0.0, |gap| gap * segmentation.drift)
    }

    /// The packet at which the excursion that starts here has ended.
    fn end(&self, first: usize, segmentation: &Segmentation) -> Option<usize> {
        let base = *self.delays_ns.get(first)?;
        let mut highest = 0.0_f64;
        let mut rises = self.delays_ns.iter().enumerate().skip(first + 1).map(|(i, q)| (i, q - base));
        rises
            .find(|(_, rise)| {
                highest = highest.max(*rise);
                *rise < highest / segmentation.decrease_factor
            })
            .map(|(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: Segmentation = Segmentation { busy_period: 5, decrease_factor: 1.5, drift: 0.0 };

    /// 1000 bytes at 10 Mb/s, each rate twice the one before: gaps of 800, 400, 200 ... us.
    fn read(delays_us: &[f64], segmentation: Segmentation) -> Option<Reading> {
        let gaps: Vec<f64> = (1..delays_us.len()).map(|i| 800_000.0 / f64::powi(2.0, i as i32 - 1)).collect();
        let delays: Vec<f64> = delays_us.iter().map(|us| us * 1e3).collect();
        Signature { bytes: 1000, gaps_ns: &gaps, delays_ns: &delays }.reading(&segmentation)
    }

    #[test]
    fn a_chirp_that_never_queues_gives_its_fastest_rate() {
        // Nine packets: eight gaps, the last at 10 Mb/s times 2^7.
        let reading = read(&[0.0; 9], HOW).unwrap();
        assert_eq!(reading, Reading { available_bps: 1.28e9, onset: None });
    }

    #[test]
    fn a_delay_that_only_rises_gives_the_rate_at_which_it_starts() {
        // It rises from the third packet on: 40 Mb/s; the packets before have no other estimate.
        let reading = read(&[0.0, 0.0, 0.0, 10.0, 30.0, 60.0, 100.0, 150.0], HOW).unwrap();
        assert_eq!(reading, Reading { available_bps: 40e6, onset: Some(2) });
    }

    #[test]
    fn a_rise_shorter_than_a_busy_period_is_noise() {
        // A single packet of cross traffic at the start, and four rising packets at the end.
        let reading = read(&[0.0, 120.0, 0.0, 0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 40.0], HOW).unwrap();
        assert_eq!(reading.onset, None);
        assert_eq!(reading.available_bps, 10e6 * f64::powi(2.0, 8));
    }

    #[test]
    fn packets_of_an_excursion_that_ends_count_with_their_own_rates() {
        // Rises over packets 0 to 4, falls to a third of its height at 6; then rises for good from 6 on: 640 Mb/s.
        let delays = [0.0, 10.0, 20.0, 30.0, 30.0, 25.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0];
        let reading = read(&delays, HOW).unwrap();
        assert_eq!(reading.onset, Some(6));
        // 10, 20, 40 and 80 Mb/s count with their own rates (each rate times its gap is the 8000 bits of a packet), the
        // rest with 640.
        let all_us = 1600.0 * (1.0 - f64::powi(0.5, 11));
        let expected = (4.0 * 8000.0 + 640.0 * (all_us - 1500.0)) / all_us * 1e6;
        assert!((reading.available_bps / expected - 1.0).abs() < 1e-9, "{reading:?}, {expected}");
    }

    #[test]
    fn an_excursion_ends_below_two_thirds_of_its_height_and_not_above() {
        let fallen = |to: f64| read(&[0.0, 30.0, 60.0, 90.0, 90.0, 90.0, to, to, to], HOW).unwrap().onset;
        assert_eq!((fallen(61.0), fallen(59.0)), (Some(0), None));
    }

    #[test]
    fn clocks_that_drift_apart_start_no_excursion() {
        // 100 ppm: each delay is longer by that share of the gap before it.
        let drifting: Vec<f64> = (0..9).map(|i| 0.16 * (1.0 - f64::powi(0.5, i))).collect();
        assert_eq!(read(&drifting, HOW).unwrap().onset, Some(0));
        assert_eq!(read(&drifting, Segmentation { drift: 0.001, ..HOW }).unwrap().onset, None);
    }

    #[test]
    fn an_invalid_chirp_gives_no_reading() {
        assert_eq!(read(&[], HOW), None);
        assert_eq!(read(&[1.0], HOW), None);
        assert_eq!(read(&[1.0, f64::NAN, 2.0], HOW), None);
        let at_once = Signature { bytes: 1000, gaps_ns: &[0.0], delays_ns: &[0.0, 1.0] };
        assert_eq!(at_once.reading(&HOW), None);
    }
}
