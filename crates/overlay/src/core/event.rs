//! Events of a member, for people and programs.

use std::net::IpAddr;

use route::Member;
use serde::Serialize;

use crate::host_routes::{OtherRoute, Restored};

/// See the module.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A session with a peer started; `again`: it replaces another one.
    Session { member: Member, name: String, again: bool },
    /// The direct link to a peer went up or down.
    Link { member: Member, name: String, up: bool },
    /// Own frames contradict the advertisement of a link.
    LinkSuspected { from: String, to: String, why: String },
    /// A route was chosen.
    Route(Box<route::Decision>),
    /// A host became a member, by a certificate or by settings that were read again.
    Joined { member: Member, name: String },
    /// A member left: by its own message, by the end of its certificate, or by settings that were read again.
    Left { member: Member, name: String },
    /// The lookup of the host name of a peer failed; it is repeated, and reported again for another reason.
    Unresolved { member: Member, name: String, endpoint: String, why: String },
    /// A host was not admitted, or does not admit this member.
    PeerRejected { from: String, why: String },
    /// Time until the own certificate ends, seconds; 0: it has ended.
    CertificateEnds { in_s: u64 },
    /// The wall clock of the host was set, forward if positive: all certificates were checked again.
    ClockSet { by_s: i64 },
    /// The member was stalled, because its host was busy or suspended. Peers may have taken it to be down.
    Stalled { for_s: f64 },
    /// Another host runs with the key of this member, and each takes the other's packets. `overlay init` makes another
    /// key.
    DuplicateIdentity,
    /// Addresses or routes of the overlay had been removed from the host, and were added again. Reported once a second
    /// at most.
    RoutesRestored(Restored),
    /// The tunnel lacks these on the host now: packets for these routes, or all of them while the device is down, are
    /// refused. All empty with the device up: the tunnel is complete again.
    RoutesMissing { device_up: bool, addresses: Vec<IpAddr>, routes: Vec<ipnet::IpNet> },
    /// Subnets of peers to which other routes of the host take precedence; none: no longer any.
    RoutesOverridden { routes: Vec<OtherRoute> },
}
