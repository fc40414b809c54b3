//! Peer entries of the settings.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use route::Member;
use serde::Deserialize;

use super::syntax::parsed;
use super::{FileMember, MemberSettings};
use crate::OverlayError;
use crate::identity::PublicKey;

/// Maximum length of a name in bytes: that of a host name without domain (a label of RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 63;

/// Peers of the settings. The entry of this member itself must have its own subnets, as its peers use the same list.
pub(super) fn others(
    listed: Vec<FileMember>,
    (own, serves): (Member, &[IpNet]),
) -> Result<BTreeMap<Member, MemberSettings>, String> {
    let mut members = BTreeMap::new();
    for m in listed {
        let (key, name) = key_and_name(&m)?;
        let endpoint = m.endpoint.as_deref().map(str::parse).transpose();
        let endpoint = endpoint.map_err(|e: String| format!("the endpoint of {name}: {e}"))?;
        let number = key.member();
        if number == own {
            own_line(&name, &distinct(m.subnets), serves)?;
            continue;
        }
        let other = MemberSettings { name, key, endpoint, subnets: distinct(m.subnets), direct: m.direct };
        if let Some(before) = members.insert(number, other.clone()) {
            return Err(duplicate_error(&before, &other));
        }
    }
    let mut names = BTreeSet::new();
    if let Some(duplicate) = members.values().find(|m| !names.insert(m.name.as_str())) {
        return Err(format!("two members have the name {}; give one of them another `name`", duplicate.name));
    }
    Ok(members)
}

/// Public key and name of an entry.
fn key_and_name(m: &FileMember) -> Result<(PublicKey, String), String> {
    let key: PublicKey = m.key.parse().map_err(|e: OverlayError| e.to_string())?;
    let name = m.name.clone().unwrap_or_else(|| key.member().to_string());
    check_name(&name).map(|()| (key, name))
}

/// Checks a name, which is an argument of commands and appears on terminals.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_invalid = |c: char| c.is_control() || c.is_whitespace() || units::is_deceptive(c);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(is_invalid) {
        return Ok(());
    }
    Err(format!(
        "`name` = {} is invalid; a name has 1 to {NAME_BYTES_MAX} bytes without spaces, control characters and \
         invisible characters",
        visible(name)
    ))
}

