//! The receive thread of one queue: from the UDP socket to the tunnel device or to the next hop, without locks and
//! allocations per packet.

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
use crate::decapsulate::{Arrival, Decapsulator, Event, Verdict, packet_range};
use crate::encapsulate::{address, outer, relay_queue};
use crate::offload::OffloadSwitches;
use crate::permits::Permit;
use crate::table::{Published, Reader, Table};

/// Error of the tunnel device for a packet that it rejects as malformed (linux/errno-base.h).
pub(crate) const EINVAL: i32 = 22;
/// Longest wait for datagrams; bounds the delay of a shutdown.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which the kernel's counter of receive buffer overflows is read.
const DROPS_INTERVAL: Duration = Duration::from_millis(100);

/// Sends an event to the controlling thread without blocking; false: its queue is full.
pub(crate) type EventSink = Box<dyn Fn(Event, Permit) -> bool + Send>;

/// Socket, device and outputs of a receive thread.
pub(crate) struct InboundSetup {
    /// Number of the queue.
    pub(crate) queue: u8,
    pub(crate) socket: Arc<Datagrams>,
    pub(crate) device: TunWriter,
    pub(crate) counters: Arc<Counters>,
    pub(crate) events: EventSink,
    /// One channel per transmit thread, for flows that their receiver has reset.
    pub(crate) resets: Vec<SyncSender<Flow>>,
}

/// State of a receive thread.
pub(crate) struct Inbound {
    queue: u8,
    socket: Arc<Datagrams>,
    device: TunWriter,
    counters: Arc<Counters>,
    events: EventSink,
    resets: Vec<SyncSender<Flow>>,
    decapsulator: Decapsulator,
    reader: Reader,
    /// Envelopes on their way to the next hop.
    forwarded: Batch,
    clocks: Clocks,
    /// The kernel's count of datagrams dropped for a full receive buffer, at the last reading.
    dropped: u64,
    dropped_read_at: Instant,
}

impl Inbound {
    pub(crate) fn new(setup: InboundSetup, published: &Arc<Published>, decapsulator: Decapsulator) -> Self {
        let InboundSetup { queue, socket, device, counters, events, resets } = setup;
        Self {
            queue,
            socket,
            device,
            counters,
            events,
            resets,
            decapsulator,
            reader: Reader::new(published),
            forwarded: Batch::non_blocking(),
            clocks: Clocks::new(),
            dropped: 0,
            dropped_read_at: Instant::ZERO,
        }
    }

    /// Processes datagrams until `is_ending` returns true.
    pub(crate) fn run(mut self, is_ending: impl Fn() -> bool) -> io::Result<()> {
        let mut room = vec![0; DATAGRAMS_ROOM];
        let mut packets = Vec::with_capacity(DATAGRAMS_ROOM / 64);
        // A reference count per batch would have all threads write to one cache line; the copy changes only with the
        // table.
        let mut table = Arc::clone(&self.reader.table);
        while !is_ending() {
            let received = self.socket.receive(&mut room)?;
            // The refresh comes before the wait as well: an idle thread releases the keys of expired sessions.
            if self.reader.refresh() {
                table = Arc::clone(&self.reader.table);
            }
            let Some(received) = received else {
                kernel::wait(self.socket.socket(), false, POLL_TIMEOUT).map_err(io::Error::other)?;
                continue;
            };
            let received_at = self.clocks.came(received.realtime_ns);
            let arrival = Arrival { received_at, from: received.from, traffic_class: received.class };
            packets.clear();
            for start in (0..received.length).step_by(received.each) {
                let range = start..(start + received.each).min(received.length);
                let Some(datagram) = room.get_mut(range.clone()) else { continue };
                let verdict = self.decapsulate(&table, datagram, arrival);
                packets.extend(packet_range(verdict, &range));
                if let Verdict::Forward(envelope) = verdict {
                    self.forward(&table, envelope, datagram, arrival);
                }
            }
            self.update_drops(arrival.received_at);
            packets.iter().filter_map(|(range, _)| room.get(range.clone())).for_each(|ip| note_reset(&self.resets, ip));
            self.device.deliver(&room, &packets, &self.counters);
            self.forwarded.flush(&self.socket, &self.counters);
        }
        Ok(())
    }

    /// Adds the kernel's receive buffer overflows to the counters. Senders see these datagrams as lost on the path.
    fn update_drops(&mut self, now: Instant) {
        if now.saturating_since(self.dropped_read_at) < DROPS_INTERVAL {
            return;
        }
        self.dropped_read_at = now;
        // The kernel's counter has 32 bits. A failed reading counts as no drops.
        let dropped = kernel::udp_drops(self.socket.socket()).unwrap_or(self.dropped);
        add(&self.counters.rx_buffer_overflow, dropped.saturating_sub(self.dropped));
        self.dropped = dropped;
    }

    fn decapsulate(&mut self, table: &Table, datagram: &mut [u8], arrival: Arrival) -> Verdict {
        let counters = &self.counters;
        let mut emit = |event, permit| {
            let has_room = (self.events)(event, permit);
            if !has_room {
                bump(&counters.control_queue_full);
            }
            has_room
        };
        self.decapsulator.handle_datagram(table, datagram, arrival, counters, &mut emit)
    }

