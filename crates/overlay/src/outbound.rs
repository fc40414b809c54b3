//! The transmit thread of one queue: from the tunnel device to the UDP socket, without locks. Only fragmentation
//! allocates memory per packet.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kernel::{Datagrams, LARGEST_PACKET, Poller, Tun};
use packet::{Checksum, Cut, Flow, Fragments, Packet, VNET_HEADER, clamp_mss, complete_checksum};
use route::Path;
use units::Instant;
use wire::overlay::Content;

use crate::batch::Batch;
use crate::bucket::{Bucket, Limit};
use crate::core::micros;
use crate::counters::{Counters, add, bump};
use crate::encapsulate::{FrameSealer, head, tail};
use crate::gauges::Queues;
use crate::placement::Placement;
use crate::table::{Published, Reader, Route, Table};

/// Longest wait for packets; bounds the delay of a shutdown.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum number of packets read from the device before a flush: some hundred microseconds of work.
const READ_BATCH_MAX: usize = 32;
/// Parts of the flow table maintained after a wait of [`POLL_TIMEOUT`]: at least a fifth of the largest table.
const IDLE_TURNS: usize = 4;
/// Number of consecutive failed reads after which the device is given up.
const FAILED_READS_MAX: usize = 10_000;
/// Minimum interval between path MTU notifications to TCP. The kernel applies one to all connections to the
/// destination.
const MTU_HINT_INTERVAL: Duration = Duration::from_millis(100);
/// Rate limit of "packet too big" messages (RFC 4443, section 2.4 f): the kernel's default of one per second and
/// destination (`icmp_ratelimit`), for 100 destinations.
const TOO_BIG_LIMIT: Limit = Limit { per_second: 100.0, burst: 50.0 };
/// Time for which the MTU of a path must be stable before TCP gets it. The kernel caches the value for minutes, and
/// path MTU discovery starts low and needs one or two seconds.
const MTU_STABLE_AFTER: Duration = Duration::from_secs(3);

/// Sealer and marks of the frames of one packet.
struct FrameContext<'a> {
    sealer: FrameSealer<'a>,
    /// Class of the flow in the frame header.
    class: u8,
    /// DSCP and ECN of the outer IP header.
    traffic_class: u8,
}

/// State of a transmit thread.
pub(crate) struct Outbound {
    socket: Arc<Datagrams>,
    tun: Arc<Tun>,
    counters: Arc<Counters>,
    /// Flows that their receivers have reset.
    resets: Receiver<Flow>,
    reader: Reader,
    placement: Placement,
    /// MTU of each path, and the time of its last change.
    mtus: BTreeMap<Path, (usize, Instant)>,
    batch: Batch,
    mtu_hinted_at: Instant,
    /// Rate limit of "packet too big" messages.
    too_big_limit: Bucket,
}

impl Outbound {
    /// `secret`: key of the flow hash. It is the same for all queues, so that a flow keeps its route when the host
    /// sends it through another queue.
    pub(crate) fn new(
        (queues, socket, tun): (Queues, Arc<Datagrams>, Arc<Tun>),
        published: &Arc<Published>,
        counters: Arc<Counters>,
        resets: Receiver<Flow>,
        secret: [u64; 2],
    ) -> Self {
        let mut outbound = Self {
            socket,
            tun,
            counters,
            resets,
            reader: Reader::new(published),
            placement: Placement::new(queues, secret),
            mtus: BTreeMap::new(),
            batch: Batch::blocking(),
            mtu_hinted_at: Instant::ZERO,
            too_big_limit: Bucket::new(Instant::ZERO),
        };
        outbound.update_table();
        outbound
    }

    /// Processes packets until `is_ending` returns true.
    pub(crate) fn run(mut self, is_ending: impl Fn() -> bool) -> io::Result<()> {
        let mut buffer = vec![0; LARGEST_PACKET];
        let mut poller = Poller::new()?;
        let mut ready = Vec::new();
        poller.add(self.tun.as_fd(), 0)?;
        // A reference count per batch would have all threads write to one cache line; the copy changes only with the
        // table.
        let mut table = Arc::clone(&self.reader.table);
        while !is_ending() {
            if self.reader.refresh() {
                self.update_table();
                table = Arc::clone(&self.reader.table);
            }
            let (mut count, mut is_empty) = (0, false);
            while count < READ_BATCH_MAX && !is_empty {
                match self.receive(&mut buffer)? {
                    Some(length) => self.send(&table, &mut buffer, length),
                    None => is_empty = true,
                }
                count += usize::from(!is_empty);
            }
            self.batch.flush(&self.socket, &self.counters);
            self.poll_resets();
            let now = kernel::now();
            // An idle thread runs less often than flow table maintenance is due.
            let turns = if count == 0 { IDLE_TURNS } else { 1 };
            self.placement.maintain(now, turns, &table);
            if is_empty {
                ready.clear();
                poller.wait(Some(POLL_TIMEOUT), &mut ready)?;
            }
        }
        Ok(())
    }

    fn poll_resets(&mut self) {
        while let Ok(flow) = self.resets.try_recv() {
            self.placement.end_flow(&flow);
        }
    }

