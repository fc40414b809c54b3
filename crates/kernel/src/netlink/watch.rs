use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::{KernelError, Op, wait};

/// Groups of route netlink (linux/rtnetlink.h): devices, and addresses, routes and rules of both families.
const GROUPS: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV6_RULE,
];
/// Maximum number of messages read in one go, so that a wait ends even while routes change without pause.
const MESSAGES_PER_WAIT_MAX: usize = 1000;

/// Reports changes of the devices, addresses, routes and rules of a network namespace: that of the thread that opened
/// it. It needs no privilege.
#[derive(Debug)]
pub struct NetworkWatch {
    socket: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl NetworkWatch {
    /// Starts to watch for changes.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> Result<Self, KernelError> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|e| KernelError::new(Op::Socket, "for network changes", e))?;
        // Only the arrival of a message counts: its first bytes are enough.
        Ok(Self { socket, buffer: Vec::with_capacity(64) })
    }

    /// Waits up to `timeout` for a change; returns whether there was one since the last call. The caller must look up
    /// what has changed. Several changes count as one and none is missed, as an overflow of the socket is a change,
    /// too.
    ///
    /// # Errors
    /// The socket failed.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, KernelError> {
        wait(&self.socket, false, timeout)?;
        let mut has_changed = false;
        for _ in 0..MESSAGES_PER_WAIT_MAX {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => has_changed = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The socket's buffer overflowed.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => has_changed = true,
                Err(e) => return Err(KernelError::new(Op::Receive, "network changes", e)),
            }
        }
        Ok(has_changed)
    }
}
