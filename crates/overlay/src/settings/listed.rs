//! The members that settings list.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use route::Member;
use serde::Deserialize;

use super::{FileMember, MemberSettings};
use crate::OverlayError;
use crate::identity::PublicKey;

/// Longest name in bytes: that of a host without its domain (a label of RFC 1035, section 2.3.4), as most are called.
const LONGEST_NAME: usize = 63;

/// The members of the file but this one, which serves these networks: where its own line says otherwise, so do the others' lists.
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
            return Err(twice(&before, &other));
        }
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = members.values().find(|m| !names.insert(m.name.as_str())) {
        return Err(format!("two members are called {}; give one of them another `name`", twice.name));
    }
    Ok(members)
}

/// Who a line tells of, and what people call it.
fn key_and_name(m: &FileMember) -> Result<(PublicKey, String), String> {
    let key: PublicKey = m.key.parse().map_err(|e: OverlayError| e.to_string())?;
    let name = m.name.clone().unwrap_or_else(|| key.member().to_string());
    check_name(&name).map(|()| (key, name))
}

/// A name is a word of commands and of lines that people read on a terminal.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    if (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(is_odd) {
        return Ok(());
    }
    Err(format!(
        "`name` is {name:?}; a member has a name of 1 to {LONGEST_NAME} bytes without spaces and control characters"
    ))
}

/// Why two lines cannot both be.
fn twice(before: &MemberSettings, other: &MemberSettings) -> String {
    let (one, two) = (&before.name, &other.name);
    if before.key == other.key {
        return format!("the members {one} and {two} have the same key: they are one; leave one of the two out");
    }
    let number = other.key.member();
    format!("the members {one} and {two} have keys of the same number {number}; one of them needs another key")
}

/// What the others take packets from is what their lists say, and the list is the same for all.
fn own_line(name: &str, listed: &[IpNet], serves: &[IpNet]) -> Result<(), String> {
    let alike = listed.len() == serves.len() && serves.iter().all(|net| listed.contains(net));
    let text = |nets: &[IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if alike {
        return Ok(());
    }
    Err(format!(
        "the line of this member ({name}) has the subnets {}, and it serves {} (`addresses` and `subnets`): others take from it what its line says; make them alike",
        text(listed),
        text(serves)
    ))
}

/// Networks, each once, without the bits of a host.
pub(super) fn distinct(nets: impl IntoIterator<Item = IpNet>) -> Vec<IpNet> {
    let mut seen = BTreeSet::new();
    nets.into_iter().map(|net| net.trunc()).filter(|net| seen.insert(*net)).collect()
}

/// The members that lines as `overlay init` prints them tell of.
///
/// # Errors
/// They are no TOML, have unknown keys, a key that is none, or a name that nobody can be called by.
pub fn member_lines(text: &str) -> Result<Vec<MemberSettings>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lines {
        member: Vec<FileMember>,
    }
    let lines: Lines = toml::from_str(text).map_err(|e| e.to_string())?;
    let read = |m: FileMember| {
        let (key, name) = key_and_name(&m)?;
        Ok(MemberSettings { name, key, endpoint: None, subnets: distinct(m.subnets), direct: m.direct })
    };
    lines.member.into_iter().map(read).collect()
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
    fn a_name_is_a_word_that_a_terminal_can_show() {
        let longest = "a".repeat(LONGEST_NAME);
        for name in ["west", "b\u{fc}ro_1", "west.example.net", "\"", &longest] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in ["", "a b", "a\nb", "a\u{1b}[31m", "a\u{7f}", "a\u{a0}b", &long] {
            let said = check_name(name).unwrap_err();
            assert!(said.contains("1 to 63 bytes") && !said.contains(char::is_control), "{said}");
        }
    }

    #[test]
    fn who_is_listed_twice_is_told_by_both_names() {
        let own = Identity::from_seed(&[1; 32]).public().member();
        let refused = others(vec![line("east", 2), line("orient", 2)], (own, &[])).unwrap_err();
        assert!(refused.contains("east and orient have the same key"), "{refused}");
    }
}
