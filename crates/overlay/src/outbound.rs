//! From one queue of the tunnel device to the network: one thread, no lock and no allocation per packet, but for those that are cut in fragments.

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

/// How long to wait for packets before looking whether all shall end.
const PATIENCE: Duration = Duration::from_millis(200);
/// Packets that are taken before what is sealed goes out: a few hundred microseconds of work at most.
const MOST_AT_ONCE: usize = 32;
/// Parts of the flow table that are gone over after a wait of [`PATIENCE`]: a fifth of the largest and more.
const TURNS_AT_REST: usize = 4;
/// Packets in a row that the device could not hand over after which it is given up.
const MOST_SPOILT: usize = 10_000;
/// How often somebody whose segments are too large is told so, at most: the kernel remembers it for all connections to the destination.
const HINT: Duration = Duration::from_millis(100);
/// Who sends datagrams that are too large is told so: as often as the kernel's routers do for one destination a second (`icmp_ratelimit`), for a hundred of them (RFC 4443,
/// section 2.4 f).
const TOLD: Limit = Limit { per_second: 100.0, most: 50.0 };
/// And not before the size has stayed the same for so long: what the kernel was told once it does not forget for minutes, and while a size is sought
/// less is known than there is, for a second or two.
const SETTLED: Duration = Duration::from_secs(3);

/// What one thread needs to send packets.
pub(crate) struct Outbound {
    socket: Arc<Datagrams>,
    tun: Arc<Tun>,
    counters: Arc<Counters>,
    /// Flows that their receivers have ended.
    resets: Receiver<Flow>,
    reader: Reader,
    placement: Placement,
    /// The largest packet on each path, and since when.
    sizes: BTreeMap<Path, (usize, Instant)>,
    batch: Batch,
    hinted: Instant,
    /// Senders that were told that their packets are too large.
    told: Bucket,
}

