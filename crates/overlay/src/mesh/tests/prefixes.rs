//! Whose an address is, where subnets lie in each other.

use super::*;
use crate::status::Question;

/// What three members serve, each inside that of the one before.
const NESTED: [[&str; 2]; 3] =
    [["10.0.0.0/8", "2001:db8::/32"], ["10.1.0.0/16", "2001:db8:1::/48"], ["10.1.2.3/32", "2001:db8:1::3/128"]];

/// Addresses and which of these they belong to.
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

/// Of the first member.
const SOURCE: [&str; 2] = ["192.168.7.7", "fd00::7"];

fn packet(to: IpAddr) -> Vec<u8> {
    let (own, IpAddr::V6(to)) = (SOURCE.map(|s| s.parse::<IpAddr>().unwrap()), to) else {
        return ipv4(SOURCE[0].parse().unwrap(), to, 100);
    };
    let IpAddr::V6(source) = own[1] else { panic!("IPv6") };
    [&[0x60, 0, 0, 0, 0, 60, 17, 64][..], &source.octets(), &to.octets(), &[0; 60]].concat()
}

/// Members of which the ones behind the first serve [`NESTED`], beginning with this one.
fn world(first: usize) -> World {
    let mut world = World::new(4);
    for index in 0..4 {
        let settings = settings(index, 4);
        settings.members.change(|all| {
            for (member, served) in all.iter_mut() {
                let place = (1..4).find(|i| number(*i) == *member).map(|i| (i + 3 - first) % 3);
                let subnets = place.map_or_else(
                    || SOURCE.map(|s| s.parse::<IpAddr>().unwrap().into()),
                    |p| NESTED[p].map(|s| s.parse().unwrap()),
                );
                served.subnets = subnets.to_vec();
            }
        });
        world.hosts[index] = Host::new(settings, index as u64, world.now);
    }
    world.run(2 * SECOND);
    world
}

#[test]
fn packets_go_to_who_serves_the_longest_prefix_and_why_says_so() {
    // In each order, so that it is not the members' numbers that decide.
    for first in 1..4 {
        let mut world = world(first);
        for (text, place) in ADDRESSES {
            let (to, owner) = (text.parse().unwrap(), (place + first - 1) % 3 + 1);
            let (address, datagram) = world.sealed_to(0, to, 0, packet(to)).unwrap();
            world.hosts.iter_mut().for_each(|h| h.delivered.clear());
            world.send(0, address, datagram);
            world.run(Duration::from_millis(50));
            let got = (0..4).filter(|i| world.hosts[*i].delivered == [packet(to)]).collect::<Vec<_>>();
            assert_eq!(got, [owner], "{text}");
            let host = &world.hosts[0];
            let why = Question::Why { destination: text.to_owned() };
            let answer = status::status(host, Vec::new()).answer(&why, &host.mesh, world.now);
            assert_eq!(answer["name"], format!("m{owner}"), "{text}: {answer}");
        }
        for text in ["11.0.0.1", "9.255.255.255", "2001:db9::1", "::ffff:10.1.2.3"] {
            let host = &world.hosts[0];
            assert_eq!(host.table.owner(text.parse().unwrap()), None, "{text}");
            let why = Question::Why { destination: text.to_owned() };
            let answer = status::status(host, Vec::new()).answer(&why, &host.mesh, world.now);
            assert!(answer["error"].is_string(), "{text}: {answer}");
        }
    }
}
