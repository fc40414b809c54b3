/// Maximum drift between two hosts: crystals of computers are specified to ±100 ppm, so two of them differ by up to
/// 200.
///
/// Without this limit two exchanges a few milliseconds apart would allow drifts of per cents, and the bound of a short
/// test would grow rapidly away from its data.
pub(super) const DRIFT_MAX: f64 = 200e-6;

/// Nanoseconds by which each constraint is relaxed: a reading of n ns stands for any time in [n, n + 1).
///
/// It also covers the rounding of the polygon's vertices, which is below 10^-3 ns for tests up to a day.
const RESOLUTION_NS: f64 = 1.0;

/// One line `theta(t) = offset + drift t`, in nanoseconds and as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    offset_ns: f64,
    drift: f64,
}

impl Line {
    fn at(self, t_ns: f64) -> f64 {
        self.offset_ns + self.drift * t_ns
    }
}

/// Constraint by an exchange: at one time the offset is on one side of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Constraint {
    /// `theta(t_ns) <= offset_ns`.
    AtMost { t_ns: f64, offset_ns: f64 },
    /// `theta(t_ns) >= offset_ns`.
    AtLeast { t_ns: f64, offset_ns: f64 },
}

impl Constraint {
    /// Distance of the line from the limit on the allowed side; negative if it violates the constraint.
    fn slack(self, line: Line) -> f64 {
        match self {
            Self::AtMost { t_ns, offset_ns } => offset_ns + RESOLUTION_NS - line.at(t_ns),
            Self::AtLeast { t_ns, offset_ns } => line.at(t_ns) - offset_ns + RESOLUTION_NS,
        }
    }
}

/// All lines that satisfy every constraint: a convex polygon in the plane of (offset, drift).
///
/// Each constraint is a half-plane there, so adding one is a clip.
#[derive(Debug, Clone)]
pub(super) struct Feasible {
    vertices: Vec<Line>,
}

