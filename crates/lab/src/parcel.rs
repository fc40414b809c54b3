use std::io;
use std::sync::Arc;

use kernel::Tun;
use link::{Delivery, Train};

use packet::{Cut, Packet};

/// A run of segments of a packet that is on its way: what the model of a link carries.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    packet: Arc<Packet<Box<[u8]>>>,
    first: u32,
    count: u32,
}

impl Parcel {
    /// A packet as the model sees it.
    pub(crate) fn train(packet: Packet<Box<[u8]>>) -> Train<Self> {
        let segments = packet.segments();
        let parcel = Self { packet: Arc::new(packet), first: 0, count: segments.count };
        Train { payload: parcel, count: segments.count, full: segments.full, last: segments.last }
    }

    /// What a link delivered, as the train that enters the next one.
    pub(crate) fn onward(delivery: Delivery<Self>) -> Train<Self> {
        let parcel = delivery.payload.narrowed(delivery.first, delivery.count);
        let segments = parcel.packet.segments();
        let is_last = parcel.first + parcel.count == segments.count;
        let last = if is_last { segments.last } else { segments.full };
        Train { count: parcel.count, full: segments.full, last, payload: parcel }
    }

    /// The part of it that a delivery names.
    pub(crate) fn narrowed(self, first: u32, count: u32) -> Self {
        Self { first: self.first + first, count, ..self }
    }

    pub(crate) fn packet(&self) -> &Packet<Box<[u8]>> {
        &self.packet
    }

    /// Hands the segments to a node.
    pub(crate) fn send(&self, to: &Tun) -> io::Result<()> {
        if self.count == self.packet.segments().count {
            return to.send(&[self.packet.whole()]);
        }
        match Cut::new(&self.packet, self.first, self.count) {
            Some(cut) => to.send(&cut.parts()),
            None => Err(io::Error::other("a packet that cannot be cut")),
        }
    }

    /// Shows headers and payload of each segment, as they are on the wire (but for the checksum, which stays partial).
    pub(crate) fn each_segment(&self, mut show: impl FnMut(&[u8], &[u8])) {
        for segment in self.first..self.first + self.count {
            match Cut::new(&self.packet, segment, 1) {
                Some(cut) => show(cut.headers(), cut.payload()),
                None => show(self.packet.frame(), &[]),
            }
        }
    }

    /// The packet's buffer, when no other segment of it is on its way.
    pub(crate) fn into_buffer(self) -> Option<Box<[u8]>> {
        Arc::into_inner(self.packet).map(Packet::into_buffer)
    }
}
