//! Owners of addresses with nested subnets.

use super::*;
use crate::status::Question;

/// The subnets of three members, each inside the previous member's.
const NESTED: [[&str; 2]; 3] =
    [["10.0.0.0/8", "2001:db8::/32"], ["10.1.0.0/16", "2001:db8:1::/48"], ["10.1.2.3/32", "2001:db8:1::3/128"]];

/// Addresses and the index of their owner in [`NESTED`].
const ADDRESSES: [(&str, usize); 9] = [
    ("10.200.0.1", 0),
    ("10.0.255.255", 0),
    ("10.2.0.0", 0),
    ("10.1.2.2", 1),
    ("10.1.255.255", 1),
    ("10.1.2.3", 2),
    ("2001:db8:ffff::1", 0),
    ("2001:db8:1:2::3", 1),
    ("2001:db8:1::3", 2),
];

/// Addresses of the first member.
const SOURCE: [&str; 2] = ["192.168.7.7", "fd00::7"];

/// A packet between two addresses of one family.
fn from_to(source: IpAddr, to: IpAddr) -> Vec<u8> {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (source, to) else { return ipv4(source, to, 100) };
    [&[0x60, 0, 0, 0, 0, 60, 17, 64][..], &from.octets(), &to.octets(), &[0; 60]].concat()
}

/// A packet from the first member.
fn packet(to: IpAddr) -> Vec<u8> {
    from_to(SOURCE[usize::from(to.is_ipv6())].parse().unwrap(), to)
}

/// Members of which all but the first serve [`NESTED`], starting with member `first`.
fn world(first: usize) -> World {
    let mut world = World::new(4);
    let subnets = |index: usize| match index.checked_sub(1) {
        None => SOURCE.map(|s| s.parse::<IpAddr>().unwrap().into()).to_vec(),
        Some(_) => NESTED[(index + 3 - first) % 3].map(|s| s.parse().unwrap()).to_vec(),
    };
    for index in 0..4 {
        let settings = Settings { subnets: subnets(index), ..settings(index, 4) };
        settings.members.change(|all| {
            for peer in 0..4 {
                all.entry(number(peer)).and_modify(|m| m.subnets = subnets(peer));
            }
        });
        world.hosts[index] = Host::new(settings, index as u64, world.now);
    }
    world.run(2 * SECOND);
    world
}

#[test]
fn packets_and_explanations_follow_the_longest_prefix() {
    // In each order, so that the member numbers do not decide.
    for first in 1..4 {
        let mut world = world(first);
        for (text, place) in ADDRESSES {
            let (to, owner) = (text.parse().unwrap(), (place + first - 1) % 3 + 1);
            let (address, datagram) = world.sealed_to(0, to, 0, packet(to)).unwrap();
            world.hosts.iter_mut().for_each(|h| h.delivered.clear());
            world.send(0, address, datagram);
            world.run(Duration::from_millis(50));
            let receivers = (0..4).filter(|i| world.hosts[*i].delivered == [packet(to)]).collect::<Vec<_>>();
            assert_eq!(receivers, [owner], "{text}");
            let host = &world.hosts[0];
            let why = Question::Why { destination: text.to_owned() };
            let answer = status::status(host, Vec::new()).answer(&why, &host.core, world.now);
            assert_eq!(answer["name"], format!("m{owner}"), "{text}: {answer}");
        }
        for text in ["11.0.0.1", "9.255.255.255", "2001:db9::1", "::ffff:10.1.2.3"] {
            let host = &world.hosts[0];
            assert_eq!(host.table.owner(text.parse().unwrap()), None, "{text}");
            let why = Question::Why { destination: text.to_owned() };
            let answer = status::status(host, Vec::new()).answer(&why, &host.core, world.now);
            assert!(answer["error"].is_string(), "{text}: {answer}");
        }
    }
}

#[test]
fn sources_in_a_longer_prefix_of_another_member_are_rejected() {
    for first in 1..4 {
        let mut world = world(first);
        for (text, place) in ADDRESSES {
            let (source, owner) = (text.parse::<IpAddr>().unwrap(), (place + first - 1) % 3 + 1);
            let to: IpAddr = SOURCE[usize::from(source.is_ipv6())].parse().unwrap();
            for sender in 1..4 {
                let (address, datagram) = world.sealed_to(sender, to, 0, from_to(source, to)).unwrap();
                let before = world.hosts[0].counters.counts().spoofed;
                world.hosts[0].delivered.clear();
                world.send(sender, address, datagram);
                world.run(Duration::from_millis(50));
                let counts = (world.hosts[0].delivered.len(), world.hosts[0].counters.counts().spoofed - before);
                assert_eq!(counts, if sender == owner { (1, 0) } else { (0, 1) }, "{text} from m{sender}");
            }
        }
    }
}

#[test]
fn sources_in_a_longer_prefix_of_the_receiver_are_rejected() {
    // The receiver serves a host route inside the subnets of both senders.
    let (mut world, last) = (world(1), 3);
    for (sender, source, is_accepted) in
        [(1, "10.1.2.3", false), (2, "10.1.2.3", false), (1, "10.200.0.1", true), (2, "10.1.9.9", true)]
    {
        let (source, to) = (source.parse::<IpAddr>().unwrap(), "10.1.2.3".parse().unwrap());
        let (address, datagram) = world.sealed_to(sender, to, 0, from_to(source, to)).unwrap();
        world.hosts[last].delivered.clear();
        world.send(sender, address, datagram);
        world.run(Duration::from_millis(50));
        assert_eq!(world.hosts[last].delivered.len(), usize::from(is_accepted), "{source} from m{sender}");
    }
}
