//! From one socket to the tunnel device, or on to the next member: one thread, no lock and no allocation per packet.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use kernel::{Clocks, DATAGRAMS_ROOM, Datagrams, Tun};
use packet::{Flow, Merge, Parts};
use route::flows::FlowKey;
use units::Instant;
use wire::overlay::Envelope;

use crate::batch::Batch;
use crate::core::micros;
use crate::counters::{Counters, add, bump};
use crate::decapsulate::{Arrival, Decapsulator, Event, Verdict, place};
use crate::encapsulate::{address, outer, relay_queue};
use crate::offload::Switches;
use crate::permits::Permit;
use crate::table::{Published, Reader, Table};

/// What the device says of a malformed packet (linux/errno-base.h).
pub(crate) const EINVAL: i32 = 22;
/// How long to wait for the network before looking whether all shall end.
const PATIENCE: Duration = Duration::from_millis(200);

/// How often the kernel is asked what found the socket full.
const ASK_DROPS: Duration = Duration::from_millis(100);

/// Tells the controlling thread, without waiting for it; says whether there was room.
pub(crate) type Tell = Box<dyn Fn(Event, Permit) -> bool + Send>;

/// What one thread needs to take datagrams.
pub(crate) struct Inbound {
    queue: u8,
    socket: Arc<Datagrams>,
    device: Device,
    counters: Arc<Counters>,
    tell: Tell,
    /// To the threads that send: flows of theirs that the receiver has ended.
    resets: Vec<SyncSender<Flow>>,
    decapsulator: Decapsulator,
    reader: Reader,
    onward: Batch,
    clocks: Clocks,
    /// Datagrams that found the socket full, as the kernel said when it was last asked.
    dropped: u64,
    asked: Instant,
}

impl Inbound {
    pub(crate) fn new(
        (queue, socket, device): (u8, Arc<Datagrams>, Device),
        published: &Arc<Published>,
        counters: Arc<Counters>,
        (tell, resets): (Tell, Vec<SyncSender<Flow>>),
        decapsulator: Decapsulator,
    ) -> Self {
        let reader = Reader::new(published);
        let (onward, clocks, dropped, asked) = (Batch::onward(), Clocks::new(), 0, Instant::ZERO);
        Self { queue, socket, device, counters, tell, resets, decapsulator, reader, onward, clocks, dropped, asked }
    }

    /// Until `ends` says so.
    pub(crate) fn run(mut self, ends: impl Fn() -> bool) -> io::Result<()> {
        let mut room = vec![0; DATAGRAMS_ROOM];
        let mut packets = Vec::with_capacity(DATAGRAMS_ROOM / 64);
        // A copy of its own: counting references for each batch would have all threads write where each frame is looked up.
        let mut table = Arc::clone(&self.reader.table);
        while !ends() {
            let got = self.socket.receive(&mut room)?;
            if self.reader.refresh() {
                table = Arc::clone(&self.reader.table);
            }
            let Some(got) = got else {
                // Who hears nothing for long keeps no keys of sessions that have ended.
                kernel::wait(self.socket.socket(), false, PATIENCE).map_err(io::Error::other)?;
                continue;
            };
            let arrival = Arrival { came: self.clocks.came(got.realtime_ns), from: got.from, traffic_class: got.class };
            packets.clear();
            for begin in (0..got.length).step_by(got.each) {
                let at = begin..(begin + got.each).min(got.length);
                let Some(datagram) = room.get_mut(at.clone()) else { continue };
                let taken = self.open(&table, datagram, arrival);
                packets.extend(place(taken, &at));
                if let Verdict::Forward(envelope) = taken {
                    self.pass_on(&table, envelope, datagram, arrival);
                }
            }
            self.note_drops(arrival.came);
            packets.iter().filter_map(|(at, _)| room.get(at.clone())).for_each(|ip| note_reset(&self.resets, ip));
            self.device.deliver(&room, &packets, &self.counters);
            self.onward.flush(&self.socket, &self.counters);
        }
        Ok(())
    }

    /// Counts what found the socket full: the sender takes it for lost on the way.
    fn note_drops(&mut self, now: Instant) {
        if now.saturating_since(self.asked) < ASK_DROPS {
            return;
        }
        self.asked = now;
        // 32 bits in the kernel; a socket that does not say has none.
        let dropped = kernel::udp_drops(self.socket.socket()).unwrap_or(self.dropped);
        add(&self.counters.rx_buffer_overflow, dropped.saturating_sub(self.dropped));
        self.dropped = dropped;
    }

    fn open(&mut self, table: &Table, datagram: &mut [u8], arrival: Arrival) -> Verdict {
        let counters = &self.counters;
        let mut tell = |event, place| {
            let has_room = (self.tell)(event, place);
            if !has_room {
                bump(&counters.control_queue_full);
            }
            has_room
        };
        self.decapsulator.take(table, datagram, arrival, counters, &mut tell)
    }

