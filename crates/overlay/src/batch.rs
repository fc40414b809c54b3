//! Batches of UDP datagrams for generic segmentation offload (GSO).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};

use crate::counters::{Counters, add};

/// Error of a datagram larger than the MTU of the device or the route (linux/errno.h).
const EMSGSIZE: i32 = 90;
/// Maximum payload of one send call (UDP over IPv4), bytes.
const SEND_BYTES_MAX: usize = 65_507;
/// Maximum number of datagrams in one send call on all kernels (UDP_MAX_SEGMENTS before Linux 6.9).
const SEND_DATAGRAMS_MAX: usize = 64;
/// Longest wait for room in the transmit queue. Each transmitted datagram frees room, so a longer wait means that the
/// device is stuck.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Maximum number of datagrams of `each` bytes in one send call.
pub(crate) fn datagrams_max(each: usize) -> usize {
    (SEND_BYTES_MAX / each.max(1)).clamp(1, SEND_DATAGRAMS_MAX)
}

/// Datagrams to one address for a single system call. All but the last have the same length.
pub(crate) struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    count: usize,
    /// Length of each datagram; the last may be shorter.
    each: usize,
    last: usize,
    to: Option<SocketAddr>,
    /// DSCP and ECN.
    traffic_class: u8,
    /// Whether a flush waits for room in the host's transmit queue.
    is_blocking: bool,
}

impl Batch {
    /// For the host's own traffic: when the transmit queue is full, the wait applies backpressure to the senders.
    pub(crate) fn blocking() -> Self {
        Self::new(true)
    }

    /// For forwarded traffic: when the transmit queue is full, datagrams are dropped as at any router, and traffic for
    /// this host does not wait.
    pub(crate) fn non_blocking() -> Self {
        Self::new(false)
    }

    fn new(is_blocking: bool) -> Self {
        let bytes = vec![0; DATAGRAMS_ROOM].into_boxed_slice();
        Self { bytes, used: 0, count: 0, each: 0, last: 0, to: None, traffic_class: 0, is_blocking }
    }

    /// Reserves room for one datagram of at most [`DATAGRAMS_ROOM`] bytes. Flushes first if the datagram does not fit
    /// the batch.
    pub(crate) fn reserve(
        &mut self,
        to: SocketAddr,
        length: usize,
        traffic_class: u8,
        socket: &Datagrams,
        counters: &Counters,
    ) -> &mut [u8] {
        let fits = self.to == Some(to)
            && self.traffic_class == traffic_class
            && length <= self.each
            && self.last == self.each
            && self.count < SEND_DATAGRAMS_MAX
            && self.used + length <= SEND_BYTES_MAX;
        if !fits {
            self.flush(socket, counters);
            (self.to, self.each, self.traffic_class) = (Some(to), length, traffic_class);
        }
        let start = self.used;
        self.used += length;
        self.count += 1;
        self.last = length;
        &mut self.bytes[start..start + length]
    }

    /// Removes the datagram that was reserved last.
    pub(crate) fn cancel_last(&mut self) {
        self.used -= self.last;
        self.count -= 1;
        self.last = self.each;
    }

    /// Sends all datagrams. Those that the kernel rejects are counted and dropped.
    pub(crate) fn flush(&mut self, socket: &Datagrams, counters: &Counters) {
        let used = std::mem::take(&mut self.used);
        self.count = 0;
        let Some(to) = self.to.take().filter(|_| used > 0) else { return };
        let (mut rest, mut has_waited) = (&self.bytes[..used], false);
        while !rest.is_empty() {
            match socket.send(to, rest, self.each, self.traffic_class) {
                Ok(sent) => (rest, has_waited) = (rest.get(sent..).unwrap_or(&[]), false),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.is_blocking && !has_waited => {
                    // A failed wait shows as an error of the next send call.
                    let _ = kernel::wait_for_room(socket.socket(), WAIT_MAX);
                    has_waited = true;
                }
                Err(e) => {
                    let is_too_large = e.raw_os_error() == Some(EMSGSIZE);
                    let counter = if is_too_large { &counters.oversize } else { &counters.tx_errors };
                    return add(counter, rest.len().div_ceil(self.each) as u64);
                }
            }
        }
    }
}
