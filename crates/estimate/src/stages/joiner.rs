use std::collections::VecDeque;

use results::{Decomposition, DelayHistogram};
use units::{Duration, Instant};

use super::StageHistograms;
use super::pending::{Pending, Stage};

/// Maximum number of waiting blocks. Sampling takes some hundred blocks a second, so this covers many round trips.
const PENDING_MAX: usize = 4096;

/// Maximum number of waiting blocks before those with an echo are given up. Their missing stamps are some that a host
/// does not make: the last one, the peer's report, is about as fast as the echo and at most 100 ms later, and 512
/// blocks take more than two seconds.
const ECHOED_MAX: usize = 512;

/// Maximum time by which a stamp can precede its predecessor. Kernel stamps are converted between clocks, whose
/// readings are some microseconds apart, tens on a busy host. A larger difference is a stamp of another packet.
const BACKWARDS_NS_MAX: u64 = 100_000;

/// Kind of a kernel transmit timestamp (Documentation/networking/timestamping.rst §1.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StampKind {
    /// Handed to the queueing discipline (SOF_TIMESTAMPING_TX_SCHED).
    Scheduled,
    /// Handed to the device driver (SOF_TIMESTAMPING_TX_SOFTWARE).
    Sent,
    /// Acknowledged by the peer's kernel (SOF_TIMESTAMPING_TX_ACK).
    Acknowledged,
}

/// Arrival times of a block at the receiver, on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteTimes {
    /// Arrival in the receiver's kernel.
    pub arrived: Instant,
    /// Read by the receiving application, which echoes immediately.
    pub read: Instant,
    /// Maximum error of both times, from the comparison of the clocks.
    pub bound: Duration,
}

/// Joins the timestamps of each sampled block of one stream into the delay of each stage.
///
/// Stamps of one block arrive in any order after [`handle_written`](Self::handle_written); a stage is recorded as soon
/// as both its ends are known. All times are on the sender's clock, except the residence at the receiver, which is a
/// difference on the receiver's. Memory is bounded: of 4096 waiting blocks the oldest is dropped, and of
/// 512 if its echo has arrived.
#[derive(Debug, Clone)]
pub struct Stages {
    start: Instant,
    pending: VecDeque<Pending>,
    interval: StageHistograms,
    dropped: u64,
    unmatched: u64,
}

impl Stages {
    /// Creates a joiner for a stream whose load starts at `start`; blocks written before are not sampled.
    pub fn new(start: Instant) -> Self {
        Self { start, pending: VecDeque::new(), interval: StageHistograms::default(), dropped: 0, unmatched: 0 }
    }

    /// Records that the header of `block` was written at `at`, up to (not including) byte `header_end_offset` of the
    /// stream.
    ///
    /// Blocks arrive in the order of the stream; one out of order is ignored and counted as unmatched.
    pub fn handle_written(&mut self, block: u32, header_end_offset: u64, at: Instant) {
        let newest = self.pending.back().map(|p| p.last_byte);
        let last_byte = header_end_offset.checked_sub(1).filter(|b| newest.is_none_or(|n| n < *b));
        let Some(last_byte) = last_byte.filter(|_| at >= self.start) else {
            self.unmatched += 1;
            return;
        };
        let is_echoed = self.pending.front().is_some_and(|p| p.echoed_at().is_some());
        if self.pending.len() >= if is_echoed { ECHOED_MAX } else { PENDING_MAX }
            && let Some(oldest) = self.pending.pop_front()
        {
            self.dropped += u64::from(oldest.echoed_at().is_none());
        }
        self.pending.push_back(Pending::new(block, last_byte, at));
    }

    /// Handles a transmit timestamp. `offset` is the kernel's OPT_ID value: the low 32 bits of the stream offset of the
    /// last byte.
    pub fn handle_stamp(&mut self, kind: StampKind, offset: u32, at: Instant) {
        let Some(index) = self.position_of_byte(offset) else {
            self.unmatched += 1;
            return;
        };
        let Some(pending) = self.pending.get_mut(index) else { return };
        if !pending.stamp(kind, at) {
            return;
        }
        let completed: Vec<_> = pending.completed_by(kind).collect();
        for (stage, start, end) in completed {
            self.record_between(index, stage, start, end);
        }
        if kind == StampKind::Sent {
            self.record_forward(index);
        }
        self.retire(index);
    }

