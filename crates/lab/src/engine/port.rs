use std::io;

use kernel::{Tun, TunKind};
use units::Instant;

use super::pool::Pool;
use packet::Packet;

/// What came out of a device.
pub(crate) enum Taken {
    Packet(Packet<Box<[u8]>>),
    /// Shorter than any packet; not carried.
    Nonsense,
    Empty,
}

/// A node's device, seen from outside.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) tun: Tun,
    pub(crate) wire: usize,
    /// Since when packets may have been waiting that were not read in the last turn.
    pub(crate) unread_since: Option<Instant>,
}

impl Port {
    pub(crate) fn take(&self, pool: &mut Pool) -> io::Result<Taken> {
        let mut buffer = pool.large();
        match self.tun.receive(&mut buffer)? {
            None => {
                pool.give(buffer);
                Ok(Taken::Empty)
            }
            Some(length) => {
                let buffer = pool.settle(buffer, length);
                let packet = Packet::new(buffer, length, self.tun.kind() == TunKind::Tap);
                Ok(packet.map_or(Taken::Nonsense, Taken::Packet))
            }
        }
    }
}
