//! The members that settings list.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use route::Member;
use serde::Deserialize;

use super::{FileMember, MemberSettings};
use crate::OverlayError;
use crate::identity::PublicKey;

/// The members of the file but this one, which serves these networks: where its own line says otherwise, so do the others' lists.
pub(super) fn others(
    listed: Vec<FileMember>,
    (own, serves): (Member, &[IpNet]),
) -> Result<BTreeMap<Member, MemberSettings>, String> {
    let mut members = BTreeMap::new();
    for m in listed {
        let key: PublicKey = m.key.parse().map_err(|e: OverlayError| e.to_string())?;
        let name = m.name.unwrap_or_else(|| key.member().to_string());
        let endpoint = m.endpoint.as_deref().map(str::parse).transpose();
        let endpoint = endpoint.map_err(|e: String| format!("the endpoint of {name}: {e}"))?;
        let number = key.member();
        if number == own {
            own_line(&name, &distinct(m.subnets), serves)?;
            continue;
        }
        let other = MemberSettings { name, key, endpoint, subnets: distinct(m.subnets), direct: m.direct };
        if let Some(before) = members.insert(number, other) {
            return Err(format!("members {} and another have the same key or number {number}", before.name));
        }
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = members.values().find(|m| !names.insert(m.name.as_str())) {
        return Err(format!("two members are called {}; give one of them another `name`", twice.name));
    }
    Ok(members)
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
/// They are no TOML, have unknown keys, or a key that is none.
pub fn member_lines(text: &str) -> Result<Vec<MemberSettings>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lines {
        member: Vec<FileMember>,
    }
    let lines: Lines = toml::from_str(text).map_err(|e| e.to_string())?;
    let read = |m: FileMember| {
        let key: PublicKey = m.key.parse().map_err(|e: OverlayError| e.to_string())?;
        let name = m.name.unwrap_or_else(|| key.member().to_string());
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
