//! Trend of the delays of one stream.

use units::{Duration, Instant};

use super::parameters::BATCHED_SHARE;
use crate::probe::TrainObservation;
use crate::samples::median;

/// Minimum number of packets of a part of a stream in which the sender paused (1.3.2: more than 36).
const PART_MIN: usize = 37;

/// Minimum number of values for a trend (1.3.2).
const VALUES_MIN: usize = 5;

/// Share of pairs of values that increase: no trend below the first, a trend above the second (1.3.2: 0.55 ± 10 %).
const PAIRWISE_LIMITS: (f64, f64) = (0.495, 0.605);

/// Increase over all changes: no trend below the first, a trend above the second (1.3.2: 0.4 ± 10 %).
const DIFFERENCE_LIMITS: (f64, f64) = (0.36, 0.44);

/// Trend of the delays of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
    /// The delays increase.
    Increasing,
    /// The delays do not increase.
    Flat,
    /// The tests contradict each other, or both are undecided.
    Unclear,
}

/// The evaluation of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    /// One trend for each part that could be evaluated: pauses of the sender separate the parts.
    pub(super) trends: Vec<Trend>,
    /// Lost or overtaken packets as a share of those sent.
    pub(super) loss: f64,
    /// Departure rate in b/s.
    pub(super) rate: Option<f64>,
    /// Number of batches that arrived; a packet alone is one. If the stream is batched, only complete batches count.
    pub(super) batches: usize,
    /// Whether most packets arrived together with the next.
    pub(super) is_batched: bool,
    /// Whether the sender paused in it.
    pub(super) is_broken: bool,
    /// Whether any packet arrived.
    pub(super) any_arrived: bool,
}

/// Parameters of the evaluation of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// Requested gap of the packets.
    pub(super) gap: Duration,
    /// Maximum gap of packets that arrived together.
    pub(super) batch_gap: Duration,
    /// Share of the sender's gaps, the smallest ones, that give its rate.
    pub(super) kept_gaps: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    bytes: u32,
    at: Instant,
    received: Option<Instant>,
}

/// A packet that arrived in order.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    at: u64,
    /// Delay in ns, including the clock offset.
    delay: i128,
}

impl Stream {
    pub(super) fn read(observation: &TrainObservation, reading: &Reading) -> Self {
        let sent: Vec<Sent> = observation
            .packets
            .iter()
            .filter_map(|p| Some(Sent { bytes: p.bytes, at: p.sent?, received: p.received }))
            .collect();
        // 1.3.2: a gap above both is a pause in which another process had the sender's processor.
        let longest = (reading.gap * 2).max(reading.gap + Duration::from_millis(1));
        let parts: Vec<&[Sent]> = sent.chunk_by(|a, b| gap_ns(a, b).is_some_and(|ns| ns <= nanos(longest))).collect();
        let arrivals: Vec<Vec<Arrived>> = parts.iter().map(|part| in_order(part)).collect();
        let any_arrived: usize = arrivals.iter().map(Vec::len).sum();
        let mut kept: Vec<Vec<Arrived>> = arrivals.iter().map(|a| last_of_batches(a, reading.batch_gap)).collect();
        let batches: usize = kept.iter().map(Vec::len).sum();
        // Of n packets in b batches, n - b arrived together with the next; a part has one gap less than packets.
        let gaps = any_arrived.saturating_sub(parts.len()).max(1);
        let is_batched = any_arrived > VALUES_MIN && (any_arrived - batches) as f64 > BATCHED_SHARE * gaps as f64;
        if is_batched {
            // The end of the stream cuts the last batch short: its last packet waited for the receiver like a first
            // one, which would look like an increase.
            for part in &mut kept {
                part.pop();
            }
        }
        let evaluated = parts.iter().zip(&kept).filter(|(part, _)| part.len() >= PART_MIN);
        Self {
            trends: evaluated.filter_map(|(_, kept)| trend(&delays(kept, is_batched))).collect(),
            loss: if sent.is_empty() { 0.0 } else { (sent.len() - any_arrived) as f64 / sent.len() as f64 },
            rate: rate(&parts, reading.kept_gaps),
            batches: kept.iter().map(Vec::len).sum(),
            is_batched,
            is_broken: parts.len() > 1,
            any_arrived: any_arrived > 0,
        }
    }
}

