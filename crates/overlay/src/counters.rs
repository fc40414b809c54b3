use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Declares counters that threads share, and a copy of them for people.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What one thread counted: on cache lines of its own.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[doc = $doc])+ pub(crate) $name: AtomicU64,)+
        }

        /// A copy of [`Counters`] at one time, of one thread or of several together.
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

        /// What a counter counts, by its name.
        pub(crate) fn meaning(name: &str) -> &'static str {
            match name {
                $(stringify!($name) => concat!($($doc),+).trim_ascii_start(),)+
                _ => "",
            }
        }
    };
}

counters! {
    /// Inner packets that this host sent into the overlay; a super-packet counts as one.
    packets_in,
    /// Bytes of the inner packets that this host sent into the overlay.
    bytes_in,
    /// Inner packets handed to this host; a super-packet counts as one.
    packets_out,
    /// Bytes of the inner packets handed to this host.
    bytes_out,
    /// Frames with packets of this host that were sealed; messages, as probes and reports, are not counted.
    frames_sealed,
    /// Frames opened here, with packets or messages.
    frames_opened,
    /// Frames passed on for others.
    frames_relayed,
    /// IP bytes of the frames passed on for others.
    bytes_relayed,
    /// Packets for which there is no member.
    no_member,
    /// Packets for a member that cannot be reached.
    no_route,
    /// Packets larger than the way to their member takes, that must not be cut.
    too_large,
    /// Datagrams that are none of ours, or damaged.
    malformed,
    /// Frames of a session that is not or no longer known.
    no_session,
    /// Frames that are not authentic.
    auth_failed,
    /// Frames that came twice.
    replayed,
    /// Frames too late to tell whether they came twice.
    outside_replay_window,
    /// Packets from a source that is not their member's.
    spoofed,
    /// Frames that this member was to pass on and did not: no consent, a wrong way, no member's.
    relay_denied,
    /// Frames that were not passed on because their sender had nothing left of the setting `relay_rate`.
    relay_rate_limited,
    /// Datagrams of handshakes that nobody can have made who knows this member, or that answer no call.
    handshake_unauthenticated,
    /// Datagrams of handshakes and messages dropped because there were too many.
    control_queue_full,
    /// Rounds and answers of the gossip that were left out because what it may take (`gossip_rate`) was spent.
    gossip_rate_limited,
    /// Datagrams that came and found the socket full: they are lost in this host, though they count as lost on the link.
    rx_buffer_overflow,
    /// Words that another host said with the key of this member.
    duplicate_identity,
    /// Datagrams that the network did not take.
    tx_errors,
    /// Datagrams that this host's device or route did not take because they were too large; their size is looked for anew.
    oversize,
    /// Packets that the tunnel device did not take, or could not hand over.
    tun_errors,
    /// Packets dropped because they were marked on the way and cannot carry the mark.
    ecn_ce_dropped,
    /// Times that the controlling thread did nothing for so long that others may take the member to be gone.
    stalls,
    /// Addresses and routes of the overlay that something on this host removed, and that were added again.
    routes_restored,
    /// Events that could not be written to their file.
    event_log_dropped,
}

/// One more.
pub(crate) fn bump(counter: &AtomicU64) {
    add(counter, 1);
}

/// `by` more.
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
