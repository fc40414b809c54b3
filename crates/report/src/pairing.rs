//! Joins the records of sender and receiver for the same interval into one row.
//!
//! Input: interval records of both ends in any order. Output: [`Row`]s, each direction in order of its index. A row
//! leaves when both ends have reported, or when its maximum wait has passed.

use std::collections::BTreeMap;

use results::{Decomposition, DelaySummary, Direction, IntervalRecord, LimitVerdict, OneWayDelay, Role, StartRecord};
use results::{TcpState, UdpInterval};

/// Minimum wait for the other end's record, in seconds of test time.
///
/// Records of the server travel a loaded path: at an interval of 0.1 s and a round trip of 0.2 s the next interval
/// always ends before the record of this one arrives.
const GRACE_S_MIN: f64 = 0.5;

/// Maximum number of waiting rows in one direction; only a faulty peer exceeds it.
const WAITING_MAX: usize = 1024;

/// One interval of one direction, with the records of both ends.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) direction: Direction,
    pub(crate) sender: Option<IntervalRecord>,
    pub(crate) receiver: Option<IntervalRecord>,
}

impl Row {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self { direction, sender: None, receiver: None }
    }

    /// Adds the record of one end.
    pub(crate) fn fill(&mut self, record: IntervalRecord) {
        match record.role {
            Role::Sender => self.sender = Some(record),
            Role::Receiver => self.receiver = Some(record),
        }
    }

    const fn is_complete(&self) -> bool {
        self.sender.is_some() && self.receiver.is_some()
    }

    /// Record that gives the row its time: the receiver's if present, because it counts the goodput.
    pub(crate) fn dating(&self) -> Option<&IntervalRecord> {
        self.receiver.as_ref().or(self.sender.as_ref())
    }

    pub(crate) fn start_s(&self) -> f64 {
        self.dating().map_or(0.0, |r| r.start_s)
    }

    pub(crate) fn end_s(&self) -> f64 {
        self.dating().map_or(0.0, |r| r.end_s)
    }

    /// Rate and the end that counted it: the receiver's goodput, else the sender's acknowledged bytes.
    pub(crate) fn throughput(&self) -> Option<(u64, Role)> {
        self.dating().map(|r| (r.throughput_bps, r.role))
    }

    /// Bytes behind [`throughput`](Self::throughput).
    pub(crate) fn bytes(&self) -> u64 {
        self.dating().map_or(0, |r| r.bytes)
    }

    pub(crate) fn block_rtt(&self) -> Option<&DelaySummary> {
        self.sender.as_ref()?.block_rtt.as_ref()
    }

    pub(crate) fn limit(&self) -> Option<&LimitVerdict> {
        self.sender.as_ref()?.limit.as_ref()
    }

    pub(crate) fn udp(&self) -> Option<&UdpInterval> {
        self.receiver.as_ref()?.udp.as_ref()
    }

    pub(crate) fn one_way(&self) -> Option<&OneWayDelay> {
        let of = |r: &'_ Option<IntervalRecord>| r.as_ref().is_some_and(|r| r.one_way.is_some());
        let from = if of(&self.receiver) { &self.receiver } else { &self.sender };
        from.as_ref()?.one_way.as_ref()
    }

    /// Median of the streams' smoothed round trips.
    pub(crate) fn srtt_ns(&self) -> Option<u64> {
        let mut all: Vec<u64> = self.sender_sockets().map(|t| t.srtt_ns).filter(|ns| *ns > 0).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// Sum of the streams' congestion windows.
    pub(crate) fn cwnd_bytes(&self) -> Option<u64> {
        self.sender_sockets().map(|t| t.cwnd_bytes).reduce(u64::saturating_add)
    }

    /// Segments that all streams retransmitted in this interval.
    pub(crate) fn retransmits(&self) -> Option<u64> {
        self.sender.as_ref()?.streams.iter().filter_map(|s| s.retransmits).reduce(u64::saturating_add)
    }

    fn sender_sockets(&self) -> impl Iterator<Item = &TcpState> {
        self.sender.iter().flat_map(|r| &r.streams).filter_map(|s| s.tcp.as_ref())
    }

    /// The sender's stages with the receiver's own stage, which only the receiver's clock can time.
    pub(crate) fn decomposition(&self) -> Option<Decomposition> {
        let of = |r: &Option<IntervalRecord>| r.as_ref().and_then(|r| r.decomposition.clone());
        merge_stages(of(&self.sender), of(&self.receiver))
    }
}