/// Text in quotes, with invisible characters as escapes.
fn visible(text: &str) -> String {
    let escape =
        |c: char| if units::is_deceptive(c) { c.escape_unicode().to_string() } else { c.escape_debug().to_string() };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Error of two entries with the same member number.
fn duplicate_error(before: &MemberSettings, other: &MemberSettings) -> String {
    let (one, two) = (&before.name, &other.name);
    if before.key == other.key {
        return format!("the members {one} and {two} have the same key; remove one of the entries");
    }
    let number = other.key.member();
    format!(
        "the keys of the members {one} and {two} have the same number {number}; generate another key for one of them"
    )
}

/// Checks the entry of this member, by which its peers route and filter its packets.
fn own_line(name: &str, listed: &[IpNet], serves: &[IpNet]) -> Result<(), String> {
    let is_equal = listed.len() == serves.len() && serves.iter().all(|net| listed.contains(net));
    let text = |nets: &[IpNet]| match nets {
        [] => "(none)".to_owned(),
        nets => nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    if is_equal {
        return Ok(());
    }
    Err(format!(
        "the entry of this member ({name}) has the subnets {}, but `addresses` and `subnets` are {}; make them equal, \
         as peers use the entry",
        text(listed),
        text(serves)
    ))
}

/// Networks without duplicates and without host bits.
pub(super) fn distinct(nets: impl IntoIterator<Item = IpNet>) -> Vec<IpNet> {
    let mut seen = BTreeSet::new();
    nets.into_iter().map(|net| net.trunc()).filter(|net| seen.insert(*net)).collect()
}

/// Parses peer entries in the form of the output of `overlay init`.
///
/// # Errors
/// Fails when the text is not TOML, has an unknown key, or has an invalid public key, name or subnet.
pub fn member_lines(text: &str) -> Result<Vec<MemberSettings>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lines {
        member: Vec<FileMember>,
    }
    let lines: Lines = parsed(text)?;
    let read = |m: FileMember| {
        let (key, name) = key_and_name(&m)?;
        m.subnets.iter().try_for_each(|net| check_subnet(*net).map_err(|e| format!("the subnets of {name}: {e}")))?;
        Ok(MemberSettings { name, key, endpoint: None, subnets: distinct(m.subnets), direct: m.direct })
    };
    lines.member.into_iter().map(read).collect()
}

/// Checks a subnet that another host announces for itself.
fn check_subnet(net: IpNet) -> Result<(), String> {
    let network = net.trunc();
    if net != network {
        return Err(format!(
            "{net} has bits set after the prefix; write {network}, or {}/{} for the host",
            net.addr(),
            net.max_prefix_len()
        ));
    }
    if net.prefix_len() == 0 {
        let halves = if net.addr().is_ipv4() { "0.0.0.0/1 and 128.0.0.0/1" } else { "::/1 and 8000::/1" };
        return Err(format!("{net} covers all addresses; if the peer is to carry all traffic, write {halves}"));
    }
    let (first, last) = (network.network(), network.broadcast());
    // A network that is larger than the loopback network, such as 0.0.0.0/1, may contain it.
    let is_in = |what: fn(&std::net::IpAddr) -> bool| what(&first) && what(&last);
    if is_in(std::net::IpAddr::is_loopback) || is_in(std::net::IpAddr::is_multicast) {
        return Err(format!("{net} is a loopback or multicast network, which no peer can have"));
    }
    Ok(())
}

/// Two members with the same subnet could take each other's packets.
pub(super) fn no_overlap(members: &BTreeMap<Member, MemberSettings>, own: &[IpNet]) -> Result<(), String> {
    let others = members.values().flat_map(|m| m.subnets.iter().map(move |s| (*s, m.name.as_str())));
    let all: Vec<(IpNet, &str)> = own.iter().map(|s| (*s, "this member")).chain(others).collect();
    for (i, (subnet, owner)) in all.iter().enumerate() {
        if let Some((_, other)) = all[..i].iter().find(|(s, o)| s.trunc() == subnet.trunc() && o != owner) {
            return Err(format!("{subnet} belongs to both {other} and {owner}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn line(name: &str, seed: u8) -> FileMember {
        let key = Identity::from_seed(&[seed; 32]).public().to_string();
        FileMember { key, name: Some(name.to_owned()), endpoint: None, subnets: Vec::new(), direct: true }
    }

    #[test]
    fn a_name_has_only_printable_characters_without_spaces() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for name in ["west", "b\u{fc}ro_1", "west.example.net", "\"", &longest] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let hidden = ["a\u{202e}b", "a\u{200b}", "\u{feff}a", "a\u{2066}b"];
        for name in ["", "a b", "a\nb", "a\u{1b}[31m", "a\u{7f}", "a\u{a0}b", &long].into_iter().chain(hidden) {
            let error = check_name(name).unwrap_err();
            assert!(error.contains("1 to 63 bytes") && !error.contains(char::is_control), "{error}");
            assert!(!error.contains(units::is_deceptive), "{error}");
        }
    }

    #[test]
    fn the_subnets_of_an_entry_must_be_possible_for_a_peer() {
        let key = Identity::from_seed(&[2; 32]).public().to_string();
        let read = |net: &str| {
            member_lines(&format!("[[member]]\nname = \"east\"\nkey = \"{key}\"\nsubnets = [\"{net}\"]\n")).map(drop)
        };
        // 0.0.0.0/1 contains the loopback network, and is not one.
        for net in ["10.0.0.0/8", "10.0.0.5/32", "0.0.0.0/1", "128.0.0.0/1", "fd00::/8", "::/1"] {
            assert_eq!(read(net), Ok(()), "{net}");
        }
        for (net, reason) in [
            ("0.0.0.0/0", "write 0.0.0.0/1 and 128.0.0.0/1"),
            ("::/0", "write ::/1 and 8000::/1"),
            ("127.0.0.0/8", "loopback"),
            ("127.1.0.0/16", "loopback"),
            ("::1/128", "loopback"),
            ("224.0.0.0/4", "multicast"),
            ("ff00::/8", "multicast"),
            ("10.0.0.5/8", "write 10.0.0.0/8, or 10.0.0.5/32 for the host"),
            ("fd00::1/64", "write fd00::/64"),
        ] {
            let refused = read(net).unwrap_err();
            assert!(refused.starts_with("the subnets of east: ") && refused.contains(reason), "{net}: {refused}");
        }
    }

    #[test]
    fn the_error_of_a_duplicate_key_has_both_names() {
        let own = Identity::from_seed(&[1; 32]).public().member();
        let refused = others(vec![line("east", 2), line("orient", 2)], (own, &[])).unwrap_err();
        assert!(refused.contains("east and orient have the same key"), "{refused}");
    }
}
