use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};

use crate::counters::{Counters, add};

/// What the kernel says of a datagram that the device or the route does not take (linux/errno.h).
const EMSGSIZE: i32 = 90;
/// Most bytes that one send takes (UDP over IPv4).
const MOST_BYTES: usize = 65_507;
/// Most datagrams that one send takes on every kernel (UDP_MAX_SEGMENTS before Linux 6.9).
const MOST_DATAGRAMS: usize = 64;
/// Room comes with each datagram that leaves; a device that is stuck is not waited for.
const MOST_WAIT: Duration = Duration::from_millis(100);

/// Most datagrams of `each` bytes that one send takes.
pub(crate) fn most_datagrams(each: usize) -> usize {
    (MOST_BYTES / each.max(1)).clamp(1, MOST_DATAGRAMS)
}

/// Datagrams for one address, of one length but the last, that go out in one system call.
pub(crate) struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    count: usize,
    /// Length of each; the last may be shorter.
    each: usize,
    last: usize,
    to: Option<SocketAddr>,
    /// DSCP and ECN.
    traffic_class: u8,
    /// Whether it waits for room in the host's queue.
    waits: bool,
}

impl Batch {
    /// Of what this host sends: where its queue is full, waiting for it is what holds the senders back.
    pub(crate) fn own() -> Self {
        Self::new(true)
    }

    /// Of what it passes on: where its queue is full, that is lost, as at every router, and what is for this host does not wait behind it.
    pub(crate) fn onward() -> Self {
        Self::new(false)
    }

    fn new(waits: bool) -> Self {
        let bytes = vec![0; DATAGRAMS_ROOM].into_boxed_slice();
        Self { bytes, used: 0, count: 0, each: 0, last: 0, to: None, traffic_class: 0, waits }
    }

    /// Room for one more datagram of at most [`DATAGRAMS_ROOM`] bytes; sends what is there first if this one cannot go with it.
    pub(crate) fn room(
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
            && self.count < MOST_DATAGRAMS
            && self.used + length <= MOST_BYTES;
        if !fits {
            self.flush(socket, counters);
            (self.to, self.each, self.traffic_class) = (Some(to), length, traffic_class);
        }
        let begin = self.used;
        self.used += length;
        self.count += 1;
        self.last = length;
        &mut self.bytes[begin..begin + length]
    }

    /// Takes the last datagram back: it was not to be.
    pub(crate) fn take_back(&mut self) {
        self.used -= self.last;
        self.count -= 1;
        self.last = self.each;
    }

    /// Sends what is there.
    pub(crate) fn flush(&mut self, socket: &Datagrams, counters: &Counters) {
        let used = std::mem::take(&mut self.used);
        self.count = 0;
        let Some(to) = self.to.take().filter(|_| used > 0) else { return };
        let (mut rest, mut has_waited) = (&self.bytes[..used], false);
        while !rest.is_empty() {
            match socket.send(to, rest, self.each, self.traffic_class) {
                Ok(sent) => (rest, has_waited) = (rest.get(sent..).unwrap_or(&[]), false),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.waits && !has_waited => {
                    // Where that fails the next try does, too.
                    let _ = kernel::wait_for_room(socket.socket(), MOST_WAIT);
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