/// Combines the stages of both ends into one decomposition.
fn merge_stages(sender: Option<Decomposition>, receiver: Option<Decomposition>) -> Option<Decomposition> {
    match (sender, receiver) {
        (Some(mut s), Some(r)) => {
            s.socket_buffer = s.socket_buffer.or(r.socket_buffer);
            s.qdisc = s.qdisc.or(r.qdisc);
            s.network = s.network.or(r.network);
            s.receiver_app = s.receiver_app.or(r.receiver_app);
            Some(s)
        }
        (s, r) => s.or(r),
    }
}

/// Buffer that returns rows in order, with a bounded delay.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// Whether both ends report intervals; with thrulay only the client does.
    both_ends: bool,
    grace_s: f64,
    lanes: BTreeMap<Direction, DirectionRows>,
}

#[derive(Debug, Default)]
struct DirectionRows {
    waiting: BTreeMap<u64, Row>,
    /// Index of the next row to return. Later records of earlier rows are dropped; the summary contains their data.
    next: u64,
    newest_end_s: f64,
}

impl Pairing {
    /// Creates a buffer whose wait follows the round-trip time in `start`.
    pub(crate) fn new(start: &StartRecord) -> Self {
        let rtt_s = start.baseline_rtt_ns.unwrap_or(0) as f64 / 1e9;
        let interval_s = start.plan.interval_ns as f64 / 1e9;
        // Three round trips: the record waits behind the bulk bytes of its own direction, in a queue that a transfer
        // commonly fills to a round trip or two.
        let grace_s = (3.0 * rtt_s).max(GRACE_S_MIN).max(interval_s * 0.5);
        Self { both_ends: start.server.is_some(), grace_s, lanes: BTreeMap::new() }
    }

    /// Adds a record and returns the rows that are now ready.
    pub(crate) fn push(&mut self, record: &IntervalRecord) -> Vec<Row> {
        let lane = self.lanes.entry(record.direction).or_default();
        if record.index < lane.next {
            return Vec::new();
        }
        lane.newest_end_s = lane.newest_end_s.max(record.end_s);
        lane.waiting.entry(record.index).or_insert_with(|| Row::new(record.direction)).fill(record.clone());
        lane.ready(self.both_ends, self.grace_s)
    }

    /// Returns all waiting rows, complete or not.
    pub(crate) fn drain(&mut self) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.lanes.values_mut().flat_map(|l| core::mem::take(&mut l.waiting)).map(|r| r.1).collect();
        rows.sort_by(|a, b| a.start_s().total_cmp(&b.start_s()).then(a.direction.cmp(&b.direction)));
        rows
    }
}

impl DirectionRows {
    fn ready(&mut self, both_ends: bool, grace_s: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        loop {
            let crowded = self.waiting.len() > WAITING_MAX;
            let Some(first) = self.waiting.first_entry() else { break };
            let row = first.get();
            let stale = self.newest_end_s >= row.end_s() + grace_s;
            if !(row.is_complete() || !both_ends || stale || crowded) {
                break;
            }
            self.next = first.key().saturating_add(1);
            rows.push(first.remove());
        }
        rows
    }
}

/// Returns all rows of a finished record stream, each direction in order.
pub(crate) fn all_rows(records: impl IntoIterator<Item = IntervalRecord>) -> BTreeMap<Direction, Vec<Row>> {
    let mut lanes: BTreeMap<Direction, BTreeMap<u64, Row>> = BTreeMap::new();
    for record in records {
        let direction = record.direction;
        let lane = lanes.entry(direction).or_default();
        lane.entry(record.index).or_insert_with(|| Row::new(direction)).fill(record);
    }
    lanes.into_iter().map(|(d, lane)| (d, lane.into_values().collect())).collect()
}
