use units::Instant;

use super::{RemoteTimes, StampKind};

/// A sampled block with incomplete timestamps.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) block: u32,
    /// Stream offset of the header's last byte.
    pub(super) last_byte: u64,
    pub(super) written: Instant,
    scheduled: Option<Instant>,
    sent: Option<Instant>,
    acknowledged: Option<Instant>,
    pub(super) echoed_at: Option<Instant>,
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
            scheduled: None,
            sent: None,
            acknowledged: None,
            echoed_at: None,
            times: None,
            remote: false,
            counted: false,
        }
    }

    /// Time at which it was handed to the driver.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.sent
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
        let is_first = slot.is_none();
        slot.get_or_insert(at);
        is_first
    }

    /// The stages that a stamp of this kind completes, with start and end.
    pub(super) fn completed_by(&self, kind: StampKind) -> impl Iterator<Item = (Stage, Instant, Instant)> {
        let socket_buffer = (Stage::SocketBuffer, Some(self.written), self.scheduled);
        let qdisc = (Stage::Qdisc, self.scheduled, self.sent);
        let network = (Stage::Network, self.sent, self.acknowledged);
        let stages = match kind {
            StampKind::Scheduled => [Some(socket_buffer), Some(qdisc)],
            StampKind::Sent => [Some(qdisc), Some(network)],
            StampKind::Acknowledged => [Some(network), None],
        };
        stages.into_iter().flatten().filter_map(|(stage, start, end)| Some((stage, start?, end?)))
    }

    /// Whether no further stamp can arrive.
    pub(super) fn is_complete(&self) -> bool {
        self.scheduled.is_some()
            && self.sent.is_some()
            && self.acknowledged.is_some()
            && self.remote
            && self.echoed_at.is_some()
    }
}
