use crate::hash::share;
use crate::{Path, Weighted};

/// The path for a new flow of this hash, in proportion to the weights; `None` without paths.
///
/// Weighted rendezvous hashing by logarithms (Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005): each path
/// draws `-ln(u) / weight` from the flow's and its own hash, the least wins. When weights change, only flows move whose share has moved.
pub fn spread(paths: &[Weighted], hash: u64) -> Option<&Weighted> {
    spread_by(paths, hash, |w| (w.path, w.weight))
}

/// The same for whatever has a path and a weight. Without a weight above zero it is the first of them.
pub fn spread_by<T, F: Fn(&T) -> (Path, f64)>(items: &[T], hash: u64, of: F) -> Option<&T> {
    let [_, _, ..] = items else { return items.first() };
    let time = |item: &T| {
        let (path, weight) = of(item);
        // The flow's hash is secret already.
        let u = share([hash, path.relays().len() as u64], &path.bytes());
        if weight > 0.0 { -u.ln() / weight } else { f64::INFINITY }
    };
    // The first of equal ones.
    items.iter().map(|item| (time(item), item)).reduce(|a, b| if b.0 < a.0 { b } else { a }).map(|(_, item)| item)
}
