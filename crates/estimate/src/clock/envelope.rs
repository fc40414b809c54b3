/// Maximum number of points. Queueing leaves a dozen (the corners of the smallest delays); only an attacker's exchanges
/// lie on so fine a curve.
const POINTS_MAX: usize = 128;

/// Maximum coordinate (36 years in ns): with it the cross product of two differences fits an i128.
pub(super) const COORDINATE_MAX: i64 = 1 << 60;

/// The lower convex envelope of points: a line is below all the points exactly if it is below these.
///
/// All values are whole numbers, so that exchanges with equal delays, whose points lie on one line, leave only the two
/// outer ones. Memory is bounded: beyond 128 points the one whose removal widens the bound least is removed. The
/// removal of a bound never invalidates the others.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelope {
    points: Vec<Point>,
}

/// A bound `y` on the offset at time `t`, both in ns and at most [`COORDINATE_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) t: i64,
    pub(super) y: i64,
}

/// Twice the area of the triangle; it is positive if `b` is below the line from `a` to `c` and thus a corner.
fn corner(a: Point, b: Point, c: Point) -> i128 {
    let d = |to: i64, from: i64| i128::from(to) - i128::from(from);
    d(b.t, a.t) * d(c.y, a.y) - d(c.t, a.t) * d(b.y, a.y)
}

impl Envelope {
    /// The corners in order of time.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Adds a point; `false` if the others imply it already.
    pub(super) fn insert(&mut self, p: Point) -> bool {
        let at = self.points.partition_point(|q| q.t < p.t);
        match self.points.get(at) {
            Some(same) if same.t == p.t && same.y <= p.y => return false,
            Some(same) if same.t == p.t => {
                self.points.remove(at);
            }
            Some(_) | None => {}
        }
        if !self.is_corner(at, p) {
            return false;
        }
        self.points.insert(at, p);
        self.drop_hidden(at);
        if self.points.len() > POINTS_MAX {
            self.remove_smallest_corner();
        }
        true
    }

    /// Whether `p` would be a corner between the points before and after position `at`.
    fn is_corner(&self, at: usize, p: Point) -> bool {
        let before = at.checked_sub(1).and_then(|i| self.points.get(i));
        match (before, self.points.get(at)) {
            (Some(a), Some(c)) => corner(*a, p, *c) > 0,
            _ => true,
        }
    }

    /// Removes the points on both sides that the new point at `at` hides.
    fn drop_hidden(&mut self, at: usize) {
        while self.is_hidden(at + 1) {
            self.points.remove(at + 1);
        }
        let mut before = at.checked_sub(1);
        while let Some(i) = before.filter(|i| self.is_hidden(*i)) {
            self.points.remove(i);
            before = i.checked_sub(1);
        }
    }

    /// Whether the point at `i` has neighbours and is no corner between them.
    fn is_hidden(&self, i: usize) -> bool {
        let three = i.checked_sub(1).and_then(|from| self.points.get(from..)?.first_chunk::<3>());
        three.is_some_and(|[a, b, c]| corner(*a, *b, *c) <= 0)
    }

    /// Removes the corner that protrudes least, never an outer point: the outer points confine the drift.
    fn remove_smallest_corner(&mut self) {
        let areas = self.points.array_windows::<3>().map(|[a, b, c]| corner(*a, *b, *c));
        if let Some((i, _)) = areas.enumerate().min_by_key(|(_, area)| *area) {
            self.points.remove(i + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn envelope(points: &[(i64, i64)]) -> Envelope {
        let mut e = Envelope::default();
        for (t, y) in points {
            e.insert(Point { t: *t, y: *y });
        }
        e
    }

    #[test]
    fn points_on_one_line_leave_the_two_outer_ones() {
        let line: Vec<_> = (0..10_000).map(|i| (i * 100_000_000, i * 2_300)).collect();
        assert_eq!(envelope(&line).points().len(), 2);
        let backwards: Vec<_> = line.iter().rev().copied().collect();
        assert_eq!(envelope(&backwards).points().len(), 2);
    }

    #[test]
    fn a_lower_point_hides_those_above_it() {
        let e = envelope(&[(0, 10), (10, 9), (20, 8), (30, 9), (40, 10), (20, 0), (0, 12), (40, 9)]);
        let corners: Vec<_> = e.points().iter().map(|p| (p.t, p.y)).collect();
        assert_eq!(corners, [(0, 10), (20, 0), (40, 9)]);
    }

    #[test]
    fn an_adversarial_curve_does_not_grow_memory() {
        let parabola: Vec<_> =
            (-20_000..20_000_i64).map(|i| (i * 7_919 % 20_011, (i * 7_919 % 20_011).pow(2))).collect();
        assert_eq!(envelope(&parabola).points().len(), POINTS_MAX);
        let far = COORDINATE_MAX;
        envelope(&[(-far, far), (0, -far), (far, far), (1, -far), (far - 1, -far), (-1, far)]);
    }

    proptest! {
        #[test]
        fn the_envelope_is_below_all_points_and_made_of_them(
            points in prop::collection::vec((-1000_i64..1000, -1000_i64..1000), 1..80),
        ) {
            let e = envelope(&points);
            let corners = e.points();
            prop_assert!(corners.array_windows::<3>().all(|[a, b, c]| corner(*a, *b, *c) > 0 && a.t < b.t && b.t < c.t));
            prop_assert!(corners.iter().all(|c| points.contains(&(c.t, c.y))));
            for (t, y) in points {
                let p = Point { t, y };
                prop_assert!(corners.iter().any(|c| c.t <= t) && corners.iter().any(|c| c.t >= t));
                for [a, c] in corners.array_windows::<2>() {
                    if a.t <= t && t <= c.t { prop_assert!(corner(*a, p, *c) <= 0); }
                }
            }
        }
    }
}
