//! Properties of the path between two nodes for the models.

use std::time::Duration;

use estimate::model::PathParameters;
use link::Capacity;
use scenario::{Overlay, PathSegment, Scenario};
use units::{Bytes, Rate};

/// IP and TCP headers with timestamps (RFC 7323 appendix A).
pub(crate) const HEADER_BYTES: u32 = 52;

/// Maximum number of links of a path over the overlay: three relays.
const LINKS_MAX: usize = 4;

/// Sum of the propagation delays of the shortest path over the overlay's links, which may be fewer than those of the
/// network.
pub(crate) fn overlay_delay(scenario: &Scenario, overlay: &Overlay, from: usize, to: usize) -> Option<Duration> {
    let mut known = vec![(from, Duration::ZERO)];
    for _ in 0..LINKS_MAX {
        let onward = |next: usize| {
            let linked = known.iter().filter(|(member, _)| overlay.is_linked(*member, next));
            let delays = linked.filter_map(|(member, delay)| Some(*delay + scenario.path_delay(*member, next)?));
            let stayed = known.iter().filter(|(member, _)| *member == next).map(|(_, delay)| *delay);
            delays.chain(stayed).min().map(|delay| (next, delay))
        };
        known = overlay.members.iter().filter_map(|m| onward(*m)).collect();
    }
    known.into_iter().find(|(member, _)| *member == to).map(|(_, delay)| delay)
}

/// Properties of the path at the start of the run; `None` if there is no route, or if a link on the path follows a
/// trace.
pub(crate) fn path_parameters(scenario: &Scenario, from: usize, to: usize) -> Option<PathParameters> {
    let segments = scenario.path_segments(from, to)?;
    let mtu = segments.iter().map(|s| s.mtu).min()?;
    let mut slowest: Option<(Bytes, Rate)> = None;
    for segment in &segments {
        let rate = match &segment.settings.capacity {
            Capacity::Constant(rate) => *rate,
            Capacity::Unlimited => continue,
            Capacity::Trace(_) => return None,
        };
        let here = (wire(segment, mtu), rate);
        if slowest.is_none_or(|known| seconds(here) > seconds(known)) {
            slowest = Some(here);
        }
    }
    Some(PathParameters {
        mss: Bytes::new(u64::from(mtu.saturating_sub(HEADER_BYTES))),
        wire: slowest.map_or(Bytes::ZERO, |(wire, _)| wire),
        round_trip: scenario.path_delay(from, to)? + scenario.path_delay(to, from)?,
        rate: slowest.map(|(_, rate)| rate),
    })
}

fn wire(segment: &PathSegment<'_>, mtu: u32) -> Bytes {
    Bytes::new(u64::from(segment.settings.overhead.wire(mtu)))
}

/// Transmission time in seconds of a full-size packet.
fn seconds((wire, rate): (Bytes, Rate)) -> f64 {
    wire.as_u64() as f64 * 8.0 / rate.as_bps() as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Scenario {
        let read = scenario::read(Path::new("x.toml"), text, &scenario::Options::default(), &|_| Err(String::new()));
        read.unwrap_or_else(|e| panic!("{e}")).scenarios.remove(0)
    }

    #[test]
    fn the_path_over_an_overlay_is_the_shortest_over_its_links() {
        let network = "duration = \"1s\"\nnodes = [\"a\", \"b\", \"c\"]\n[links.straight]\nbetween = [\"a\", \"c\"]\ndelay = \"150ms\"\n\
                       [links.one]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n[links.two]\nbetween = [\"b\", \"c\"]\ndelay = \"270ms\"\n";
        let delay = |links: &str| {
            let overlay = format!("[overlay]\nmembers = [\"a\", \"b\", \"c\"]\n{links}");
            let scenario = read(&format!("{network}{overlay}"));
            overlay_delay(&scenario, scenario.overlay.as_ref().unwrap(), 0, 2).map(|d| d.as_millis())
        };
        assert_eq!(delay(""), Some(150));
        assert_eq!(delay("links = [[\"a\", \"b\"], [\"b\", \"c\"]]\n"), Some(271));
        assert_eq!(delay("links = [[\"a\", \"b\"]]\n"), None);
    }

    #[test]
    fn a_path_has_the_smallest_mtu_and_the_slowest_link_of_its_direction() {
        let text = "duration = \"1s\"\nnodes = [\"a\", \"b\", \"c\"]\n[links.one]\nbetween = [\"a\", \"b\"]\nrate = \"10Mb/s\"\nmtu = 9000\n\
                    delay = \"30ms\"\nbackward.rate = \"1Mb/s\"\n[links.two]\nbetween = [\"b\", \"c\"]\nrate = \"9Mb/s\"\noverhead = \"ip\"\n";
        let scenario = read(text);
        // 1500 B at 9 Mb/s are slower than 1538 B at 10 Mb/s.
        let forward = path_parameters(&scenario, 0, 2).unwrap();
        assert_eq!((forward.mss, forward.wire), (Bytes::new(1448), Bytes::new(1500)));
        assert_eq!((forward.rate, forward.round_trip), (Some(Rate::from_bps(9_000_000)), Duration::from_millis(60)));
        let back = path_parameters(&scenario, 2, 0).unwrap();
        assert_eq!((back.wire, back.rate), (Bytes::new(1538), Some(Rate::from_bps(1_000_000))));
    }
}
