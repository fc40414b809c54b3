//! Texts of events, one line each, for the log, `overlay events` and the status page.

use std::net::IpAddr;

use ipnet::IpNet;
use route::Member;

use crate::core::Event;

/// Text of an event without its time. `name`: display name of a member.
pub(crate) fn text(event: &Event, name: &impl Fn(Member) -> String) -> String {
    match event {
        Event::Session { name, again, .. } => {
            format!("{} {name}", if *again { "rekeyed the session with" } else { "session established with" })
        }
        Event::Link { name, up, .. } => format!("link to {name} {}", if *up { "up" } else { "down" }),
        Event::LinkSuspected { from, to, why } => format!("advertised link {from} -> {to} suspected: {why}"),
        Event::Route(decision) => format!("route to {}", decision.with_names(name)),
        Event::Joined { name, .. } => format!("{name} joined"),
        Event::Left { name, .. } => format!("{name} left"),
        Event::Unresolved { name, endpoint, why, .. } => {
            format!("cannot resolve {endpoint}, endpoint of {name}: {why}")
        }
        Event::PeerRejected { from, why } => format!("peer rejected: {from}: {why}"),
        Event::CertificateEnds { in_s: 0 } => "the certificate of this member has expired".to_owned(),
        Event::CertificateEnds { in_s } => {
            format!("the certificate of this member expires in {:.1} h", *in_s as f64 / 3600.0)
        }
        Event::ClockSet { by_s } => {
            format!("the system clock was set by {by_s:+} s; all certificates are checked again")
        }
        Event::Stalled { for_s } => {
            format!("this member was stalled for {for_s:.2} s; peers may have declared it down")
        }
        Event::DuplicateIdentity => {
            "another host uses the key of this member; create a key of its own with `overlay init`".to_owned()
        }
        Event::RoutesRestored(restored) => {
            format!("restored addresses and routes: {}", both(&restored.addresses, &restored.routes))
        }
        Event::RoutesMissing { device_up: false, .. } => {
            "the tunnel device is down; packets for peers are rejected".to_owned()
        }
        Event::RoutesMissing { addresses, routes, .. } if addresses.is_empty() && routes.is_empty() => {
            "all addresses and routes of the overlay are in place".to_owned()
        }
        Event::RoutesMissing { addresses, routes, .. } => {
            format!("missing addresses and routes, whose packets are rejected: {}", both(addresses, routes))
        }
        Event::RoutesOverridden { routes } if routes.is_empty() => {
            "no route of the overlay is overridden any more".to_owned()
        }
        Event::RoutesOverridden { routes } => {
            let each = |r: &crate::host_routes::OtherRoute| {
                format!("{} ({})", r.subnet, r.device.as_deref().unwrap_or("several devices"))
            };
            format!("routes of this host override the overlay's: {}", list(routes.iter().map(each)))
        }
    }
}

/// A list of addresses, then routes.
fn both<'a>(addresses: &[IpAddr], routes: impl IntoIterator<Item = &'a IpNet>) -> String {
    list(addresses.iter().map(ToString::to_string).chain(routes.into_iter().map(ToString::to_string)))
}

fn list(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use route::{Decision, Inputs, Judged, Metrics, Path, Reason};
    use units::{Instant, Rate};

    use super::*;

    fn name(member: Member) -> String {
        ["west", "north", "east"][usize::try_from(member.0).unwrap_or(0).min(2)].to_owned()
    }

    fn judged(loss: f64, capacity: Option<Rate>, predicted: u64) -> Judged {
        let metrics = Metrics::exact(capacity, std::time::Duration::from_millis(20), loss);
        Judged { metrics, predicted: Rate::from_bps(predicted), utility: [Rate::ZERO; 3] }
    }

    #[test]
    fn a_change_of_route_is_one_line_with_paths_rates_and_reason() {
        let link = Some(Rate::from_bps(100_000_000));
        let decision = Decision {
            at: Instant::ZERO,
            destination: Member(2),
            place: 0,
            from: Some(Path::direct(Member(2))),
            to: Path::via(&[Member(1)], Member(2)),
            reason: Reason::Degraded,
            inputs: Inputs {
                from: Some(judged(0.047, link, 20_100_000)),
                to: Some(judged(0.0, link, 94_300_000)),
                ..Inputs::default()
            },
        };
        assert_eq!(
            text(&Event::Route(Box::new(decision)), &name),
            "route to east: direct -> via north, predicted 20.10 Mb/s -> 94.30 Mb/s (degraded: loss 4.7 %)"
        );
        let initial = Decision {
            from: None,
            place: 1,
            reason: Reason::Initial,
            inputs: Inputs { to: Some(judged(0.0, None, 1)), ..Inputs::default() },
            ..decision
        };
        assert_eq!(text(&Event::Route(Box::new(initial)), &name), "route to east [1]: no path -> via north (initial)");
    }

    #[test]
    fn events_are_readable_without_a_manual() {
        let clock = text(&Event::ClockSet { by_s: 3600 }, &name);
        assert_eq!(clock, "the system clock was set by +3600 s; all certificates are checked again");
        let down = Event::RoutesMissing { device_up: false, addresses: Vec::new(), routes: Vec::new() };
        assert_eq!(text(&down, &name), "the tunnel device is down; packets for peers are rejected");
    }
}
