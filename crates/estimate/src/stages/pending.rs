use units::Instant;

use super::{RemoteTimes, StampKind};

/// A time that may be unknown, in half the bytes of an `Option`: hundreds of blocks of a stream may wait.
#[derive(Debug, Clone, Copy)]
struct Known(u64);

impl Known {
    /// 584 years after the start of the clock, which no time reaches.
    const NEVER: Self = Self(u64::MAX);

    fn get(self) -> Option<Instant> {
        (self.0 != Self::NEVER.0).then_some(Instant::from_nanos(self.0))
    }

    /// Sets a time that is not known yet; returns whether it was unknown.
    fn set(&mut self, at: Instant) -> bool {
        let is_first = self.get().is_none();
        if is_first {
            self.0 = at.as_nanos().min(Self::NEVER.0 - 1);
        }
        is_first
    }
}

/// A sampled block with incomplete timestamps.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) block: u32,
    /// Stream offset of the header's last byte.
    pub(super) last_byte: u64,
    pub(super) written: Instant,
    scheduled: Known,
    sent: Known,
    acknowledged: Known,
    echoed_at: Known,
    pub(super) times: Option<RemoteTimes>,
    pub(super) remote: bool,
    /// Whether a stage of it was recorded.
    pub(super) counted: bool,
}

/// A part of a block's path through the sending host and the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    SocketBuffer,
    Qdisc,
    Network,
}

impl Pending {
    pub(super) fn new(block: u32, last_byte: u64, written: Instant) -> Self {
        Self {
            block,
            last_byte,
            written,
            scheduled: Known::NEVER,
            sent: Known::NEVER,
            acknowledged: Known::NEVER,
            echoed_at: Known::NEVER,
            times: None,
            remote: false,
            counted: false,
        }
    }

    /// Time at which it was handed to the driver.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.sent.get()
    }

    /// Time at which its echo arrived.
    pub(super) fn echoed_at(&self) -> Option<Instant> {
        self.echoed_at.get()
    }

    /// Records the arrival of its echo; `false` if one arrived before.
    pub(super) fn echo(&mut self, at: Instant) -> bool {
        self.echoed_at.set(at)
    }

    /// Records a stamp; `false` if one of this kind exists already.
    ///
    /// The first stamp counts. A retransmitted segment is stamped again on transmission, but its bytes left the host
    /// with the first stamp. The wait for the retransmission belongs to the network stage.
    pub(super) fn stamp(&mut self, kind: StampKind, at: Instant) -> bool {
        let slot = match kind {
            StampKind::Scheduled => &mut self.scheduled,
            StampKind::Sent => &mut self.sent,
            StampKind::Acknowledged => &mut self.acknowledged,
        };
        slot.set(at)
    }

    /// The stages that a stamp of this kind completes, with start and end.
    pub(super) fn completed_by(&self, kind: StampKind) -> impl Iterator<Item = (Stage, Instant, Instant)> {
        let (scheduled, sent) = (self.scheduled.get(), self.sent.get());
        let socket_buffer = (Stage::SocketBuffer, Some(self.written), scheduled);
        let qdisc = (Stage::Qdisc, scheduled, sent);
        let network = (Stage::Network, sent, self.acknowledged.get());
        let stages = match kind {
            StampKind::Scheduled => [Some(socket_buffer), Some(qdisc)],
            StampKind::Sent => [Some(qdisc), Some(network)],
            StampKind::Acknowledged => [Some(network), None],
        };
        stages.into_iter().flatten().filter_map(|(stage, start, end)| Some((stage, start?, end?)))
    }

    /// Whether no further stamp can arrive.
    pub(super) fn is_complete(&self) -> bool {
        let times = [self.scheduled, self.sent, self.acknowledged, self.echoed_at];
        self.remote && times.iter().all(|time| time.get().is_some())
    }
}
