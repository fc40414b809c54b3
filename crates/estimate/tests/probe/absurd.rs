//! Broken or dishonest far ends.

use estimate::draw;
use estimate::probe::{PacketOutcome, Train, TrainObservation};
use units::Instant;

/// Arbitrary report of a broken or hostile far end on a train: a function of the seed alone.
pub(crate) fn absurd(train: &Train, seed: u64) -> TrainObservation {
    let kind = (draw(seed, 0) * 8.0) as u64;
    let instant = |i: u64, n: u64| match kind {
        0 => None,
        1 => Some(0),
        2 => Some(u64::MAX),
        3 => Some((draw(seed, i * 2 + n + 1) * u64::MAX as f64) as u64),
        4 => Some(u64::MAX - i),
        5 => Some(i.wrapping_mul(u64::MAX / 300)),
        6 => (i % 2 == n).then_some(i),
        _ => Some(i * 120_000 * (n + 1)),
    };
    // Fewer packets than were requested, or more.
    let length = if draw(seed, u64::MAX) < 0.2 { 1 + seed % 5 } else { train.departures().len() as u64 };
    let outcome = |i| PacketOutcome {
        bytes: if kind == 3 { u32::MAX } else { 1500 },
        sent: instant(i, 0).map(Instant::from_nanos),
        received: instant(i, 1).map(Instant::from_nanos),
    };
    TrainObservation { packets: (0..length).map(outcome).collect() }
}
