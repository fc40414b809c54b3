//! From one queue of the tunnel device to the network: one thread, no lock and no allocation per packet, but for those that are cut in fragments.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use kernel::{Datagrams, LARGEST_PACKET, Poller, Tun};
use packet::{Checksum, Cut, Flow, Fragments, Packet, VNET_HEADER, clamp_mss, complete_checksum};
use route::flows::{self, FlowKey, RouteId, Share, spread_by};
use route::{Member, Path};
use units::{Bytes, Instant, Rate};
use wire::overlay::{CLASS_ELEPHANT, CLASS_MOUSE, Content};

use crate::batch::Batch;
use crate::counters::{Counters, add, bump};
use crate::gauges::Queues;
use crate::mesh::micros;
use crate::seal::{Line, head, tail};
use crate::table::{Published, Reader, Table, Way};

/// How long to wait for packets before looking whether all shall end.
const PATIENCE: Duration = Duration::from_millis(200);
/// Packets that are taken before what is sealed goes out: a few hundred microseconds of work at most.
const MOST_AT_ONCE: usize = 32;
/// Parts of the flow table that are gone over after a wait of [`PATIENCE`]: a fifth of the largest and more.
const TURNS_AT_REST: usize = 4;
/// Packets in a row that the device could not hand over after which it is given up.
const MOST_SPOILT: usize = 10_000;
/// How often flows are counted.
const COUNT: Duration = Duration::from_millis(300);
/// How often somebody whose segments are too large is told so, at most: the kernel remembers it for all connections to the destination.
const HINT: Duration = Duration::from_millis(100);
/// And not before the size has stayed the same for so long: what the kernel was told once it does not forget for minutes, and while a size is sought
/// less is known than there is, for a second or two.
const SETTLED: Duration = Duration::from_secs(3);
/// By how much the share of an elephant that changes its path must be larger there.
const REBALANCE_MARGIN: f64 = 0.5;

/// A way in the table: index of the peer, and of its way.
type Place = (usize, usize);

/// What one thread needs to send packets.
pub(crate) struct Outbound {
    socket: Arc<Datagrams>,
    tun: Arc<Tun>,
    counters: Arc<Counters>,
    queues: Queues,
    reader: Reader,
    flows: flows::Table,
    /// Which routing entry of the flow table each path has.
    routes: HashMap<Path, RouteId>,
    /// Where each routing entry leads, in the present table, by its index.
    places: Vec<Option<Place>>,
    /// Whose each subnet is, longest prefix first.
    owners: Vec<(IpNet, Member)>,
    /// The largest packet on each path, and since when.
    sizes: HashMap<Path, (usize, Instant)>,
    secret: [u64; 2],
    batch: Batch,
    /// The last turn in which elephants were looked at.
    turn: u64,
    counted: Instant,
    hinted: Instant,
}