    /// Sends an envelope to its next hop with the traffic class it arrived with, so that an ECN congestion mark is
    /// preserved.
    fn forward(&mut self, table: &Table, envelope: Envelope, datagram: &[u8], arrival: Arrival) {
        let Some((hop, to)) = table.next_hop(&envelope) else { return };
        let room = self.forwarded.reserve(to, datagram.len(), arrival.traffic_class, &self.socket, &self.counters);
        room.copy_from_slice(datagram);
        if address(hop, (envelope, relay_queue(self.queue)), room, micros(kernel::now())).is_none() {
            self.forwarded.cancel_last();
            return bump(&self.counters.relay_denied);
        }
        let bytes = (datagram.len() + outer(to)) as u64;
        hop.note_sent(relay_queue(self.queue), bytes);
        add(&self.counters.bytes_relayed, bytes);
        bump(&self.counters.frames_relayed);
    }
}

/// Reports the reverse flow of a TCP reset to all transmit threads: its sender stops without a FIN or RST of its own.
/// The thread that sends the flow is unknown here. A full channel is harmless, as idle flows expire.
pub(crate) fn note_reset(senders: &[SyncSender<Flow>], ip: &[u8]) {
    if !packet::is_reset(ip) {
        return;
    }
    let Some(flow) = Flow::of(ip) else { return };
    for sender in senders {
        let _ = sender.try_send(flow.reversed());
    }
}