impl Outbound {
    /// `secret`: the same for all queues, so that a flow that comes by another queue takes the same route.
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
            sizes: BTreeMap::new(),
            batch: Batch::own(),
            hinted: Instant::ZERO,
            told: Bucket::new(Instant::ZERO),
        };
        outbound.take_table();
        outbound
    }

    /// Until `ends` says so.
    pub(crate) fn run(mut self, ends: impl Fn() -> bool) -> io::Result<()> {
        let mut buffer = vec![0; LARGEST_PACKET];
        let mut poller = Poller::new()?;
        let mut ready = Vec::new();
        poller.add(self.tun.as_fd(), 0)?;
        // A copy of its own: counting references for each batch would have all threads write where each frame is looked up.
        let mut table = Arc::clone(&self.reader.table);
        while !ends() {
            if self.reader.refresh() {
                self.take_table();
                table = Arc::clone(&self.reader.table);
            }
            let (mut taken, mut is_empty) = (0, false);
            while taken < MOST_AT_ONCE && !is_empty {
                match self.receive(&mut buffer)? {
                    Some(length) => self.send(&table, &mut buffer, length),
                    None => is_empty = true,
                }
                taken += usize::from(!is_empty);
            }
            self.batch.flush(&self.socket, &self.counters);
            self.take_resets();
            let now = kernel::now();
            // Who waits for packets comes by more rarely than time is due to pass.
            let turns = if taken == 0 { TURNS_AT_REST } else { 1 };
            self.placement.maintain(now, turns, &table);
            if is_empty {
                ready.clear();
                poller.wait(Some(PATIENCE), &mut ready)?;
            }
        }
        Ok(())
    }

    fn take_resets(&mut self) {
        while let Ok(flow) = self.resets.try_recv() {
            self.placement.end(&flow);
        }
    }

    /// The next packet of the device. One that the kernel cannot hand over it has dropped (`EINVAL`: a super-packet of a kind that the device knows nothing of).
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..MOST_SPOILT {
            match self.tun.receive(buffer) {
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => bump(&self.counters.tun_errors),
                done => return done,
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the device hands over nothing that can be read"))
    }

    /// Takes the paths of the present table.
    fn take_table(&mut self) {
        let table = &self.reader.table;
        self.placement.take_table(table);
        let now = kernel::now();
        let routes = table.peers.iter().flat_map(|p| &p.routes);
        let same = |path: &Path, most: usize| self.sizes.get(path).filter(|(before, _)| *before == most).copied();
        self.sizes = routes.map(|w| (w.path, same(&w.path, w.most).unwrap_or((w.most, now)))).collect();
    }

    /// One packet or super-packet: `length` bytes of `buffer`.
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
        let Some(((peer, route), class)) = self.placement.place(table, &flow, sent, &self.counters) else { return };
        let Some(route) = table.peers.get(peer).and_then(|p| p.routes.get(route)) else {
            return bump(&self.counters.no_route);
        };
        clamp_mss(ip, route.most, checksum != Checksum::Whole);
        let line = route.line(table.own, self.placement.queue());
        let traffic_class = packet::traffic_class(ip).unwrap_or(0);
        let Some(mut packet) = Packet::new(&*buffer, length, false) else { return };
        let longest = packet.segments().longest();
        if !packet.cut_to(route.most) {
            return self.send_fragments((&line, route.most), &packet, class, traffic_class);
        }
        if longest as usize > route.most {
            self.hint(packet.frame(), route);
        }
        let count = packet.segments().count;
        let whole = [packet.frame(), &[]];
        let now = micros(kernel::now());
        for segment in 0..count {
            let cut = if count > 1 { Cut::new(&packet, segment, 1) } else { None };
            if count > 1 && cut.is_none() {
                // Headers that contradict each other.
                return bump(&self.counters.malformed);
            }
            let parts = cut.as_ref().map_or(whole, |c| [c.headers(), c.payload()]);
            // Those of segments are, whatever the super-packet's was.
            let checksum = if cut.is_some() && checksum == Checksum::Whole { Checksum::Partial } else { checksum };
            self.seal(&line, parts, (checksum, class), traffic_class, now);
        }
    }

    /// Sends packets larger than the route's MTU that are not TCP segments: in fragments, where the packet allows that.
    fn send_fragments(
        &mut self,
        (line, most): (&FrameSealer<'_>, usize),
        packet: &Packet<&[u8]>,
        class: u8,
        traffic_class: u8,
    ) {
        let now = micros(kernel::now());
        let whole = (0..packet.segments().count).filter_map(|segment| packet.on_wire(segment));
        let mut is_too_large = false;
        for ip in whole {
            if ip.len() <= most {
                self.seal(line, [&ip, &[]], (Checksum::Whole, class), traffic_class, now);
                continue;
            }
            let Some(fragments) = Fragments::new(&ip, most) else {
                bump(&self.counters.too_large);
                is_too_large = true;
                continue;
            };
            for fragment in fragments {
                self.seal(line, fragment.parts(), (Checksum::Whole, class), traffic_class, now);
            }
        }
        if is_too_large && self.told.takes(kernel::now(), TOLD, 1.0) {
            self.tell_size(packet.frame(), most);
        }
    }

    /// Tells TCP the MTU of the route if its segments are larger: each such segment is cut in two, and is lost with either part.
    fn hint(&mut self, ip: &[u8], route: &Route) {
        let now = kernel::now();
        let has_settled = self.sizes.get(&route.path).is_some_and(|(_, since)| now.saturating_since(*since) >= SETTLED);
        if has_settled && now.saturating_since(self.hinted) >= HINT {
            self.hinted = now;
            self.tell_size(ip, route.most);
        }
    }

    /// Tells this host the MTU of a packet's route, if the packet asks for that.
    fn tell_size(&self, ip: &[u8], most: usize) {
        let Some(answer) = packet::too_big(ip, most) else { return };
        let vnet = [0; VNET_HEADER];
        if self.tun.send(&[IoSlice::new(&vnet), IoSlice::new(&answer)]).is_err() {
            bump(&self.counters.tun_errors);
        }
    }

    /// Seals one packet into the batch.
    fn seal(
        &mut self,
        line: &FrameSealer<'_>,
        parts: [&[u8]; 2],
        (checksum, class): (Checksum, u8),
        traffic_class: u8,
        now: u32,
    ) {
        let (head, tail) = (head(&line.path), tail(&line.path));
        let [a, b] = parts;
        let length = head + a.len() + b.len() + tail;
        let room = self.batch.room(line.to, length, traffic_class, &self.socket, &self.counters);
        let Some((_, rest)) = room.split_at_mut_checked(head) else { return };
        rest[..a.len()].copy_from_slice(a);
        rest[a.len()..a.len() + b.len()].copy_from_slice(b);
        if let Checksum::Elsewhere { start, field } = checksum {
            // The frame has no room to say where.
            complete_checksum(&mut rest[..a.len() + b.len()], start, field);
        }
        let partial = checksum == Checksum::Partial;
        if line.seal(room, Content::Packet { partial }, class, now).is_some() {
            bump(&self.counters.frames_sealed);
        } else {
            self.batch.take_back();
            bump(&self.counters.no_route);
        }
    }
}