    /// Sends an envelope to its next hop, in the traffic class in which it came: a congestion mark (ECN) stays on it.
    fn pass_on(&mut self, table: &Table, envelope: Envelope, datagram: &[u8], arrival: Arrival) {
        let Some((hop, to)) = table.next_hop(&envelope) else { return };
        let room = self.onward.room(to, datagram.len(), arrival.traffic_class, &self.socket, &self.counters);
        room.copy_from_slice(datagram);
        if address(hop, (envelope, relay_queue(self.queue)), room, micros(kernel::now())).is_none() {
            self.onward.take_back();
            return bump(&self.counters.relay_denied);
        }
        let bytes = (datagram.len() + outer(to)) as u64;
        hop.note_sent(relay_queue(self.queue), bytes);
        add(&self.counters.bytes_relayed, bytes);
        bump(&self.counters.frames_relayed);
    }
}

/// A connection that the other end resets sends no more, and does not say so itself. Which thread sends for it is not known here; a flow whose end
/// finds no room is forgotten in time all the same.
pub(crate) fn note_reset(to: &[SyncSender<Flow>], ip: &[u8]) {
    if !packet::is_reset(ip) {
        return;
    }
    let Some(flow) = Flow::of(ip) else { return };
    for thread in to {
        let _ = thread.try_send(flow.reversed());
    }
}

