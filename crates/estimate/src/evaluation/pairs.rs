use std::collections::BTreeMap;

use super::Measurement;

/// The pairs of measurements that count: sums and differences of "all pairs within a group", so that no pair is ever
/// listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs {
    pub(super) parts: Vec<Part>,
}

/// All pairs within a group, added or subtracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// 1 or -1.
    pub(super) sign: i128,
    /// Indices in the list of measurements.
    pub(super) members: Vec<usize>,
}

impl Pairs {
    /// Every pair (Tables 5.1, 5.7, 5.8).
    pub fn all<E>(measurements: &[Measurement<E>]) -> Self {
        Self::of([(1, places(measurements, |_| true))])
    }

    /// Pairs with a common sender or a common receiver (Table 5.3), repeated measurements of one path among them.
    pub fn common_endpoint<E: Ord>(measurements: &[Measurement<E>]) -> Self {
        // Pairs with the same sender, and those with the same receiver; pairs with both were counted twice.
        let groups = groups(measurements, |m| &m.from).map(|g| (1, g));
        let groups = groups.chain(self::groups(measurements, |m| &m.to).map(|g| (1, g)));
        Self::of(groups.chain(self::groups(measurements, |m| (&m.from, &m.to)).map(|g| (-1, g))))
    }

    /// Pairs of which both are of a kind (Tables 5.4, 5.5).
    pub fn both<E>(measurements: &[Measurement<E>], kind: impl Fn(&Measurement<E>) -> bool) -> Self {
        Self::of([(1, places(measurements, kind))])
    }

    /// Pairs of which at least one is of a kind: that saw losses, for example (the rows *RON lossonly*).
    pub fn either<E>(measurements: &[Measurement<E>], kind: impl Fn(&Measurement<E>) -> bool) -> Self {
        Self::of([(1, places(measurements, |_| true)), (-1, places(measurements, |m| !kind(m)))])
    }

    /// Pairs of which exactly one is of a kind (Table 5.6).
    pub fn mixed<E>(measurements: &[Measurement<E>], kind: impl Fn(&Measurement<E>) -> bool) -> Self {
        let of_kind = places(measurements, &kind);
        Self::of([(1, places(measurements, |_| true)), (-1, of_kind), (-1, places(measurements, |m| !kind(m)))])
    }

    fn of(parts: impl IntoIterator<Item = (i128, Vec<usize>)>) -> Self {
        // A single measurement has no pair.
        let parts = parts.into_iter().filter(|(_, members)| members.len() > 1);
        Self { parts: parts.map(|(sign, members)| Part { sign, members }).collect() }
    }
}

fn places<E>(measurements: &[Measurement<E>], kind: impl Fn(&Measurement<E>) -> bool) -> Vec<usize> {
    measurements.iter().enumerate().filter(|(_, m)| kind(m)).map(|(i, _)| i).collect()
}

fn groups<'a, E, K: Ord>(
    measurements: &'a [Measurement<E>],
    key: impl Fn(&'a Measurement<E>) -> K,
) -> impl Iterator<Item = Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (i, m) in measurements.iter().enumerate() {
        groups.entry(key(m)).or_default().push(i);
    }
    groups.into_values()
}
