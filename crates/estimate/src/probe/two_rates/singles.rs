//! How busy the narrow link is, by how often a single small packet finds a queue.
//!
//! The share of time in which the link is busy is its load over its capacity, whatever the load is made of. Where the
//! packets of others are as long as ours and come at random, a single packet waits less than a time `x`, at most that of
//! one packet `s`, with probability `(1 - busy) e^(busy x/s)` (M/D/1, Erlang 1909). A hundred small packets cost as much as
//! four large ones and tell more of the load than a train of those.

use units::Duration;

use crate::probe::{Departure, Path, Train, TrainObservation};
use crate::samples::{percentile, sorted};

/// How many, and their length: room for the header of a probe, and little load of their own.
const PACKETS: u32 = 80;
const BYTES: u32 = 64;

/// All of them.
pub(super) const BYTES_OF_ALL: u64 = PACKETS as u64 * BYTES as u64;

/// Distance between two, in times of a packet of full size on the narrow link: most queues are gone until then.
const APART: f64 = 5.0;

/// No more than this apart, so that slow paths do not take minutes, nor less than this, in ns.
const APART_NS: (f64, f64) = (500_000.0, 20_000_000.0);

/// A packet that waited for more than this part of the time of a large packet found a queue. More of it would miss queues
/// of short packets, less would take for a queue what hosts add to a delay.
const WAITED: f64 = 0.2;

/// What hosts add, as the distance of the 10th percentile from the least delay, at most: above this part of the time of a
/// large packet the delays say nothing. A quarter of [`WAITED`], so that few delays pass that by chance.
const NOISE: f64 = WAITED / 4.0;

/// The shortest time of a large packet, in ns, with which it is tried: stamps are good for a few microseconds.
const SERVICE_NS_MIN: f64 = 40_000.0;

/// What single packets say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    /// Share of time in which the narrow link is busy.
    pub(super) share: f64,
    /// Half the width of its interval of about 95 %.
    pub(super) half: f64,
}

/// The time of a packet of full size on the narrow link in ns, if single packets can tell anything of it.
fn service_ns(path: &Path, capacity: f64) -> Option<f64> {
    Some(f64::from(path.mtu) * 8e9 / capacity).filter(|ns| *ns >= SERVICE_NS_MIN && ns.is_finite())
}

/// The packets to send; `None` on paths that are too fast for it. At distances that vary by half either way, so that no
/// load that comes in step is always met or always missed.
pub(super) fn train(path: &Path, capacity: f64) -> Option<Train> {
    let apart = (service_ns(path, capacity)? * APART).clamp(APART_NS.0, APART_NS.1);
    let mut after = Duration::ZERO;
    let departures = (0..PACKETS).map(|i| {
        let departure = Departure { after, bytes: BYTES };
        after += Duration::from_nanos((apart * (0.5 + crate::draw(path.seed, i.into()))) as u64);
        departure
    });
    Some(Train::new(departures.collect()))
}

/// What they say; `None` where too few arrived or hosts add too much to their delays.
pub(super) fn busy(path: &Path, capacity: f64, passage: &TrainObservation) -> Option<Busy> {
    let service = service_ns(path, capacity)?;
    let delays = sorted(passage.delays_ns().into_iter().map(|ns| ns as f64));
    let count = delays.len() as f64;
    let is_quiet = percentile(&delays, 0.1)? <= service * NOISE;
    let enough = delays.len() * 2 > passage.packets.len() && passage.reordered() == 0;
    let waited = delays.iter().filter(|ns| **ns > service * WAITED).count() as f64;
    // One more of each, so that none of one kind is not taken for certainty.
    let seen = (waited + 1.0) / (count + 2.0);
    let share = inverted(waited / count);
    // As many independent draws as packets, and as the busy times that they span: those of M/D/1 at half the load.
    let first = passage.packets.first()?.sent?;
    let span = passage.packets.last()?.sent?.saturating_since(first).as_nanos() as f64;
    let variance = seen * (1.0 - seen) * (1.0 / count + 2.0 * service / span.max(service));
    (is_quiet && enough).then(|| Busy { share, half: 2.0 * variance.sqrt() })
}

/// The share of busy time with which this share of packets waits for more than [`WAITED`].
fn inverted(waiting: f64) -> f64 {
    let waits = |busy: f64| 1.0 - (1.0 - busy) * (busy * WAITED).exp();
    let (mut low, mut high) = (0.0, 1.0);
    // 2^-20 is far below what a hundred packets can tell.
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if waits(middle) < waiting { low = middle } else { high = middle }
    }
    if waiting <= 0.0 { 0.0 } else { f64::midpoint(low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PacketOutcome;
    use units::Instant;

    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), mtu: 1500, least_gap: Duration::from_nanos(1200), seed: 1 };

    /// 80 packets, 5 ms apart, with these delays in turn.
    fn passage(delays_us: &[u64]) -> TrainObservation {
        let fate = |(i, us): (u64, &u64)| PacketOutcome {
            bytes: 64,
            sent: Some(Instant::from_nanos(i * 5_000_000)),
            received: Some(Instant::from_nanos(i * 5_000_000 + us * 1_000)),
        };
        TrainObservation { packets: (0..80).zip(delays_us.iter().cycle()).map(fate).collect() }
    }

    #[test]
    fn the_share_that_waits_follows_from_the_load_and_back() {
        // At half the load: 1 - 0.5 e^0.1 = 0.4474.
        assert!((inverted(0.447_415) - 0.5).abs() < 1e-5);
        assert_eq!((inverted(0.0), inverted(1.0) > 0.999), (0.0, true));
    }

    #[test]
    fn delays_of_half_the_packets_are_half_a_load() {
        // 10 Mb/s: 1.2 ms a packet.
        let told = busy(&PATH, 10e6, &passage(&[50, 900])).unwrap();
        assert!((told.share - 0.55).abs() < 0.01 && told.half < 0.2, "{told:?}");
        assert!(busy(&PATH, 10e6, &passage(&[50])).unwrap().share < 1e-5);
    }

    #[test]
    fn delays_that_hosts_make_say_nothing() {
        // All differ, by up to half the time of a packet.
        let spread: Vec<u64> = (0..80).map(|i| i * 37 % 80 * 8).collect();
        assert!(busy(&PATH, 10e6, &passage(&spread)).is_none());
        assert!(busy(&PATH, 1e9, &passage(&[50])).is_none() && train(&PATH, 1e9).is_none());
        assert!(busy(&PATH, 10e6, &TrainObservation::default()).is_none());
    }
}
