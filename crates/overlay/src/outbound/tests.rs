use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use ipnet::IpNet;
use kernel::TunKind;
use route::Member;
use testbed::{Namespace, or_skip};
use units::Bytes;
use wire::overlay::Sealed;

use super::*;
use crate::inbound::note_reset;
use crate::session::{Cipher, Keys, Number, Session};
use crate::table::{PeerEntry, Sources};

/// Inner packets of this length: a thousand of them are a megabyte.
const BYTES: usize = 1000;

/// One member, reached directly there.
fn table(to: std::net::SocketAddr) -> Table {
    let keys = Keys { cipher: Cipher::preferred(), send: [1; 32], receive: [2; 32] };
    let end = Arc::new(Session::new(Member(2), 3, 4, Instant::ZERO, true, &keys).unwrap());
    let (hop, session) = (Arc::clone(&end), Some(Arc::clone(&end)));
    let route = Route {
        path: Path::direct(Member(2)),
        space: 0,
        weight: 1.0,
        predicted_bps: 0,
        capacity_bps: 0,
        throughput_bps: 0,
        most: 1400,
        to,
        end,
        hop,
    };
    let subnet = IpAddr::from(Ipv4Addr::new(10, 77, 0, 2)).into();
    let (quota, permits) = (Arc::default(), crate::permits::PeerPermits::default());
    let peer = PeerEntry {
        endpoint: Some(to),
        session,
        sources: Sources::new(&[subnet], [].iter()),
        routes: vec![route],
        quota,
        permits,
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
    let (_, resets) = std::sync::mpsc::sync_channel(1);
    Some((Outbound::new(ends, &published, Arc::default(), resets, [5, 6]), there))
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
    // The route carries 1400 bytes: less 20 of IPv4 and 20 of TCP.
    assert_eq!([1460, 1361, 1360, 536].map(&mut announced), [1360, 1360, 1360, 536]);
}

/// A super-packet of TCP, as the device hands it over: `count` segments of 1360 bytes.
fn super_packet(count: usize) -> Vec<u8> {
    let length = 40 + count * 1360;
    // The checksum is to be completed from byte 20 on, at its byte 16; TCP over IPv4 (linux/virtio_net.h).
    let mut vnet = vec![1, 1, 40, 0, 80, 5, 20, 0, 16, 0];
    vnet.resize(VNET_HEADER, 0);
    let mut ip = vec![0; length];
    ip[..10].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 6]);
    ip[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
    ip[20..24].copy_from_slice(&[0x1b, 0x58, 0x13, 0x89]);
    ip[32..36].copy_from_slice(&[0x50, 0x10, 0xff, 0xff]);
    [vnet, ip].concat()
}

#[test]
fn a_connection_that_its_receiver_resets_is_no_elephant_any_more() {
    let Some((mut outbound, _there)) = outbound() else { return };
    let (to, resets) = std::sync::mpsc::sync_channel(1);
    outbound.resets = resets;
    let table = Arc::clone(&outbound.reader.table);
    // 54 kB each.
    for _ in 0..20 {
        let mut packet = super_packet(40);
        let length = packet.len();
        outbound.send(&table, &mut packet, length);
    }
    let elephants = |outbound: &Outbound| outbound.placement.active()[&Path::direct(Member(2))].elephants;
    assert_eq!(elephants(&outbound), 1);
    let mut answer = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1];
    answer.extend([0x13, 0x89, 0x1b, 0x58, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x11, 0, 0, 0, 0, 0, 0]);
    // FIN: the receiver sends no more, and may go on to receive.
    note_reset(std::slice::from_ref(&to), &answer);
    outbound.take_resets();
    assert_eq!(elephants(&outbound), 1);
    answer[33] = 0x14;
    note_reset(&[to], &answer);
    outbound.take_resets();
    assert_eq!(elephants(&outbound), 0);
}

#[test]
fn headers_that_contradict_each_other_end_nothing() {
    let Some((mut outbound, _there)) = outbound() else { return };
    let table = Arc::clone(&outbound.reader.table);
    // TCP is said to begin where it does not, and there to have a header of 8, 12 or 20 bytes.
    for (start, offset) in [(32_u8, 0x20), (32, 0x30), (32, 0x50), (20, 0x20)] {
        for length in [1500, 65_535] {
            let mut vnet = vec![1, 1, 40, 0, 0xe8, 3, start, 0, 16, 0];
            vnet.resize(VNET_HEADER, 0);
            let mut ip = vec![0; length];
            ip[..10].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 6]);
            ip[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
            ip[usize::from(start) + 12] = offset;
            let mut packet = [vnet, ip].concat();
            let length = packet.len();
            outbound.send(&table, &mut packet, length);
            outbound.batch.flush(&outbound.socket, &outbound.counters);
        }
    }
    let counts = outbound.counters.counts();
    assert_eq!((counts.packets_in, counts.oversize + counts.tx_errors), (8, 0), "{counts:?}");
}

#[test]
fn who_sends_what_is_too_large_is_told_so_now_and_then() {
    let Some((mut outbound, _there)) = outbound() else { return };
    let table = Arc::clone(&outbound.reader.table);
    let mut packet = packet_from(7000);
    // Don't fragment.
    packet[VNET_HEADER + 6] = 0x40;
    packet.resize(VNET_HEADER + 1500, 0);
    packet[VNET_HEADER + 2..VNET_HEADER + 4].copy_from_slice(&1500_u16.to_be_bytes());
    let (began, length) = (kernel::now(), packet.len());
    (0..1000).for_each(|_| outbound.send(&table, &mut packet.clone(), length));
    let took = kernel::now().saturating_since(began).as_secs_f64();
    let counts = outbound.counters.counts();
    // The device is down, so that each answer fails and is counted: 50 at once, and a hundred a second.
    assert_eq!(counts.too_large, 1000);
    let most = 50.0 + 100.0 * took + 1.0;
    assert!(counts.tun_errors >= 50 && counts.tun_errors as f64 <= most, "{counts:?} in {took} s");
}