    /// Reads the next packet of the device. With `EINVAL` the kernel has dropped the packet: a super-packet of a type
    /// unknown to the device.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..FAILED_READS_MAX {
            match self.tun.receive(buffer) {
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => bump(&self.counters.tun_errors),
                done => return done,
            }
        }
        let what = format!("{FAILED_READS_MAX} consecutive reads from the tunnel device failed");
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    /// Adopts the routes of the current table.
    fn update_table(&mut self) {
        let table = &self.reader.table;
        self.placement.update_table(table);
        let now = kernel::now();
        let routes = table.peers.iter().flat_map(|p| &p.routes);
        let unchanged = |path: &Path, mtu: usize| self.mtus.get(path).filter(|(before, _)| *before == mtu).copied();
        self.mtus = routes.map(|r| (r.path, unchanged(&r.path, r.mtu).unwrap_or((r.mtu, now)))).collect();
    }

    /// Sends a packet or super-packet in the first `length` bytes of `buffer`.
    fn send(&mut self, table: &Table, buffer: &mut [u8], length: usize) {
        let Some((vnet, ip)) = buffer.get_mut(..length).and_then(|b| b.split_at_mut_checked(VNET_HEADER)) else {
            return;
        };
        let checksum = Checksum::of(vnet, ip);
        let bytes = ip.len();
        bump(&self.counters.packets_in);
        add(&self.counters.bytes_in, bytes as u64);
        let Some(flow) = Flow::of(ip) else { return bump(&self.counters.malformed) };
        let sent = (bytes, packet::is_last(ip));
        let Some(((peer, route), class)) = self.placement.select_route(table, &flow, sent, &self.counters) else {
            return;
        };
        let Some(route) = table.peers.get(peer).and_then(|p| p.routes.get(route)) else {
            return bump(&self.counters.no_route);
        };
        clamp_mss(ip, route.mtu, checksum != Checksum::Whole);
        let sealer = route.sealer(table.own, self.placement.queue());
        let context = FrameContext { sealer, class, traffic_class: packet::traffic_class(ip).unwrap_or(0) };
        let Some(mut packet) = Packet::new(&*buffer, length, false) else { return };
        let longest = packet.segments().longest();
        if !packet.cut_to(route.mtu) {
            return self.send_fragments(&context, &packet, route.mtu);
        }
        if longest as usize > route.mtu {
            self.hint_mtu(packet.frame(), route);
        }
        let count = packet.segments().count;
        let whole = [packet.frame(), &[]];
        let now = micros(kernel::now());
        for segment in 0..count {
            let cut = if count > 1 { Cut::new(&packet, segment, 1) } else { None };
            if count > 1 && cut.is_none() {
                // The headers are inconsistent.
                return bump(&self.counters.malformed);
            }
            let parts = cut.as_ref().map_or(whole, |c| [c.headers(), c.payload()]);
            // A segment cut from a super-packet has a partial checksum.
            let checksum = if cut.is_some() && checksum == Checksum::Whole { Checksum::Partial } else { checksum };
            self.seal(&context, parts, checksum, now);
        }
    }

    /// Sends packets larger than the route's MTU that are not TCP segments. They are fragmented if their headers allow
    /// it, else dropped.
    fn send_fragments(&mut self, context: &FrameContext<'_>, packet: &Packet<&[u8]>, mtu: usize) {
        let now = micros(kernel::now());
        let whole = (0..packet.segments().count).filter_map(|segment| packet.on_wire(segment));
        let mut is_too_large = false;
        for ip in whole {
            if ip.len() <= mtu {
                self.seal(context, [&ip, &[]], Checksum::Whole, now);
                continue;
            }
            let Some(fragments) = Fragments::new(&ip, mtu) else {
                bump(&self.counters.too_large);
                is_too_large = true;
                continue;
            };
            for fragment in fragments {
                self.seal(context, fragment.parts(), Checksum::Whole, now);
            }
        }
        if is_too_large && self.too_big_limit.takes(kernel::now(), TOO_BIG_LIMIT, 1.0) {
            self.send_too_big(packet.frame(), mtu);
        }
    }

    /// Sends the MTU of the route to a TCP sender with larger segments. Such a segment is cut in two, which doubles its
    /// loss probability.
    fn hint_mtu(&mut self, ip: &[u8], route: &Route) {
        let now = kernel::now();
        let since = self.mtus.get(&route.path).map(|(_, since)| *since);
        let is_stable = since.is_some_and(|since| now.saturating_since(since) >= MTU_STABLE_AFTER);
        if is_stable && now.saturating_since(self.mtu_hinted_at) >= MTU_HINT_INTERVAL {
            self.mtu_hinted_at = now;
            self.send_too_big(ip, route.mtu);
        }
    }

    /// Sends an ICMP "packet too big" message for a packet to this host, if the packet forbids fragmentation.
    fn send_too_big(&self, ip: &[u8], mtu: usize) {
        let Some(message) = packet::too_big(ip, mtu) else { return };
        let vnet = [0; VNET_HEADER];
        if self.tun.send(&[IoSlice::new(&vnet), IoSlice::new(&message)]).is_err() {
            bump(&self.counters.tun_errors);
        }
    }

    /// Seals a packet into the batch. `parts`: its headers and payload.
    fn seal(&mut self, context: &FrameContext<'_>, parts: [&[u8]; 2], checksum: Checksum, now: u32) {
        let FrameContext { sealer, class, traffic_class } = context;
        let (head, tail) = (head(&sealer.path), tail(&sealer.path));
        let [headers, payload] = parts;
        let bytes = headers.len() + payload.len();
        let room = self.batch.reserve(sealer.to, head + bytes + tail, *traffic_class, &self.socket, &self.counters);
        let Some((_, rest)) = room.split_at_mut_checked(head) else { return };
        rest[..headers.len()].copy_from_slice(headers);
        rest[headers.len()..bytes].copy_from_slice(payload);
        if let Checksum::Elsewhere { start, field } = checksum {
            // A frame has no field for the checksum position.
            complete_checksum(&mut rest[..bytes], start, field);
        }
        let partial = checksum == Checksum::Partial;
        if sealer.seal(room, Content::Packet { partial }, *class, now).is_some() {
            bump(&self.counters.frames_sealed);
        } else {
            self.batch.cancel_last();
            bump(&self.counters.no_route);
        }
    }
}
