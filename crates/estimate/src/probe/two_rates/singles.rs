//! Utilisation of the narrow link, from how often a single small packet finds a queue.
//!
//! The utilisation is the share of time in which the link is busy: load over capacity, whatever the load consists of.
//! Cross traffic is assumed to consist of packets of the MTU that arrive at random. A single packet then waits less
//! than a time `x` with probability `(1 - utilisation) e^(utilisation x/s)` (M/D/1, Erlang 1909). `s` is the service
//! time of one packet, and `x` is at most `s`. A hundred small packets cost as many bytes as four large ones and
//! measure the load more precisely than a train of those.

use units::Duration;

use crate::probe::{Departure, Path, Train, TrainObservation};
use crate::samples::{percentile, sorted};

/// Number of packets and their length: room for a probe header, and little load of their own.
const PACKETS: u32 = 80;
const BYTES: u32 = 64;

/// Bytes of all single packets together.
pub(super) const BYTES_TOTAL: u64 = PACKETS as u64 * BYTES as u64;

/// Mean distance of two packets, in service times of a full-size packet on the narrow link: most queues drain in it.
const DISTANCE_SERVICE_TIMES: f64 = 5.0;

/// Minimum and maximum mean distance, in ns. The maximum keeps slow paths from taking minutes.
const DISTANCE_NS_RANGE: (f64, f64) = (500_000.0, 20_000_000.0);

/// Share of the service time of a large packet above which a delay indicates a queue. A larger share misses queues of
/// short packets; a smaller one counts delays within hosts as queues.
const QUEUED_DELAY_SHARE: f64 = 0.2;

/// Maximum delay noise of hosts, as the difference of the 10th percentile and the minimum delay, in service times of a
/// large packet. Above it the delays are not usable. A quarter of [`QUEUED_DELAY_SHARE`] keeps few delays from
/// exceeding that by chance.
const DELAY_NOISE_SHARE_MAX: f64 = QUEUED_DELAY_SHARE / 4.0;

/// Minimum service time of a large packet, in ns: timestamps are accurate to a few microseconds.
const SERVICE_NS_MIN: f64 = 40_000.0;

/// Utilisation measured by single packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Utilisation {
    /// Share of time in which the narrow link is busy.
    pub(super) share: f64,
    /// Half-width of its 95 % interval.
    pub(super) half_width: f64,
}

/// Service time of a full-size packet on the narrow link in ns; `None` if it is too short for single packets.
fn service_ns(path: &Path, capacity: f64) -> Option<f64> {
    Some(f64::from(path.mtu) * 8e9 / capacity).filter(|ns| *ns >= SERVICE_NS_MIN && ns.is_finite())
}

/// The packets to send; `None` on paths that are too fast. Distances vary by half in either direction, so that periodic
/// load is neither always met nor always missed.
pub(super) fn train(path: &Path, capacity: f64) -> Option<Train> {
    let distance =
        (service_ns(path, capacity)? * DISTANCE_SERVICE_TIMES).clamp(DISTANCE_NS_RANGE.0, DISTANCE_NS_RANGE.1);
    let mut after = Duration::ZERO;
    let departures = (0..PACKETS).map(|i| {
        let departure = Departure { after, bytes: BYTES };
        after += Duration::from_nanos((distance * (0.5 + crate::draw(path.seed, i.into()))) as u64);
        departure
    });
    Some(Train::new(departures.collect()))
}

/// Estimates the utilisation; `None` if too few packets arrived or hosts add too much to their delays.
pub(super) fn utilisation(path: &Path, capacity: f64, observation: &TrainObservation) -> Option<Utilisation> {
    let service = service_ns(path, capacity)?;
    let delays = sorted(observation.delays_ns().into_iter().map(|ns| ns as f64));
    let count = delays.len() as f64;
    let is_quiet = percentile(&delays, 0.1)? <= service * DELAY_NOISE_SHARE_MAX;
    let enough = delays.len() * 2 > observation.packets.len() && observation.reordered() == 0;
    let waited = delays.iter().filter(|ns| **ns > service * QUEUED_DELAY_SHARE).count() as f64;
    // One more packet of each kind avoids a zero variance.
    let seen = (waited + 1.0) / (count + 2.0);
    let share = utilisation_for(waited / count);
    // The number of independent draws is limited by the packets and by the busy periods that they span: those of M/D/1
    // at half the load.
    let first = observation.packets.first()?.sent?;
    let span = observation.packets.last()?.sent?.saturating_since(first).as_nanos() as f64;
    let variance = seen * (1.0 - seen) * (1.0 / count + 2.0 * service / span.max(service));
    (is_quiet && enough).then(|| Utilisation { share, half_width: 2.0 * variance.sqrt() })
}

/// The utilisation at which this share of packets waits for more than [`QUEUED_DELAY_SHARE`] of a service time.
fn utilisation_for(waiting: f64) -> f64 {
    let waiting_share = |utilisation: f64| 1.0 - (1.0 - utilisation) * (utilisation * QUEUED_DELAY_SHARE).exp();
    let (mut low, mut high) = (0.0, 1.0);
    // 2^-20 is far below the precision of a hundred packets.
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if waiting_share(middle) < waiting { low = middle } else { high = middle }
    }
    if waiting <= 0.0 { 0.0 } else { f64::midpoint(low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PacketOutcome;
    use units::Instant;

    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), mtu: 1500, gap_min: Duration::from_nanos(1200), seed: 1 };

    /// 80 packets, 5 ms apart, with these delays in turn.
    fn observation(delays_us: &[u64]) -> TrainObservation {
        let outcome = |(i, us): (u64, &u64)| PacketOutcome {
            bytes: 64,
            sent: Some(Instant::from_nanos(i * 5_000_000)),
            received: Some(Instant::from_nanos(i * 5_000_000 + us * 1_000)),
        };
        TrainObservation { packets: (0..80).zip(delays_us.iter().cycle()).map(outcome).collect() }
    }

    #[test]
    fn the_utilisation_follows_from_the_share_of_waiting_packets() {
        // At half the load: 1 - 0.5 e^0.1 = 0.4474.
        assert!((utilisation_for(0.447_415) - 0.5).abs() < 1e-5);
        assert_eq!((utilisation_for(0.0), utilisation_for(1.0) > 0.999), (0.0, true));
    }

    #[test]
    fn delays_of_half_of_the_packets_are_a_utilisation_of_one_half() {
        // 10 Mb/s: 1.2 ms a packet.
        let estimate = utilisation(&PATH, 10e6, &observation(&[50, 900])).unwrap();
        assert!((estimate.share - 0.55).abs() < 0.01 && estimate.half_width < 0.2, "{estimate:?}");
        assert!(utilisation(&PATH, 10e6, &observation(&[50])).unwrap().share < 1e-5);
    }

    #[test]
    fn delay_noise_of_hosts_gives_no_utilisation() {
        // All differ, by up to half the time of a packet.
        let spread: Vec<u64> = (0..80).map(|i| i * 37 % 80 * 8).collect();
        assert!(utilisation(&PATH, 10e6, &observation(&spread)).is_none());
        assert!(utilisation(&PATH, 1e9, &observation(&[50])).is_none() && train(&PATH, 1e9).is_none());
        assert!(utilisation(&PATH, 10e6, &TrainObservation::default()).is_none());
    }
}