#[test]
fn nothing_is_allocated_for_a_packet() {
    let Some((mut outbound, _there)) = outbound() else { return };
    let (table, mut buffer) = (Arc::clone(&outbound.reader.table), vec![0; LARGEST_PACKET]);
    let mut send = |packet: &[u8]| {
        buffer[..packet.len()].copy_from_slice(packet);
        outbound.send(&table, &mut buffer, packet.len());
        outbound.batch.flush(&outbound.socket, &outbound.counters);
        outbound.placement.maintain(kernel::now(), 1, &table);
    };
    let packets = [packet_from(7000), super_packet(40)];
    packets.iter().for_each(|p| send(p));
    let used = allocation_counter::measure(|| (0..500).for_each(|_| packets.iter().for_each(|p| send(p))));
    assert_eq!(used.count_total, 0);
    let counts = outbound.counters.counts();
    assert_eq!((counts.packets_in, counts.frames_sealed), (2 * 501, 41 * 501));
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
    second.routes[0].path = Path::direct(Member(3));
    joined.peers.push(second);
    joined.index.insert(Member(3), 1);
    joined.prefixes = vec![(IpNet::from(IpAddr::from([10, 77, 0, 2])), 1), ("10.77.0.0/24".parse().unwrap(), 0)];
    outbound.reader.table = Arc::new(joined);
    outbound.take_table();
    send(&mut outbound);
    assert_eq!(arrived(), [0, 1], "not where it went before");
    // And nothing else changes: the flow stays.
    outbound.take_table();
    let remembered = outbound.placement.active().values().map(|active| active.flows).sum::<u32>();
    assert_eq!(remembered, 1);
}

/// Two routes to the member, directly and over another one, with these weights and each of 100 Mb/s.
fn two_routes(sockets: [&UdpSocket; 2], weights: [f64; 2]) -> Table {
    let [first, second] = sockets.map(|s| table(s.local_addr().unwrap()));
    let mut both = first;
    let peer = &mut both.peers[0];
    peer.routes.extend(second.peers.into_iter().flat_map(|p| p.routes));
    peer.routes[1].path = Path::via(&[Member(3)], Member(2)).unwrap();
    peer.routes[1].space = 3;
    for (route, weight) in peer.routes.iter_mut().zip(weights) {
        (route.weight, route.predicted_bps, route.capacity_bps) = (weight, 100_000_000, 100_000_000);
    }
    both
}

/// By which of both routes each of these flows goes.
fn routes_of(outbound: &mut Outbound, sockets: [&UdpSocket; 2], ports: std::ops::Range<u16>) -> Vec<usize> {
    sockets.iter().for_each(|s| s.set_nonblocking(true).unwrap());
    let table = Arc::clone(&outbound.reader.table);
    let one = |port| {
        let mut packet = packet_from(port);
        let length = packet.len();
        outbound.send(&table, &mut packet, length);
        outbound.batch.flush(&outbound.socket, &outbound.counters);
        // On loopback everything has arrived when it has been sent.
        let came = sockets.map(|s| std::iter::from_fn(|| s.recv(&mut [0; 2000]).ok()).count());
        assert_eq!(came.iter().sum::<usize>(), 1, "{port}: {came:?}");
        came[1]
    };
    ports.map(one).collect()
}

#[test]
fn flows_are_spread_by_the_weights_of_their_ways_and_stay_where_they_are() {
    let Some((mut outbound, there)) = outbound() else { return };
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sockets = [&there, &other];
    let take = |outbound: &mut Outbound, weights| {
        outbound.reader.table = Arc::new(two_routes(sockets, weights));
        outbound.take_table();
    };
    let over_the_other = |routes: &[usize]| routes.iter().sum::<usize>();
    // Of 400 flows; four deviations of a share of a quarter are 35.
    take(&mut outbound, [0.75, 0.25]);
    let before = routes_of(&mut outbound, sockets, 1000..1400);
    assert!((65..=135).contains(&over_the_other(&before)), "{}", over_the_other(&before));
    take(&mut outbound, [0.25, 0.75]);
    assert_eq!(routes_of(&mut outbound, sockets, 1000..1400), before, "where it began");
    let after = routes_of(&mut outbound, sockets, 2000..2400);
    assert!((265..=335).contains(&over_the_other(&after)), "{}", over_the_other(&after));
}

#[test]
fn elephants_that_crowd_a_way_are_moved_one_by_one() {
    let Some((mut outbound, there)) = outbound() else { return };
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sockets = [&there, &other];
    // All of six begin on the first route, and carry more than a megabyte each.
    outbound.reader.table = Arc::new(two_routes(sockets, [1.0, 0.0]));
    outbound.take_table();
    for _ in 0..1002 {
        assert_eq!(routes_of(&mut outbound, sockets, 1000..1006), [0; 6]);
    }
    let mut placed = Vec::new();
    for turn in 1..=4 {
        let table = Arc::clone(&outbound.reader.table);
        outbound.placement.rebalance(Instant::ZERO + turn * Duration::from_secs(5), &table);
        placed.push(routes_of(&mut outbound, sockets, 1000..1006).iter().sum::<usize>());
    }
    // Alone there one gets 100 Mb/s and not 16.7, and a second one 50 and not 20; a third one would get 33.3 and not 25, which is less than half as much again.
    assert_eq!(placed, [1, 2, 2, 2]);
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
