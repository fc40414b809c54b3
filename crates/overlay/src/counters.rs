use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Declares counters that threads share, a snapshot of them, and their descriptions.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters of one thread, on cache lines of its own.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[doc = $doc])+ pub(crate) $name: AtomicU64,)+
        }

        /// Snapshot of [`Counters`], of one thread or the sum of several.
        #[derive(Debug, Clone, Copy, Default, Serialize)]
        pub(crate) struct Counts {
            $($(#[doc = $doc])+ pub(crate) $name: u64,)+
        }

        impl Counters {
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }

        impl std::ops::Add for Counts {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }
        }

        /// Description of the counter with this name.
        pub(crate) fn meaning(name: &str) -> &'static str {
            match name {
                $(stringify!($name) => concat!($($doc),+).trim_ascii_start(),)+
                _ => "",
            }
        }
    };
}

counters! {
    /// Inner packets from this host; a super-packet counts as one.
    packets_in,
    /// Bytes of the inner packets from this host.
    bytes_in,
    /// Inner packets to this host; a super-packet counts as one.
    packets_out,
    /// Bytes of the inner packets to this host.
    bytes_out,
    /// Sealed frames with packets of this host, without messages such as probes and reports.
    frames_sealed,
    /// Opened frames, with packets or messages.
    frames_opened,
    /// Frames forwarded for other members.
    frames_relayed,
    /// IP bytes of the frames forwarded for other members.
    bytes_relayed,
    /// Packets without a peer that has a matching subnet.
    no_member,
    /// Packets to a peer without a route.
    no_route,
    /// Packets larger than the path MTU that must not be fragmented.
    too_large,
    /// Datagrams of an unknown type, or damaged.
    malformed,
    /// Frames of an unknown or expired session.
    no_session,
    /// Frames with an invalid authentication tag.
    auth_failed,
    /// Duplicate frames.
    replayed,
    /// Frames older than the replay window.
    outside_replay_window,
    /// Packets with a source address outside the subnets of their sender.
    spoofed,
    /// Frames not relayed: relaying disabled, invalid source route, or unknown origin.
    relay_denied,
    /// Frames not relayed because they exceeded the setting `relay_rate`.
    relay_rate_limited,
    /// Handshake datagrams with an invalid MAC or without an initiation, and frames of unverified peers.
    handshake_unauthenticated,
    /// Handshake datagrams and messages dropped because their queue was full.
    control_queue_full,
    /// Gossip rounds and replies omitted because of the setting `gossip_rate`.
    gossip_rate_limited,
    /// Datagrams dropped because the receive buffer was full; they also count as loss of the link.
    rx_buffer_overflow,
    /// Gossip records that another host signed with the key of this member.
    duplicate_identity,
    /// Datagrams rejected by the network.
    tx_errors,
    /// Datagrams too large for the device or route of this host; path MTU discovery starts again.
    oversize,
    /// Packets rejected by the tunnel device, or not delivered by it.
    tun_errors,
    /// Packets with a congestion mark (ECN CE) that they cannot carry.
    ecn_ce_dropped,
    /// Periods without activity of the control thread after which peers may declare the member down.
    stalls,
    /// Addresses and routes of the overlay that another program removed and the member added again.
    routes_restored,
    /// Events not written to the event log.
    event_log_dropped,
}

/// Adds one to a counter.
pub(crate) fn bump(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds `by` to a counter.
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