    /// Handles the echo of `block`, received at `at`.
    pub fn handle_echo(&mut self, block: u32, at: Instant) {
        let Some(index) = self.position_of_block(block) else {
            self.unmatched += 1;
            return;
        };
        if let Some(pending) = self.pending.get_mut(index)
            && pending.echo(at)
        {
            let backwards = u64::from(at < pending.written);
            self.interval.backwards += backwards;
            self.record_return(index);
        }
        self.retire(index);
    }

    /// Handles the receiver's report of how long `block` waited in its kernel for the application, measured on its own
    /// clock. `times` are converted to the sender's clock, if the two clocks have been compared.
    pub fn handle_remote(&mut self, block: u32, residence: Duration, times: Option<RemoteTimes>) {
        let Some(index) = self.position_of_block(block) else {
            self.unmatched += 1;
            return;
        };
        if let Some(pending) = self.pending.get_mut(index)
            && !core::mem::replace(&mut pending.remote, true)
        {
            pending.times = times;
            self.record(index, residence, |h| &mut h.receiver_app);
            self.record_forward(index);
            self.record_return(index);
        }
        self.retire(index);
    }

    /// The stages recorded since the last call.
    pub fn interval(&mut self) -> Decomposition {
        self.take_interval().decomposition()
    }

    /// The stages recorded since the last call as mergeable histograms, for a record over several streams.
    pub fn take_interval(&mut self) -> StageHistograms {
        core::mem::take(&mut self.interval)
    }

    /// The stages since the last interval as a record.
    pub fn finish(mut self) -> Decomposition {
        self.take_rest().decomposition()
    }

    /// The stages since the last interval, with a remark on the blocks that were given up. The intervals and this rest
    /// together are the stages of the whole stream.
    pub fn take_rest(&mut self) -> StageHistograms {
        let mut rest = self.take_interval();
        let dropped = core::mem::take(&mut self.dropped);
        if dropped > 0 {
            rest.remarks.push(format!("{dropped} sampled blocks were given up before their echo came back"));
        }
        rest
    }

    /// Blocks dropped before their echo arrived, because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Stamps, echoes and residence times without a waiting block: late, repeated, or invented.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// The waiting block whose header ends with this byte. The newest block gives the high bits: no stamp is newer.
    fn position_of_byte(&self, low_bits: u32) -> Option<usize> {
        let newest = self.pending.back()?.last_byte;
        let behind = (newest as u32).wrapping_sub(low_bits);
        let last_byte = newest.checked_sub(u64::from(behind))?;
        self.pending.binary_search_by_key(&last_byte, |p| p.last_byte).ok()
    }

    /// The waiting block of this number. Echoes arrive in order, so it is near the front.
    fn position_of_block(&self, block: u32) -> Option<usize> {
        self.pending.iter().position(|p| p.block == block)
    }

    fn record_between(&mut self, index: usize, stage: Stage, start: Instant, end: Instant) {
        if start.saturating_since(end) > Duration::from_nanos(BACKWARDS_NS_MAX) {
            self.interval.backwards += 1;
            return;
        }
        if end < start {
            self.interval.negative += 1;
        }
        self.record(index, end.saturating_since(start), |h| match stage {
            Stage::SocketBuffer => &mut h.socket_buffer,
            Stage::Qdisc => &mut h.qdisc,
            Stage::Network => &mut h.network,
        });
    }

    fn record(&mut self, index: usize, delay: Duration, of: impl Fn(&mut StageHistograms) -> &mut DelayHistogram) {
        let Some(pending) = self.pending.get_mut(index) else { return };
        let is_first = !core::mem::replace(&mut pending.counted, true);
        self.interval.samples += u64::from(is_first);
        of(&mut self.interval).record(delay);
    }

    /// Records the one-way delay of the block, from the local driver to the remote kernel.
    fn record_forward(&mut self, index: usize) {
        let Some((sent, times)) = self.pending.get(index).and_then(|p| Some((p.sent()?, p.times?))) else { return };
        let delay = times.arrived.nanos_since(sent);
        self.interval.one_way.record(delay, times.bound);
    }

    /// Records the one-way delay of the echo, from the remote read to the local read.
    fn record_return(&mut self, index: usize) {
        let Some((at, times)) = self.pending.get(index).and_then(|p| Some((p.echoed_at()?, p.times?))) else { return };
        let delay = at.nanos_since(times.read);
        self.interval.one_way_return.record(delay, times.bound);
    }

    fn retire(&mut self, index: usize) {
        if self.pending.get(index).is_some_and(Pending::is_complete) {
            self.pending.remove(index);
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
