use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Member;

/// Most relays of a path. RON found that one intermediate node suffices in most cases (Andersen et al., SOSP 2001, abstract); three allow for
/// members that reach each other only by two others, and bound the header of a source route.
pub const MAX_RELAYS: usize = 3;

/// A way through the overlay to a destination: the members that relay, in order. Where it begins is known from the context.
///
/// Shorter paths sort before longer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Path {
    count: u8,
    /// Those beyond `count` are zero, so that equal paths are equal values.
    relays: [Member; MAX_RELAYS],
    destination: Member,
}

impl Path {
    /// The path without relays.
    pub const fn direct(destination: Member) -> Self {
        Self { count: 0, relays: [Member(0); MAX_RELAYS], destination }
    }

    /// A path by way of `relays`. `None`: more than [`MAX_RELAYS`], or a member is there twice.
    pub fn via(relays: &[Member], destination: Member) -> Option<Self> {
        let is_repeated = |(i, m): (usize, &Member)| *m == destination || relays[..i].contains(m);
        if relays.len() > MAX_RELAYS || relays.iter().enumerate().any(is_repeated) {
            return None;
        }
        let mut path = Self::direct(destination);
        path.relays[..relays.len()].copy_from_slice(relays);
        path.count = relays.len() as u8;
        Some(path)
    }

    /// The members that relay, the first one first.
    pub fn relays(&self) -> &[Member] {
        &self.relays[..usize::from(self.count)]
    }

    /// Where it ends.
    pub const fn destination(&self) -> Member {
        self.destination
    }

    /// The member that `source` sends to: the first relay, or the destination.
    pub fn first_hop(&self) -> Member {
        self.relays().first().copied().unwrap_or(self.destination)
    }

    /// The directed links of this path from `source`, in order.
    pub fn links(&self, source: Member) -> impl Iterator<Item = (Member, Member)> + Clone + '_ {
        let from = core::iter::once(source).chain(self.relays().iter().copied());
        from.zip(self.relays().iter().copied().chain(core::iter::once(self.destination)))
    }

    /// The members as bytes.
    pub(crate) fn bytes(&self) -> [u8; 4 * (MAX_RELAYS + 1)] {
        let mut bytes = [0; 4 * (MAX_RELAYS + 1)];
        for (to, member) in bytes.chunks_exact_mut(4).zip(self.relays().iter().chain([&self.destination])) {
            to.copy_from_slice(&member.0.to_le_bytes());
        }
        bytes
    }

    /// Whether both, from the same source to the same destination, have neither a relay nor a link in common.
    ///
    /// A link in common without a relay in common is only that of two direct paths.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.count + other.count > 0 && !self.relays().iter().any(|m| other.relays().contains(m))
    }
}

impl Path {
    /// `direct`, or `via west, north`, with members called as `name` says.
    pub(crate) fn show<N: fmt::Display>(&self, f: &mut fmt::Formatter<'_>, name: &impl Fn(Member) -> N) -> fmt::Result {
        let Some((first, others)) = self.relays().split_first() else { return f.write_str("direct") };
        write!(f, "via {}", name(*first))?;
        others.iter().try_for_each(|m| write!(f, ", {}", name(*m)))
    }
}

impl fmt::Display for Path {
    /// `direct`, or `via 0000002a, 0000002b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, &|member| member)
    }
}

/// As it is written: only the relays that there are.
#[derive(Serialize, Deserialize)]
struct Record {
    relays: Vec<Member>,
    destination: Member,
}

impl From<Path> for Record {
    fn from(path: Path) -> Self {
        Self { relays: path.relays().to_vec(), destination: path.destination }
    }
}

impl TryFrom<Record> for Path {
    type Error = String;
    fn try_from(record: Record) -> Result<Self, String> {
        let Record { relays, destination } = record;
        Self::via(&relays, destination).ok_or_else(|| format!("more than {MAX_RELAYS} relays, or one of them twice"))
    }
}

#[cfg(test)]
mod tests;
