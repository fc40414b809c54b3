use super::fenwick::Fenwick;

/// A query point or a data point with a first, a second and a third coordinate. A query counts the data points that it
/// exceeds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) third: Third,
}

/// The third coordinate.
#[derive(Debug, Clone, Copy)]
pub(super) enum Third {
    /// Minimum rank that a query counts.
    From(usize),
    /// Rank of a data point.
    Rank(usize),
}

/// Counts the pairs of a query point and a data point of which the first and second coordinates are smaller than those
/// of the query, and whose rank is not below the query's minimum. Ranks are below `ranks`.
///
/// The points are divided along the first coordinate and counted across: `n log^2 n`.
pub(super) fn count(mut points: Vec<Point>, ranks: usize) -> u64 {
    // Of equal first coordinates the query comes first, because the data point is not smaller.
    points.sort_unstable_by_key(|p| (p.first, matches!(p.third, Third::Rank(_))));
    divide(&mut points, &mut Fenwick::new(ranks))
}

/// Counts, and leaves the points in the order of the second coordinate. The depth is the logarithm of their number.
fn divide(points: &mut [Point], seen: &mut Fenwick) -> u64 {
    if points.len() < 2 {
        return 0;
    }
    let (left, right) = points.split_at_mut(points.len() / 2);
    let within = divide(left, seen) + divide(right, seen);
    let across = across(left, right, seen);
    // Two sorted runs, which the stable sort only merges.
    points.sort_by_key(|p| p.second);
    within + across
}

fn across(left: &[Point], right: &[Point], seen: &mut Fenwick) -> u64 {
    let data = left.iter().filter_map(|p| if let Third::Rank(rank) = p.third { Some((p.second, rank)) } else { None });
    let mut rest = data.clone().peekable();
    let (mut count, mut added) = (0, 0);
    for point in right {
        let Third::From(bound) = point.third else { continue };
        while let Some((_, rank)) = rest.next_if(|(second, _)| *second < point.second) {
            seen.add(rank, 1);
            added += 1;
        }
        count += added - seen.below(bound);
    }
    for (_, rank) in data.take(added as usize) {
        seen.remove(rank, 1);
    }
    count
}