impl Outbound {
    /// `secret`: the same for all queues, so that a flow that comes by another one goes the same way.
    pub(crate) fn new(
        (queues, socket, tun): (Queues, Arc<Datagrams>, Arc<Tun>),
        published: &Arc<Published>,
        counters: Arc<Counters>,
        secret: [u64; 2],
    ) -> Self {
        let mut outbound = Self {
            socket,
            tun,
            counters,
            queues,
            reader: Reader::new(published),
            flows: flows::Table::new(flows::Settings::default()),
            routes: HashMap::new(),
            places: Vec::new(),
            owners: Vec::new(),
            sizes: HashMap::new(),
            secret,
            batch: Batch::own(),
            turn: 0,
            counted: Instant::ZERO,
            hinted: Instant::ZERO,
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
        while !ends() {
            if self.reader.refresh() {
                self.take_table();
            }
            let table = Arc::clone(&self.reader.table);
            let mut taken = 0;
            while taken < MOST_AT_ONCE
                && let Some(length) = self.receive(&mut buffer)?
            {
                taken += 1;
                self.send(&table, &mut buffer, length);
            }
            self.batch.flush(&self.socket, &self.counters);
            let now = kernel::now();
            // Who waits for packets comes by more rarely than time is due to pass.
            (0..if taken == 0 { TURNS_AT_REST } else { 1 }).for_each(|_| self.flows.maintain(now));
            self.count(now);
            self.rebalance(now);
            if taken == 0 {
                ready.clear();
                poller.wait(Some(PATIENCE), &mut ready)?;
            }
        }
        Ok(())
    }

    /// The next packet of the device. One that the kernel cannot hand over it has dropped (`EINVAL`: a super-packet of a kind that the device knows nothing of).
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..MOST_SPOILT {
            match self.tun.receive(buffer) {
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => bump(&self.counters.device_failed),
                done => return done,
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the device hands over nothing that can be read"))
    }

    /// Makes the flow table point to the paths of the present table. Flows of a path that is no more go to the best one of their destination.
    fn take_table(&mut self) {
        let table = Arc::clone(&self.reader.table);
        let mut present: HashMap<Path, Place> = HashMap::new();
        for (peer, p) in table.peers.iter().enumerate() {
            present.extend(p.ways.iter().enumerate().map(|(way, w)| (w.path, (peer, way))));
        }
        for path in present.keys() {
            if !self.routes.contains_key(path)
                && let Some(id) = self.flows.add_route(*path)
            {
                self.routes.insert(*path, id);
            }
        }
        let gone: Vec<Path> = self.routes.keys().filter(|p| !present.contains_key(p)).copied().collect();
        for path in gone {
            let Some(id) = self.routes.remove(&path) else { continue };
            let best = table.peer(path.destination()).and_then(|p| p.ways.first());
            self.flows.remove_route(id, best.and_then(|w| self.routes.get(&w.path).copied()));
        }
        let owners = table.owners();
        if owners != self.owners {
            // A flow whose destination is another member's now is not that one's to carry. Only those in subnets that came or went can be such.
            let (before, after): (HashSet<_>, HashSet<_>) = (self.owners.iter().collect(), owners.iter().collect());
            let differ: Vec<IpNet> = before.symmetric_difference(&after).map(|(net, _)| *net).collect();
            let owner = |ip| owners.iter().find(|(net, _): &&(IpNet, Member)| net.contains(&ip)).map(|(_, m)| *m);
            self.flows.retain(|key, path| {
                let to = key.destination();
                !differ.iter().any(|net| net.contains(&to)) || owner(to) == Some(path.destination())
            });
            self.owners = owners;
        }
        let now = kernel::now();
        let ways = table.peers.iter().flat_map(|p| &p.ways);
        let same = |path: &Path, most: usize| self.sizes.get(path).filter(|(before, _)| *before == most).copied();
        self.sizes = ways.map(|w| (w.path, same(&w.path, w.most).unwrap_or((w.most, now)))).collect();
        let end = self.routes.values().map(|id| id.index() + 1).max().unwrap_or(0);
        self.places = vec![None; end];
        for (path, id) in &self.routes {
            if let Some(place) = self.places.get_mut(id.index()) {
                *place = present.get(path).copied();
            }
        }
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
        let Some(((peer, way), class)) = self.place(table, &flow, bytes, packet::is_last(ip)) else { return };
        let Some(way) = table.peers.get(peer).and_then(|p| p.ways.get(way)) else { return bump(&self.counters.no_way) };
        clamp_mss(ip, way.most, checksum != Checksum::Whole);
        let line = way.line(table.own, self.queues.own);
        let traffic_class = packet::traffic_class(ip).unwrap_or(0);
        let Some(mut packet) = Packet::new(&*buffer, length, false) else { return };
        let longest = packet.segments().longest();
        if !packet.cut_to(way.most) {
            return self.send_fragments((&line, way.most), &packet, class, traffic_class);
        }
        if longest as usize > way.most {
            self.hint(packet.frame(), way);
        }
        let count = packet.segments().count;
        let whole = [packet.frame(), &[]];
        let now = micros(kernel::now());
        for segment in 0..count {
            let cut = if count > 1 { Cut::new(&packet, segment, 1) } else { None };
            let parts = cut.as_ref().map_or(whole, |c| [c.headers(), c.payload()]);
            // Those of segments are, whatever the super-packet's was.
            let checksum = if cut.is_some() && checksum == Checksum::Whole { Checksum::Partial } else { checksum };
            self.seal(&line, parts, (checksum, class), traffic_class, now);
        }
    }

    /// Packets that the way does not carry, and that are none of a connection whose segments could be cut: in fragments, where that is allowed.
    fn send_fragments(
        &mut self,
        (line, most): (&Line<'_>, usize),
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
        if is_too_large {
            self.tell_size(packet.frame(), most);
        }
    }

    /// The segments of a connection are larger than its way carries: each is cut, in two where they come one by one, and is lost with either. TCP makes
    /// smaller ones once it is told.
    fn hint(&mut self, ip: &[u8], way: &Way) {
        let now = kernel::now();
        let has_settled = self.sizes.get(&way.path).is_some_and(|(_, since)| now.saturating_since(*since) >= SETTLED);
        if has_settled && now.saturating_since(self.hinted) >= HINT {
            self.hinted = now;
            self.tell_size(ip, way.most);
        }
    }

    /// This host is told, where it wants to be, what the way of a packet carries.
    fn tell_size(&self, ip: &[u8], most: usize) {
        let Some(answer) = packet::too_big(ip, most) else { return };
        let vnet = [0; VNET_HEADER];
        if self.tun.send(&[IoSlice::new(&vnet), IoSlice::new(&answer)]).is_err() {
            bump(&self.counters.device_failed);
        }
    }

    /// Seals one packet into the batch.
    fn seal(
        &mut self,
        line: &Line<'_>,
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
            bump(&self.counters.no_way);
        }
    }

    /// Which way the flow goes, as before, or as its hash says for a new one; and its class.
    fn place(&mut self, table: &Table, flow: &Flow, bytes: usize, is_last: bool) -> Option<(Place, u8)> {
        let ends = [(flow.source, flow.source_port), (flow.destination, flow.destination_port)];
        let key = FlowKey::new(ends[0], ends[1], flow.protocol, flow.dscp);
        let hash = key.hash(self.secret);
        let bytes = Bytes::new(bytes as u64);
        if let Some(found) = self.flows.lookup(hash, &key, bytes) {
            let class = if found.is_elephant { CLASS_ELEPHANT } else { CLASS_MOUSE };
            if is_last {
                self.flows.end(hash, &key);
                if found.is_elephant {
                    // What it carried until now is known now.
                    self.counted = Instant::ZERO;
                }
            }
            return Some((self.place_of(found.route)?, class));
        }
        let Some(peer) = table.owner(flow.destination) else {
            bump(&self.counters.no_member);
            return None;
        };
        let way = table.peers.get(peer).and_then(|p| spread_by(&p.ways, hash, |w| (w.path, w.weight)));
        let Some(id) = way.and_then(|w| self.routes.get(&w.path)) else {
            bump(&self.counters.no_way);
            return None;
        };
        let id = *id;
        self.flows.assign(hash, key, bytes, id);
        Some((self.place_of(id)?, CLASS_MOUSE))
    }

    fn place_of(&self, route: RouteId) -> Option<Place> {
        let place = self.places.get(route.index()).copied().flatten();
        if place.is_none() {
            bump(&self.counters.no_way);
        }
        place
    }

    /// Counts flows, for people, for the route control, and for the other queues.
    fn count(&mut self, now: Instant) {
        if now.saturating_since(self.counted) < COUNT {
            return;
        }
        self.counted = now;
        let active = self.routes.iter().map(|(path, id)| (*path, self.flows.active(*id))).collect();
        self.queues.tell(self.flows.unremembered(), active);
    }

    /// Moves single elephants to where their share is larger.
    fn rebalance(&mut self, now: Instant) {
        let Some(turn) = self.queues.turn(now).filter(|turn| *turn != self.turn) else { return };
        self.turn = turn;
        let several = self.reader.table.peers.iter().filter(|peer| peer.ways.len() > 1);
        let ways = Vec::from_iter(several.map(|peer| &peer.ways));
        if ways.is_empty() {
            return;
        }
        let elsewhere = self.queues.elephants_elsewhere();
        let share = |w: &Way| {
            let route = *self.routes.get(&w.path)?;
            let elsewhere = elsewhere.get(&w.path).copied().unwrap_or(0);
            let [one, capacity, carried] = [w.predicted_bps, w.capacity_bps, w.carried_bps].map(Rate::from_bps);
            Some(Share { route, one, capacity, carried, elsewhere })
        };
        let destinations: Vec<Vec<Share>> = ways.iter().map(|w| w.iter().filter_map(share).collect()).collect();
        if self.flows.rebalance(&destinations, REBALANCE_MARGIN) > 0 {
            // The next queue has to know.
            self.counted = Instant::ZERO;
            self.count(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};

    use kernel::TunKind;
    use testbed::{Namespace, or_skip};
    use wire::overlay::Sealed;

    use super::*;
    use crate::session::{Cipher, Keys, Number, Session};
    use crate::table::{Peer, Sources};

    /// Inner packets of this length: a thousand of them are a megabyte.
    const BYTES: usize = 1000;

    /// One member, reached directly there.
    fn table(to: std::net::SocketAddr) -> Table {
        let keys = Keys { cipher: Cipher::preferred(), send: [1; 32], receive: [2; 32] };
        let end = Arc::new(Session::new(Member(2), 3, 4, Instant::ZERO, true, &keys).unwrap());
        let (hop, session) = (Arc::clone(&end), Some(Arc::clone(&end)));
        let way = Way {
            path: Path::direct(Member(2)),
            lane: 0,
            weight: 1.0,
            predicted_bps: 0,
            capacity_bps: 0,
            carried_bps: 0,
            most: 1400,
            to,
            end,
            hop,
        };
        let subnet = IpAddr::from(Ipv4Addr::new(10, 77, 0, 2)).into();
        let (quota, places) = (Arc::default(), crate::places::MemberPlaces::default());
        let peer = Peer {
            endpoint: Some(to),
            session,
            sources: Sources::new(&[subnet], [].iter()),
            ways: vec![way],
            quota,
            places,
        };
        let index = HashMap::from([(Member(2), 0)]);
        Table { own: Member(1), peers: vec![peer], index, prefixes: vec![(subnet, 0)], ..Table::default() }
    }

    /// A datagram of UDP from this port, as the device hands it over.
    fn packet_from(port: u16) -> Vec<u8> {
        let mut ip = vec![0; BYTES];
        ip[..10].copy_from_slice(&[0x45, 0, (BYTES >> 8) as u8, BYTES as u8, 0, 0, 0, 0, 64, 17]);
        ip[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        ip[20..22].copy_from_slice(&port.to_be_bytes());
        let length = (BYTES - 20) as u16;
        ip[24..26].copy_from_slice(&length.to_be_bytes());
        [&[0; VNET_HEADER][..], &ip].concat()
    }

    /// A thread's part, and who gets what it sends; nothing where there can be no device.
    fn outbound() -> Option<(Outbound, UdpSocket)> {
        let namespace = or_skip(Namespace::new())?;
        let tun = or_skip(namespace.run(|| Tun::new("lh%d", TunKind::Tun, false)).unwrap())?;
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let here = Datagrams::bind("127.0.0.1:0".parse().unwrap(), Bytes::new(1 << 18), false, false).unwrap();
        let published = Arc::new(Published::default());
        published.publish(table(there.local_addr().unwrap()));
        let ends = (Queues::default(), Arc::new(here), Arc::new(tun));
        Some((Outbound::new(ends, &published, Arc::default(), [5, 6]), there))
    }

    #[test]
    fn a_connection_is_told_how_large_its_way_is() {
        let Some((mut outbound, there)) = outbound() else { return };
        let table = Arc::clone(&outbound.reader.table);
        let keys = Keys { cipher: Cipher::preferred(), send: [2; 32], receive: [1; 32] };
        let far = Session::new(Member(1), 4, 3, Instant::ZERO, false, &keys).unwrap();
        let mut announced = |mss: u16| {
            // A SYN with that option alone (RFC 9293, section 3.1).
            let mut ip = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
            ip.extend([0x1b, 0x58, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4]);
            ip.extend(mss.to_be_bytes());
            let mut packet = [&[0; VNET_HEADER][..], &ip].concat();
            let length = packet.len();
            outbound.send(&table, &mut packet, length);
            outbound.batch.flush(&outbound.socket, &outbound.counters);
            let mut frame = vec![0; 2000];
            let length = there.recv(&mut frame).unwrap();
            frame.truncate(length);
            let number = Number::of_frame(&Sealed::decode(&frame).unwrap()).unwrap();
            let inner = far.open(number, &mut frame).unwrap();
            u16::from_be_bytes([inner[42], inner[43]])
        };
        // The way carries 1400 bytes: less 20 of IPv4 and 20 of TCP.
        assert_eq!([1460, 1361, 1360, 536].map(&mut announced), [1360, 1360, 1360, 536]);
    }

    #[test]
    fn a_flow_goes_to_whose_its_destination_is_now() {
        let Some((mut outbound, there)) = outbound() else { return };
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = |outbound: &mut Outbound| {
            let (table, mut packet) = (Arc::clone(&outbound.reader.table), packet_from(7000));
            let length = packet.len();
            outbound.send(&table, &mut packet, length);
            outbound.batch.flush(&outbound.socket, &outbound.counters);
        };
        let sockets = [&there, &other];
        sockets.iter().for_each(|s| s.set_nonblocking(true).unwrap());
        // On loopback everything has arrived when it has been sent.
        let arrived = || sockets.map(|s| std::iter::from_fn(|| s.recv(&mut [0; 2000]).ok()).count());
        send(&mut outbound);
        assert_eq!(arrived(), [1, 0]);
        // Somebody joins who serves a part of what the first one does.
        let mut joined = table(there.local_addr().unwrap());
        let mut second = table(other.local_addr().unwrap()).peers.remove(0);
        second.ways[0].path = Path::direct(Member(3));
        joined.peers.push(second);
        joined.index.insert(Member(3), 1);
        joined.prefixes = vec![(IpNet::from(IpAddr::from([10, 77, 0, 2])), 1), ("10.77.0.0/24".parse().unwrap(), 0)];
        outbound.reader.table = Arc::new(joined);
        outbound.take_table();
        send(&mut outbound);
        assert_eq!(arrived(), [0, 1], "not where it went before");
        // And nothing else changes: the flow stays.
        outbound.take_table();
        let remembered = outbound.routes.values().map(|id| outbound.flows.active(*id).flows).sum::<u32>();
        assert_eq!(remembered, 1);
    }

    #[test]
    fn frames_say_which_flow_has_carried_more_than_a_megabyte() {
        let Some((mut outbound, there)) = outbound() else { return };
        let table = Arc::clone(&outbound.reader.table);
        let mut class = |port: u16| {
            let mut packet = packet_from(port);
            let length = packet.len();
            outbound.send(&table, &mut packet, length);
            outbound.batch.flush(&outbound.socket, &outbound.counters);
            let mut frame = vec![0; 2000];
            let length = there.recv(&mut frame).unwrap();
            assert_eq!(length, BYTES + 40);
            // 0 an IP packet, and the class.
            assert_eq!(Sealed::decode(&frame).unwrap().content, Content::Packet { partial: false });
            frame[1]
        };
        let first = Vec::from_iter((0..1003).map(|_| class(7000)));
        // A megabyte is not more than one.
        assert_eq!(first, [vec![1; 1000], vec![2; 3]].concat());
        assert_eq!(class(7001), 1, "another flow");
        assert_eq!(class(7000), 2);
    }
}
