use std::io;

use kernel::{Tun, TunKind};
use units::Instant;

use super::pool::Pool;
use packet::Packet;

/// Result of a read from a device.
pub(crate) enum PortRead {
    Packet(Packet<Box<[u8]>>),
    /// Shorter than any packet; ignored.
    Invalid,
    Empty,
}

/// A node's device, as the engine uses it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) tun: Tun,
    pub(crate) wire: usize,
    /// Time since which packets may have been waiting that the last turn did not read.
    pub(crate) unread_since: Option<Instant>,
}

impl Port {
    pub(crate) fn take(&self, pool: &mut Pool) -> io::Result<PortRead> {
        let mut buffer = pool.large();
        match self.tun.receive(&mut buffer)? {
            None => {
                pool.give(buffer);
                Ok(PortRead::Empty)
            }
            Some(length) => {
                let buffer = pool.settle(buffer, length);
                let packet = Packet::new(buffer, length, self.tun.kind() == TunKind::Tap);
                Ok(packet.map_or(PortRead::Invalid, PortRead::Packet))
            }
        }
    }
}
