//! Events as one readable line each: for the log, `overlay events` and the status page.

use core::fmt::Display;

use route::{Decision, Judged, Member, Path, Reason};

use crate::mesh::Event;

/// The line of an event, with peers called as `name` says. The time is not in it.
pub(crate) fn text(event: &Event, name: &impl Fn(Member) -> String) -> String {
    match event {
        Event::Session { name, again, .. } => {
            format!("{} {name}", if *again { "rekeyed the session with" } else { "session established with" })
        }
        Event::Link { name, up, .. } => format!("link to {name} {}", if *up { "up" } else { "down" }),
        Event::LinkSuspected { from, to, why } => format!("advertised link {from} -> {to} suspected: {why}"),
        Event::Route(decision) => route(decision, name),
        Event::Joined { name, .. } => format!("{name} joined"),
        Event::Left { name, .. } => format!("{name} left"),
        Event::Unresolved { name, endpoint, why, .. } => {
            format!("cannot resolve {endpoint}, endpoint of {name}: {why}")
        }
        Event::PeerRejected { from, why } => format!("peer rejected: {from}: {why}"),
        Event::CertificateEnds { in_s: 0 } => "the certificate of this node has expired".to_owned(),
        Event::CertificateEnds { in_s } => {
            format!("the certificate of this node expires in {:.1} h", *in_s as f64 / 3600.0)
        }
        Event::ClockSet { by_s } => {
            format!("the system clock was set by {by_s:+} s; all certificates are checked again")
        }
        Event::Stalled { for_s } => format!("this node was stalled for {for_s:.2} s; peers may have declared it down"),
        Event::DuplicateIdentity => {
            "another host uses the key of this node; create a key of its own with `overlay init`".to_owned()
        }
        Event::RoutesRestored(restored) => {
            format!(
                "restored addresses and routes: {}",
                list(
                    restored
                        .addresses
                        .iter()
                        .map(ToString::to_string)
                        .chain(restored.routes.iter().map(ToString::to_string))
                )
            )
        }
        Event::RoutesMissing { device_up: false, .. } => {
            "the tunnel device is down; packets for peers are refused".to_owned()
        }
        Event::RoutesMissing { addresses, routes, .. } if addresses.is_empty() && routes.is_empty() => {
            "all addresses and routes of the overlay are in place".to_owned()
        }
        Event::RoutesMissing { addresses, routes, .. } => {
            let missing = addresses.iter().map(ToString::to_string).chain(routes.iter().map(ToString::to_string));
            format!("missing addresses and routes, whose packets are refused: {}", list(missing))
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

fn list(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

/// `route to east: direct -> via north, predicted 20.1 Mb/s -> 94.3 Mb/s (degraded)`
fn route(decision: &Decision, name: &impl Fn(Member) -> String) -> String {
    let inputs = &decision.inputs;
    let path = |path: Option<Path>| path.map_or_else(|| "none".to_owned(), |p| via(&p, name));
    let rank = if decision.place > 0 { format!(" [{}]", decision.place) } else { String::new() };
    let mut text =
        format!("route to {}{rank}: {} -> {}", name(decision.destination), path(decision.from), path(decision.to));
    // Without a capacity the predicted rate is the policy's assumption.
    let known = |judged: Option<Judged>| judged.filter(|j| j.metrics.capacity.is_some()).map(|j| j.predicted);
    text += &match (known(inputs.from), known(inputs.to)) {
        (Some(from), Some(to)) => format!(", predicted {from} -> {to}"),
        (None, Some(to)) => format!(", predicted {to}"),
        (_, None) => String::new(),
    };
    let loss =
        inputs.from.filter(|_| matches!(decision.reason, Reason::Degraded | Reason::Better)).map(|j| j.metrics.loss);
    let why: &dyn Display = &decision.reason;
    text + &match loss.filter(|loss| *loss > 0.0) {
        Some(loss) => format!(" ({why}: loss {:.1} %)", loss * 100.0),
        None => format!(" ({why})"),
    }
}

fn via(path: &Path, name: &impl Fn(Member) -> String) -> String {
    let relays: Vec<String> = path.relays().iter().map(|relay| name(*relay)).collect();
    if relays.is_empty() { "direct".to_owned() } else { format!("via {}", relays.join(", ")) }
}

#[cfg(test)]
mod tests {
    use route::{Inputs, Metrics};
    use units::{Instant, Rate};

    use super::*;

    fn name(member: Member) -> String {
        ["west", "north", "east"][usize::try_from(member.0).unwrap_or(0).min(2)].to_owned()
    }

    fn judged(loss: f64, capacity: Option<Rate>, predicted: u64) -> Judged {
        let metrics = Metrics::exact(capacity, std::time::Duration::from_millis(20), loss);
        Judged { metrics, predicted: Rate::from_bps(predicted), worth: [Rate::ZERO; 3] }
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
        assert_eq!(text(&Event::Route(Box::new(initial)), &name), "route to east [1]: none -> via north (initial)");
    }

    #[test]
    fn events_are_readable_without_a_manual() {
        let clock = text(&Event::ClockSet { by_s: 3600 }, &name);
        assert_eq!(clock, "the system clock was set by +3600 s; all certificates are checked again");
        let down = Event::RoutesMissing { device_up: false, addresses: Vec::new(), routes: Vec::new() };
        assert_eq!(text(&down, &name), "the tunnel device is down; packets for peers are refused");
    }
}
