use link::{Delivery, Train};
use tcp::{Ack, Segments};

use crate::estimates::Message;

/// A packet, or a train of segments, in flight.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Index of the path.
    pub(crate) path: u32,
    /// Position on the path.
    pub(crate) hop: u32,
    /// Receiver at the end of the path.
    pub(crate) to: Address,
    /// Bytes of all headers of a segment.
    pub(crate) header: u32,
    pub(crate) body: Body,
}

/// Receiver of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// A connection, with the number of its use: a late packet of an earlier connection is ignored.
    Connection(u32, u32),
    /// The receiver of a flow of datagrams.
    Datagrams(u32),
    /// The member of an overlay at a node.
    Member(u32),
    /// Either end of a call of `longhaul estimate`.
    Estimate(u32),
}

/// Content of a packet.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Data(Segments),
    Ack(Box<Ack>),
    /// A step of the handshake.
    Setup(Step),
    /// A datagram with its number.
    Datagram(u64),
    /// A datagram between members of an overlay: the node that sent it, and its payload.
    Frame(u32, Box<[u8]>),
    /// A packet of a train, by the number of the train and its own; `is_return`: an echo.
    Probe {
        train: u32,
        index: u32,
        is_return: bool,
    },
    /// A control message of a probing session.
    Message(Message),
}

/// Steps that precede the data of a small transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Syn,
    SynAck,
    Request,
}

impl Packet {
    /// The packet as a train of `count` segments.
    pub(crate) fn train(self, count: u32, full: u32, last: u32) -> Train<Self> {
        Train { payload: self, count, full, last }
    }

    /// One segment of a train of this packet; `bytes`: its IP bytes.
    pub(crate) fn segment(&self, index: u32, bytes: u32) -> Self {
        let mut packet = self.clone();
        if let Body::Data(segments) = &mut packet.body {
            segments.seq += u64::from(index) * u64::from(segments.mss);
            segments.bytes = u64::from(bytes.saturating_sub(self.header));
        }
        packet
    }

    /// The part of a packet that a wire has delivered, and its form for the next wire.
    pub(crate) fn delivered(delivery: Delivery<Self>) -> (Self, u32, u32, u32) {
        let Delivery { mut payload, first, count, bytes, .. } = delivery;
        let Body::Data(whole) = &mut payload.body else {
            let size = bytes as u32;
            return (payload, 1, size, size);
        };
        let (header, mss) = (payload.header, whole.mss);
        whole.seq += u64::from(first) * u64::from(mss);
        whole.bytes = bytes.saturating_sub(u64::from(count) * u64::from(header));
        let full = mss + header;
        let last = (bytes - u64::from(count - 1) * u64::from(full)) as u32;
        (payload, count, full, last)
    }
}