fn nanos(d: Duration) -> u64 {
    units::nanos(d)
}

/// Gap from one departure to the next; `None` for a clock that ran backwards.
fn gap_ns(a: &Sent, b: &Sent) -> Option<u64> {
    b.at.as_nanos().checked_sub(a.at.as_nanos())
}

/// The packets that arrived, without overtaken ones (1.3.2 counts them as lost).
fn in_order(part: &[Sent]) -> Vec<Arrived> {
    let mut latest = 0;
    let mut arrived = Vec::with_capacity(part.len());
    for p in part {
        let Some(at) = p.received.map(Instant::as_nanos).filter(|at| *at >= latest) else { continue };
        latest = at;
        arrived.push(Arrived { at, delay: i128::from(at) - i128::from(p.at.as_nanos()) });
    }
    arrived
}

/// The last packet of each batch, which waited least for the receiver.
fn last_of_batches(arrived: &[Arrived], batch_gap: Duration) -> Vec<Arrived> {
    let next = arrived.iter().skip(1).map(|p| Some(p.at)).chain([None]);
    let alone = |p: &Arrived, next: Option<u64>| next.is_none_or(|next| next - p.at > nanos(batch_gap));
    arrived.iter().zip(next).filter(|(p, next)| alone(p, *next)).map(|(p, _)| *p).collect()
}

/// Medians of groups of as many values as there are groups (1.3.2); with few batches the delays themselves.
fn delays(kept: &[Arrived], is_batched: bool) -> Vec<f64> {
    let delay_min = kept.iter().map(|p| p.delay).min().unwrap_or(0);
    let all: Vec<f64> = kept.iter().map(|p| (p.delay - delay_min) as f64).collect();
    if is_batched && all.len() < PART_MIN {
        return all;
    }
    all.chunks_exact(all.len().isqrt().max(1)).filter_map(|group| median(group.iter().copied())).collect()
}

/// Departure rate from the smallest gaps within parts.
fn rate(parts: &[&[Sent]], kept_gaps: f64) -> Option<f64> {
    let pairs = || parts.iter().flat_map(|part| part.windows(2));
    let mut gaps: Vec<u64> = pairs().filter_map(|w| gap_ns(w.first()?, w.last()?)).collect();
    gaps.sort_unstable();
    let kept = (gaps.len() as f64 * kept_gaps).ceil() as usize;
    let total: u128 = gaps.iter().take(kept).map(|ns| u128::from(*ns)).sum();
    let bytes = parts.first()?.first()?.bytes;
    (total > 0).then(|| f64::from(bytes) * 8e9 * kept as f64 / total as f64)
}

/// Both tests of Jain and Dovrolis; `None` with too few values.
fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let steps: Vec<f64> = values.windows(2).filter_map(|w| Some(w.last()? - w.first()?)).collect();
    // 1.3.2 divides by the number of values, which is one more than that of steps: the share stays below one.
    let pairwise = steps.iter().filter(|step| **step > 0.0).count() as f64 / values.len() as f64;
    let changes: f64 = steps.iter().map(|step| step.abs()).sum();
    let difference = if changes > 0.0 { steps.iter().sum::<f64>() / changes } else { 0.0 };
    Some(match (class(pairwise, PAIRWISE_LIMITS), class(difference, DIFFERENCE_LIMITS)) {
        (Trend::Unclear, one) | (one, Trend::Unclear) => one,
        (a, b) if a == b => a,
        (Trend::Increasing | Trend::Flat, Trend::Increasing | Trend::Flat) => Trend::Unclear,
    })
}

fn class(value: f64, (none, rising): (f64, f64)) -> Trend {
    if value > rising {
        Trend::Increasing
    } else if value < none {
        Trend::Flat
    } else {
        Trend::Unclear
    }
}

#[cfg(test)]
mod tests;