/// Range of a quantity over all feasible lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    pub(super) fn middle(self) -> f64 {
        self.low + self.half_width()
    }

    /// The drift to report: zero while that is feasible, else the middle.
    ///
    /// Within a loaded test the range stays wide for long, because exchanges behind a queue carry little information.
    /// Its middle is then noise of tens of ppm, while the clocks of most hosts differ by a few.
    pub(super) fn value(self) -> f64 {
        if self.allows_none() { 0.0 } else { self.middle() }
    }

    /// Whether zero is in the range.
    pub(super) fn allows_none(self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    /// Maximum error of [`value`](Self::value).
    pub(super) fn error(self) -> f64 {
        (self.high - self.value()).max(self.value() - self.low)
    }

    pub(super) fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

impl Feasible {
    /// All lines that crystals allow with `|offset| <= offset_max_ns` at time zero.
    fn within(offset_max_ns: f64) -> Self {
        let corner = |offset_ns, drift| Line { offset_ns, drift };
        let vertices = vec![
            corner(-offset_max_ns, -DRIFT_MAX),
            corner(offset_max_ns, -DRIFT_MAX),
            corner(offset_max_ns, DRIFT_MAX),
            corner(-offset_max_ns, DRIFT_MAX),
        ];
        Self { vertices }
    }

    /// Offsets of the feasible lines without drift; `None` if there must be a drift.
    pub(super) fn offsets_without_drift(&self) -> Option<Range> {
        let following = self.vertices.iter().cycle().skip(1);
        let mut range: Option<Range> = None;
        for (from, to) in self.vertices.iter().zip(following) {
            let crossing = match (from.drift == 0.0, from.drift * to.drift < 0.0) {
                (true, _) => from.offset_ns,
                (false, true) => {
                    let share = from.drift / (from.drift - to.drift);
                    from.offset_ns + share * (to.offset_ns - from.offset_ns)
                }
                (false, false) => continue,
            };
            let (low, high) = range.map_or((crossing, crossing), |r| (r.low.min(crossing), r.high.max(crossing)));
            range = Some(Range { low, high });
        }
        range
    }

    /// The lines below all points of `upper` and above all points of `lower`; `None` without such a line.
    pub(super) fn between(
        offset_max_ns: f64,
        upper: impl Iterator<Item = (f64, f64)>,
        lower: impl Iterator<Item = (f64, f64)>,
    ) -> Option<Self> {
        let mut lines = Self::within(offset_max_ns);
        let upper = upper.map(|(t_ns, offset_ns)| Constraint::AtMost { t_ns, offset_ns });
        let lower = lower.map(|(t_ns, offset_ns)| Constraint::AtLeast { t_ns, offset_ns });
        upper.chain(lower).all(|constraint| lines.clip(constraint)).then_some(lines)
    }

    /// Applies a constraint; returns `false` without a change if no line satisfies it together with the others.
    fn clip(&mut self, constraint: Constraint) -> bool {
        let allowed = self.vertices.iter().filter(|v| constraint.slack(**v) >= 0.0).count();
        if allowed == 0 {
            return false;
        }
        if allowed == self.vertices.len() {
            return true;
        }
        self.vertices = self.clipped(constraint);
        true
    }

    /// Sutherland and Hodgman 1974, one clip edge.
    fn clipped(&self, constraint: Constraint) -> Vec<Line> {
        let mut result = Vec::with_capacity(self.vertices.len() + 1);
        let following = self.vertices.iter().cycle().skip(1);
        for (from, to) in self.vertices.iter().zip(following) {
            let (slack_from, slack_to) = (constraint.slack(*from), constraint.slack(*to));
            if slack_from >= 0.0 {
                result.push(*from);
            }
            if (slack_from >= 0.0) != (slack_to >= 0.0) {
                let share = slack_from / (slack_from - slack_to);
                result.push(Line {
                    offset_ns: from.offset_ns + share * (to.offset_ns - from.offset_ns),
                    drift: from.drift + share * (to.drift - from.drift),
                });
            }
        }
        result
    }

    /// Range of the offset at a time. A linear function over a polygon has its extremes at vertices.
    pub(super) fn offset_at(&self, t_ns: f64) -> Range {
        self.range(|line| line.at(t_ns))
    }

    /// Range of the drift.
    pub(super) fn drift(&self) -> Range {
        self.range(|line| line.drift)
    }

    fn range(&self, value: impl Fn(Line) -> f64) -> Range {
        let start = Range { low: f64::INFINITY, high: f64::NEG_INFINITY };
        self.vertices.iter().map(|v| value(*v)).fold(start, |r, x| Range { low: r.low.min(x), high: r.high.max(x) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_pairs_of_bounds_give_the_lines_between_them() {
        let mut f = Feasible::within(1e9);
        // Offset 0..=100 us at time 0 and 50..=150 us at 1 s: drift between (50-100) and (150-0) us per s.
        assert!(f.clip(Constraint::AtLeast { t_ns: 0.0, offset_ns: 0.0 }));
        assert!(f.clip(Constraint::AtMost { t_ns: 0.0, offset_ns: 100e3 }));
        assert!(f.clip(Constraint::AtLeast { t_ns: 1e9, offset_ns: 50e3 }));
        assert!(f.clip(Constraint::AtMost { t_ns: 1e9, offset_ns: 150e3 }));
        let drift = f.drift();
        assert!((drift.low * 1e6 + 50.0).abs() < 0.01 && (drift.high * 1e6 - 150.0).abs() < 0.01, "{drift:?}");
        let middle = f.offset_at(0.5e9);
        assert!((middle.low - 25e3).abs() < 3.0 && (middle.high - 125e3).abs() < 3.0, "{middle:?}");
        assert!(!f.clip(Constraint::AtLeast { t_ns: 0.5e9, offset_ns: 126e3 }), "contradicts the others");
        assert!((f.offset_at(0.5e9).high - middle.high).abs() < 1e-9, "a refused constraint changes nothing");
    }

    proptest! {
        #[test]
        fn the_polygon_agrees_with_trying_lines_one_by_one(
            truth in (-1e6_f64..1e6, -150e-6_f64..150e-6),
            points in prop::collection::vec((0.0_f64..60e9, 0.0_f64..1e6, any::<bool>()), 1..60),
        ) {
            let line = Line { offset_ns: truth.0, drift: truth.1 };
            let constraints: Vec<_> = points.iter().map(|(t_ns, distance, above)| if *above {
                Constraint::AtMost { t_ns: *t_ns, offset_ns: line.at(*t_ns) + distance }
            } else {
                Constraint::AtLeast { t_ns: *t_ns, offset_ns: line.at(*t_ns) - distance }
            }).collect();
            let mut f = Feasible::within(1e8);
            for c in &constraints { prop_assert!(f.clip(*c)); }
            // Sound: the truth is inside. Tight: every vertex satisfies every constraint.
            let (drift, offset) = (f.drift(), f.offset_at(30e9));
            prop_assert!(drift.low <= truth.1 && truth.1 <= drift.high);
            prop_assert!(offset.low <= line.at(30e9) && line.at(30e9) <= offset.high);
            for v in &f.vertices {
                for c in &constraints { prop_assert!(c.slack(*v) >= -1e-4, "{v:?} {c:?}"); }
            }
        }
    }
}
