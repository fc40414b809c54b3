//! Reader of the matches of a class.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use shaping::{Direction, Match, Traffic};

use crate::policy::Users;
use crate::problem::{Fault, known_names};
use crate::quantity;
use crate::section::{Item, Section};
use crate::tree::{Kind, Value};

/// Protocols with common names (IANA protocol numbers).
const PROTOCOLS: &[(&str, u8)] =
    &[("icmp", 1), ("tcp", 6), ("udp", 17), ("gre", 47), ("esp", 50), ("icmpv6", 58), ("sctp", 132)];

/// Code points with common names: RFC 2474 (class selectors), 2597 (assured forwarding), 3246, 5865, 8622.
const CODE_POINTS: &[(&str, u8)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// The differentiated services code point of a name; case is ignored.
pub fn code_point(name: &str) -> Option<u8> {
    CODE_POINTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
}

/// Reads one match or a list of matches.
pub(super) fn read(item: &Item<'_>, direction: Direction, users: Users<'_>) -> Vec<Match> {
    item.one_or_more().iter().filter_map(|one| read_one(one, direction, users)).collect()
}

fn read_one(item: &Item<'_>, direction: Direction, users: Users<'_>) -> Option<Match> {
    let mut section = item.section()?;
    let matched = Match {
        from: list(&mut section, "from", network),
        to: list(&mut section, "to", network),
        protocol: section.read("protocol", |v| named_number(v, PROTOCOLS, 255, "protocol")),
        from_ports: list(&mut section, "from_port", ports),
        to_ports: list(&mut section, "to_port", ports),
        ports: list(&mut section, "port", ports),
        dscp: list(&mut section, "dscp", |v| named_number(v, CODE_POINTS, 63, "code point")),
        cgroup: section.read("cgroup", cgroup),
        user: section.read("user", |v| user(v, users)),
        size: section.read("size", quantity::name(&[("mouse", Traffic::Mouse), ("elephant", Traffic::Elephant)])),
    };
    if direction == Direction::Ingress {
        for key in section.given(&["cgroup", "user"]) {
            let message = format!("has `{key}`, which is not known of received packets");
            section.complain(Fault::new(message, "use it in egress, or match by address, port or size"));
        }
    }
    let has_ports = !(matched.from_ports.is_empty() && matched.to_ports.is_empty() && matched.ports.is_empty());
    // TCP, UDP, DCCP, SCTP, UDP-Lite: ports are the first four bytes.
    if has_ports && matched.protocol.is_some_and(|p| ![6, 17, 33, 132, 136].contains(&p)) {
        section.complain(Fault::new("has ports, but the protocol has none", "leave one of them out"));
    }
    let families = |nets: &[IpNet]| (nets.iter().any(|n| n.addr().is_ipv4()), nets.iter().any(|n| n.addr().is_ipv6()));
    let (from, to) = (families(&matched.from), families(&matched.to));
    let both_given = !matched.from.is_empty() && !matched.to.is_empty();
    if both_given && !((from.0 && to.0) || (from.1 && to.1)) {
        section.complain(Fault::new("`from` and `to` have different IP versions", "use one IP version"));
    }
    section.finish();
    Some(matched)
}

fn list<T>(section: &mut Section<'_>, key: &'static str, reader: impl Fn(&Value) -> Result<T, Fault>) -> Vec<T> {
    let items = section.item(key).map_or_else(Vec::new, |item| item.one_or_more());
    items.iter().filter_map(|item| item.read(&reader)).collect()
}

fn network(value: &Value) -> Result<IpNet, Fault> {
    let text = quantity::text(value)?;
    let bad = || {
        Fault::new(
            format!("`{text}` is not an address or network"),
            "write \"10.0.0.0/8\", \"192.0.2.1\" or \"2001:db8::/32\"",
        )
    };
    let net: IpNet = match text.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse().map_err(|_| bad())?,
    };
    if net.addr() != net.network() {
        return Err(Fault::new(
            format!("`{text}` has bits set beyond its prefix"),
            format!("write \"{}\"", net.trunc()),
        ));
    }
    Ok(net)
}

/// Reads a port, or a range written `"5000-5100"`.
fn ports(value: &Value) -> Result<RangeInclusive<u16>, Fault> {
    const HINT: &str = "write a port such as 5201, or a range such as \"5000-5100\"";
    let bad = || Fault::new(format!("`{}` is not a port or a range of ports", value.kind.plain()), HINT);
    if let Kind::Text(text) = &value.kind {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |t: &str| t.trim().parse::<u16>().map_err(|_| bad());
        let (first, last) = (number(first)?, number(last)?);
        return if first <= last { Ok(first..=last) } else { Err(bad()) };
    }
    let port = quantity::whole(0..=65_535)(value).map_err(|_| bad())?;
    let port = u16::try_from(port).map_err(|_| bad())?;
    Ok(port..=port)
}

/// Reads a number, or one of the names for it.
fn named_number(value: &Value, names: &[(&str, u8)], most: u8, what: &str) -> Result<u8, Fault> {
    if let Kind::Text(text) = &value.kind {
        let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        return found.map(|(_, number)| *number).ok_or_else(|| {
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            Fault::new(format!("`{text}` is not a {what}"), known_names(text, &known, ""))
        });
    }
    let number = quantity::whole(0..=i64::from(most))(value)?;
    u8::try_from(number).map_err(|_| Fault::new(format!("{number} is out of range"), ""))
}

fn cgroup(value: &Value) -> Result<String, Fault> {
    let text = quantity::text(value)?;
    let path = text.trim_matches('/');
    if path.is_empty() || path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        let hint = "write the path below /sys/fs/cgroup, such as \"system.slice/backup.service\"";
        return Err(Fault::new(format!("`{text}` is not a path of a cgroup"), hint));
    }
    Ok(path.to_owned())
}

fn user(value: &Value, users: Users<'_>) -> Result<u32, Fault> {
    if let Kind::Text(name) = &value.kind {
        let Some(users) = users else {
            return Err(Fault::new("an experiment has no user names", "write the user ID"));
        };
        let unknown =
            || Fault::new(format!("there is no user `{name}`"), "write the name of a user of this host, or a user ID");
        return users(name).ok_or_else(unknown);
    }
    quantity::whole_u32(0..=u32::MAX - 1)(value)
}