/// What takes packets for this host: a queue of the tunnel device, or a test's.
pub(crate) trait Takes {
    /// As [`Tun::send`].
    fn take(&self, parts: &[IoSlice<'_>]) -> io::Result<()>;
}

impl Takes for Tun {
    fn take(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.send(parts)
    }
}

/// The tunnel device as packets are handed to it.
pub(crate) struct Device<T = Tun> {
    /// Its queues.
    tuns: Vec<Arc<T>>,
    secret: [u64; 2],
    /// Super-packets to the host.
    merge: bool,
    refuses: Arc<AtomicBool>,
}

/// A super-packet that the device does not take because it is one.
struct Refused;

impl<T: Takes> Device<T> {
    /// `switches`: which of them is told when the device refuses super-packets.
    pub(crate) fn new(tuns: Vec<Arc<T>>, secret: [u64; 2], switches: &Switches) -> Self {
        Self { tuns, secret, merge: switches.now().tun_gro, refuses: Arc::clone(&switches.device_refuses) }
    }

    /// Hands packets to this host, those of one connection put together. Where that is refused they go one by one, then and later.
    fn deliver(&mut self, room: &[u8], packets: &[(Range<usize>, bool)], counters: &Counters) {
        let mut rest = packets.iter().filter_map(|(at, partial)| Some((room.get(at.clone())?, *partial)));
        let mut next = rest.next();
        while let Some((first, partial)) = next {
            let (mut merge, behind) = (Merge::new(first, partial), rest.clone());
            loop {
                next = rest.next();
                if !next.is_some_and(|(ip, partial)| self.merge && merge.add(ip, partial)) {
                    break;
                }
            }
            let others = merge.count() - 1;
            if self.write(first, merge, counters).is_err() {
                self.refuse();
                for (ip, partial) in std::iter::once((first, partial)).chain(behind.take(others)) {
                    // It is no super-packet.
                    let _ = self.write(ip, Merge::new(ip, partial), counters);
                }
            }
        }
    }

    /// The queue of a connection is the same in both directions: the kernel hands over what a connection sends by the queue by which it got something
    /// last, so that all of a member would else go by the queue of the thread that hears that member, and change it when the thread changes.
    fn queue(&self, ip: &[u8]) -> Option<&Arc<T>> {
        let [_, _, ..] = &*self.tuns else { return self.tuns.first() };
        let flow = Flow::of(ip)?;
        let (a, b) = ((flow.source, flow.source_port), (flow.destination, flow.destination_port));
        let key = FlowKey::new(a.min(b), a.max(b), flow.protocol, 0);
        self.tuns.get((key.hash(self.secret) % self.tuns.len() as u64) as usize)
    }

    fn write(&self, first: &[u8], mut merge: Merge<'_>, counters: &Counters) -> Result<(), Refused> {
        let Some(tun) = self.queue(first) else {
            bump(&counters.malformed);
            return Ok(());
        };
        let bytes = merge.ip_bytes() as u64;
        let is_super = merge.count() > 1;
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        match tun.take(merge.parts(&mut parts)) {
            Ok(()) => {
                bump(&counters.packets_out);
                add(&counters.bytes_out, bytes);
            }
            Err(e) if is_super && e.raw_os_error() == Some(EINVAL) => return Err(Refused),
            Err(_) => bump(&counters.tun_errors),
        }
        Ok(())
    }

    /// No more super-packets from here on; the threads of other queues find out for themselves, and lose nothing by it.
    fn refuse(&mut self) {
        self.merge = false;
        if !self.refuses.swap(true, Ordering::Relaxed) {
            tracing::warn!("tun_gro is off: this kernel refuses super-packets; packets are handed over one by one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Offload;
    use packet::VNET_HEADER;
    use std::sync::{Mutex, PoisonError};

    const EIO: i32 = 5;

    /// Whether each was a super-packet, and what it was.
    type Offered = Vec<(bool, Vec<u8>)>;

    /// A device that refuses super-packets, or everything, with this error; and all that it was offered.
    struct Refusing {
        error: i32,
        everything: bool,
        offered: Mutex<Offered>,
    }

    impl Takes for Refusing {
        fn take(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            let bytes = parts.iter().map(|p| &**p).collect::<Vec<_>>().concat();
            let is_super = bytes[1] != 0;
            self.offered.lock().unwrap_or_else(PoisonError::into_inner).push((is_super, bytes));
            if is_super || self.everything { Err(io::Error::from_raw_os_error(self.error)) } else { Ok(()) }
        }
    }

    /// Segments of 100 bytes of one connection, each told by its payload.
    fn segments(numbers: Range<u8>) -> (Vec<u8>, Vec<(Range<usize>, bool)>) {
        let mut room = Vec::new();
        let mut packets = Vec::new();
        for n in numbers {
            let begin = room.len();
            room.extend([
                0x45, 0, 0, 140, 0, n, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x8b, 0x9c, 0x40,
            ]);
            room.extend((u32::from(n) * 100).to_be_bytes());
            room.extend([0, 0, 0, 9, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            room.extend([n; 100]);
            packets.push((begin..room.len(), true));
        }
        (room, packets)
    }

    /// What a device was offered of two deliveries of four segments each: whether put together, and the numbers of the segments; what was counted as
    /// taken and as failed; whether the switch is on afterwards.
    fn offered(error: i32, everything: bool) -> (Offered, [u64; 3], bool) {
        let refusing = Arc::new(Refusing { error, everything, offered: Mutex::default() });
        let switches = Switches::new(Offload::default(), Vec::new());
        let mut device = Device::new(vec![Arc::clone(&refusing)], [1, 2], &switches);
        let counters = Counters::default();
        for numbers in [0..4, 4..8] {
            let (room, packets) = segments(numbers);
            device.deliver(&room, &packets, &counters);
        }
        let offered = std::mem::take(&mut *refusing.offered.lock().unwrap());
        let numbers = |(is_super, bytes): (bool, Vec<u8>)| {
            (is_super, bytes[VNET_HEADER + 40..].chunks(100).map(|segment| segment[0]).collect())
        };
        let counts = counters.counts();
        let counts = [counts.packets_out, counts.bytes_out, counts.tun_errors];
        (offered.into_iter().map(numbers).collect(), counts, switches.now().tun_gro)
    }

    #[test]
    fn a_super_packet_that_the_device_refuses_is_delivered_cut_and_later_ones_at_once() {
        let single = |n| (false, vec![n]);
        let all: Vec<_> = std::iter::once((true, vec![0, 1, 2, 3])).chain((0..8).map(single)).collect();
        assert_eq!(offered(EINVAL, false), (all, [8, 8 * 140, 0], false));
    }

    /// A device that takes everything.
    #[derive(Default)]
    struct Taking(std::sync::atomic::AtomicUsize);

    impl Takes for Taking {
        fn take(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            self.0.fetch_add(parts.iter().map(|p| p.len()).sum(), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn nothing_is_allocated_for_what_is_delivered() {
        let taking = Arc::new(Taking::default());
        let switches = Switches::new(Offload::default(), Vec::new());
        let mut device = Device::new(vec![Arc::clone(&taking), Arc::clone(&taking)], [1, 2], &switches);
        let (counters, (room, packets)) = (Counters::default(), segments(0..60));
        let used = allocation_counter::measure(|| device.deliver(&room, &packets, &counters));
        assert_eq!(used.count_total, 0);
        assert_eq!(counters.counts().bytes_out, 40 + 60 * 100);
        assert_eq!(taking.0.load(Ordering::Relaxed), VNET_HEADER + 40 + 60 * 100);
    }

    #[test]
    fn what_is_lost_for_another_reason_is_counted_and_super_packets_go_on() {
        // The device is down for a while.
        let all = vec![(true, vec![0, 1, 2, 3]), (true, vec![4, 5, 6, 7])];
        assert_eq!(offered(EIO, true), (all, [0, 0, 2], true));
        // All is malformed to it: cut, too.
        let (all, counts, _) = offered(EINVAL, true);
        assert_eq!((all.len(), counts), (9, [0, 0, 8]));
    }
}