/// A receiver of packets for this host: a queue of the tunnel device, or a test double.
pub(crate) trait PacketSink {
    /// As [`Tun::send`].
    fn send_packet(&self, parts: &[IoSlice<'_>]) -> io::Result<()>;
}

impl PacketSink for Tun {
    fn send_packet(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.send(parts)
    }
}

/// Writes packets to the queues of the tunnel device.
pub(crate) struct TunWriter<T = Tun> {
    queues: Vec<Arc<T>>,
    /// Key of the hash that selects a queue for a connection.
    secret: [u64; 2],
    /// Whether TCP segments are merged into super-packets.
    merge: bool,
    /// Shared flag: the device rejects super-packets.
    rejects_super: Arc<AtomicBool>,
}

/// The device rejected a super-packet with `EINVAL`.
struct SuperPacketRejected;

impl<T: PacketSink> TunWriter<T> {
    /// `switches` records that the device rejects super-packets.
    pub(crate) fn new(queues: Vec<Arc<T>>, secret: [u64; 2], switches: &OffloadSwitches) -> Self {
        let (merge, rejects_super) = (switches.current().tun_gro, Arc::clone(&switches.device_rejects_super));
        Self { queues, secret, merge, rejects_super }
    }

    /// Delivers packets to this host and merges consecutive segments of a connection. A rejected super-packet is
    /// delivered again as single packets, and merging stops.
    fn deliver(&mut self, room: &[u8], packets: &[(Range<usize>, bool)], counters: &Counters) {
        let mut rest = packets.iter().filter_map(|(range, partial)| Some((room.get(range.clone())?, *partial)));
        let mut next = rest.next();
        while let Some((first, partial)) = next {
            let (mut merge, following) = (Merge::new(first, partial), rest.clone());
            loop {
                next = rest.next();
                if !next.is_some_and(|(ip, partial)| self.merge && merge.add(ip, partial)) {
                    break;
                }
            }
            let merged = merge.count() - 1;
            if self.write(first, merge, counters).is_err() {
                self.disable_merging();
                for (ip, partial) in std::iter::once((first, partial)).chain(following.take(merged)) {
                    // A single packet never gives this error.
                    let _ = self.write(ip, Merge::new(ip, partial), counters);
                }
            }
        }
    }

    /// Both directions of a connection use the same queue. The kernel sends a connection's packets through the queue
    /// that last received for it; with the queue of the receive thread, all traffic to one peer would use one queue and
    /// move when that peer's thread changes.
    fn queue(&self, ip: &[u8]) -> Option<&Arc<T>> {
        let [_, _, ..] = &*self.queues else { return self.queues.first() };
        let flow = Flow::of(ip)?;
        let (a, b) = ((flow.source, flow.source_port), (flow.destination, flow.destination_port));
        let key = FlowKey::new(a.min(b), a.max(b), flow.protocol, 0);
        self.queues.get((key.hash(self.secret) % self.queues.len() as u64) as usize)
    }

    fn write(&self, first: &[u8], mut merge: Merge<'_>, counters: &Counters) -> Result<(), SuperPacketRejected> {
        let Some(queue) = self.queue(first) else {
            bump(&counters.malformed);
            return Ok(());
        };
        let bytes = merge.ip_bytes() as u64;
        let is_super = merge.count() > 1;
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        match queue.send_packet(merge.parts(&mut parts)) {
            Ok(()) => {
                bump(&counters.packets_out);
                add(&counters.bytes_out, bytes);
            }
            Err(e) if is_super && e.raw_os_error() == Some(EINVAL) => return Err(SuperPacketRejected),
            Err(_) => bump(&counters.tun_errors),
        }
        Ok(())
    }

    /// Stops merging in this thread. The other threads detect the same without losing packets.
    fn disable_merging(&mut self) {
        self.merge = false;
        if !self.rejects_super.swap(true, Ordering::Relaxed) {
            tracing::warn!("tun_gro is off: this kernel rejects super-packets; packets are delivered one by one");
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

    /// Writes to a device in order: whether each was a super-packet, and its bytes.
    type Writes = Vec<(bool, Vec<u8>)>;

    /// A device that rejects super-packets, or all packets, with an error, and records all writes.
    struct RejectingDevice {
        error: i32,
        rejects_all: bool,
        writes: Mutex<Writes>,
    }

    impl PacketSink for RejectingDevice {
        fn send_packet(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            let bytes = parts.iter().map(|p| &**p).collect::<Vec<_>>().concat();
            let is_super = bytes[1] != 0;
            self.writes.lock().unwrap_or_else(PoisonError::into_inner).push((is_super, bytes));
            if is_super || self.rejects_all { Err(io::Error::from_raw_os_error(self.error)) } else { Ok(()) }
        }
    }

    /// Segments of 100 bytes of one connection; each payload byte is the segment's number.
    fn segments(numbers: Range<u8>) -> (Vec<u8>, Vec<(Range<usize>, bool)>) {
        let mut room = Vec::new();
        let mut packets = Vec::new();
        for n in numbers {
            let start = room.len();
            room.extend([
                0x45, 0, 0, 140, 0, n, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x8b, 0x9c, 0x40,
            ]);
            room.extend((u32::from(n) * 100).to_be_bytes());
            room.extend([0, 0, 0, 9, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            room.extend([n; 100]);
            packets.push((start..room.len(), true));
        }
        (room, packets)
    }

    /// Delivers four segments twice to a rejecting device. Returns its writes as numbers of segments, the counters
    /// `packets_out`, `bytes_out` and `tun_errors`, and whether `tun_gro` is on afterwards.
    fn deliver_twice(error: i32, rejects_all: bool) -> (Writes, [u64; 3], bool) {
        let rejecting = Arc::new(RejectingDevice { error, rejects_all, writes: Mutex::default() });
        let switches = OffloadSwitches::new(Offload::default(), Vec::new());
        let mut device = TunWriter::new(vec![Arc::clone(&rejecting)], [1, 2], &switches);
        let counters = Counters::default();
        for numbers in [0..4, 4..8] {
            let (room, packets) = segments(numbers);
            device.deliver(&room, &packets, &counters);
        }
        let writes = std::mem::take(&mut *rejecting.writes.lock().unwrap());
        let numbers = |(is_super, bytes): (bool, Vec<u8>)| {
            (is_super, bytes[VNET_HEADER + 40..].chunks(100).map(|segment| segment[0]).collect())
        };
        let counts = counters.counts();
        let counts = [counts.packets_out, counts.bytes_out, counts.tun_errors];
        (writes.into_iter().map(numbers).collect(), counts, switches.current().tun_gro)
    }

    #[test]
    fn a_rejected_super_packet_is_delivered_as_single_packets_and_merging_stops() {
        let single = |n| (false, vec![n]);
        let all: Vec<_> = std::iter::once((true, vec![0, 1, 2, 3])).chain((0..8).map(single)).collect();
        assert_eq!(deliver_twice(EINVAL, false), (all, [8, 8 * 140, 0], false));
    }

    /// A device that accepts all packets and counts their bytes.
    #[derive(Default)]
    struct CountingDevice(std::sync::atomic::AtomicUsize);

    impl PacketSink for CountingDevice {
        fn send_packet(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            self.0.fetch_add(parts.iter().map(|p| p.len()).sum(), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn delivery_allocates_no_memory() {
        let counting = Arc::new(CountingDevice::default());
        let switches = OffloadSwitches::new(Offload::default(), Vec::new());
        let mut device = TunWriter::new(vec![Arc::clone(&counting), Arc::clone(&counting)], [1, 2], &switches);
        let (counters, (room, packets)) = (Counters::default(), segments(0..60));
        let used = allocation_counter::measure(|| device.deliver(&room, &packets, &counters));
        assert_eq!(used.count_total, 0);
        assert_eq!(counters.counts().bytes_out, 40 + 60 * 100);
        assert_eq!(counting.0.load(Ordering::Relaxed), VNET_HEADER + 40 + 60 * 100);
    }

    #[test]
    fn other_write_errors_are_counted_and_merging_stays_on() {
        // The device is down.
        let all = vec![(true, vec![0, 1, 2, 3]), (true, vec![4, 5, 6, 7])];
        assert_eq!(deliver_twice(EIO, true), (all, [0, 0, 2], true));
        // The device rejects single packets as well.
        let (all, counts, _) = deliver_twice(EINVAL, true);
        assert_eq!((all.len(), counts), (9, [0, 0, 8]));
    }
}
