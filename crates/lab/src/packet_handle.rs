use std::io;
use std::sync::Arc;

use kernel::Tun;
use link::{Delivery, Train};

use packet::{Cut, Packet};

/// A range of segments of a packet in transit: the unit that the model of a link carries.
#[derive(Debug, Clone)]
pub(crate) struct PacketHandle {
    packet: Arc<Packet<Box<[u8]>>>,
    first: u32,
    count: u32,
}

impl PacketHandle {
    /// Converts a packet to the train that the model takes.
    pub(crate) fn train(packet: Packet<Box<[u8]>>) -> Train<Self> {
        let segments = packet.segments();
        let packet = Self { packet: Arc::new(packet), first: 0, count: segments.count };
        Train { payload: packet, count: segments.count, full: segments.full, last: segments.last }
    }

    /// Converts the delivery of a link to the train that enters the next link.
    pub(crate) fn onward(delivery: Delivery<Self>) -> Train<Self> {
        let packet = delivery.payload.narrowed(delivery.first, delivery.count);
        let segments = packet.packet.segments();
        let is_last = packet.first + packet.count == segments.count;
        let last = if is_last { segments.last } else { segments.full };
        Train { count: packet.count, full: segments.full, last, payload: packet }
    }

    /// The part of the packet that a delivery covers.
    pub(crate) fn narrowed(self, first: u32, count: u32) -> Self {
        Self { first: self.first + first, count, ..self }
    }

    pub(crate) fn packet(&self) -> &Packet<Box<[u8]>> {
        &self.packet
    }

    /// Sends the segments to a node.
    pub(crate) fn send(&self, to: &Tun) -> io::Result<()> {
        if self.count == self.packet.segments().count {
            return to.send(&[self.packet.whole()]);
        }
        match Cut::new(&self.packet, self.first, self.count) {
            Some(cut) => to.send(&cut.parts()),
            None => Err(io::Error::other("cannot segment the packet")),
        }
    }

    /// Calls `show` with headers and payload of each segment, as on the wire except for the checksum, which stays
    /// partial.
    pub(crate) fn each_segment(&self, mut show: impl FnMut(&[u8], &[u8])) {
        for segment in self.first..self.first + self.count {
            match Cut::new(&self.packet, segment, 1) {
                Some(cut) => show(cut.headers(), cut.payload()),
                None => show(self.packet.frame(), &[]),
            }
        }
    }

    /// The packet's buffer, if no other segment of the packet is in transit.
    pub(crate) fn into_buffer(self) -> Option<Box<[u8]>> {
        Arc::into_inner(self.packet).map(Packet::into_buffer)
    }
}
