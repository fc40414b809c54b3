//! Number and kind of trains, as of 2002 and in the modern form.

use units::Duration;

use super::Path;

/// Minimum time that a host of 2002 needed to receive a packet. Pathrate 2.4.1 measures it over its own loopback.
/// Kernel timestamps need no such time, and packets closer than this arrived together (see [`super::ArrivalCurve`]).
pub(super) const RECEIVE_NS: u64 = 1_000;

/// Minimum plausible dispersion: three times the time to receive a packet (2.4.1).
pub(super) const DISPERSION_NS_MIN: u64 = 3 * RECEIVE_NS;

/// Minimum packet size of the pairs, in bytes of IP: 572 bytes of payload (2.4.1). Smaller ones are hard to
/// distinguish.
pub(super) const PAIR_BYTES_MIN: u32 = 572 + super::UDP_HEADERS;

/// Bytes by which packets grow if too many pairs are implausible (2.4.1).
pub(super) const PAIR_BYTES_STEP: u32 = 275;

/// Maximum ratio of standard deviation to mean of values that agree (2.4.1).
pub(super) const AGREEMENT_DEVIATION_MAX: f64 = 0.05;

/// Minimum rate of long trains, as a share of the mean rate of the pairs, on a path without significant load. 2.4.1
/// uses a mean without stating of which values; pairs are delayed least by load.
pub(super) const UNLOADED_SHARE_MIN: f64 = 0.9;

/// Maximum ratio of standard deviation to mean of long trains under even load or none: random load of a fiftieth of the
/// link varies by more (`sqrt(40 / 50) / 40`, 2.2 %).
pub(super) const EVEN_LOAD_DEVIATION_MAX: f64 = 0.015;

/// Minimum share of pairs that even load of up to half the link's rate leaves unchanged; it slows trains down to two
/// thirds at most. A mode of fewer pairs beside trains that such load explains comes from inaccurate timestamps.
pub(super) const UNCHANGED_SHARE_MIN: f64 = 0.5;

/// Parameters of one form of the method.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// Longest packet in bytes of IP.
    pub(super) largest: u32,
    /// Whether the search for the longest train starts with short ones, rather than halving the length after losses.
    pub(super) rising: bool,
    /// Maximum train length in packets.
    pub(super) longest: u32,
    /// Long trains that test whether the receiver takes packets in batches.
    pub(super) receiver_tests: u32,
    /// Whether the arrival curve, rather than short gaps, detects batches and token buckets.
    pub(super) by_curve: bool,
    /// Maximum length of the preliminary trains, and their number per length from 2 on.
    pub(super) preliminary: (u32, u32),
    /// Preliminary values that are ignored at each end.
    pub(super) trim_preliminary: usize,
    /// Number of pair sizes in phase I.
    pub(super) sizes: u32,
    /// Pairs of each size.
    pub(super) pairs: u32,
    /// Maximum number of implausible pairs per size before longer trains are tried.
    pub(super) implausible_max: u32,
    /// A mode of phase I has more values than this.
    pub(super) mode: usize,
    /// Trains of phase II.
    pub(super) trains: u32,
    /// Values of phase II that are ignored at each end.
    pub(super) trim_trains: usize,
    /// A mode of phase II has more values than this; `None`: there are too few values for modes.
    pub(super) mode_of_trains: Option<usize>,
    /// Maximum ratio of a mode to the rate of long trains at which the mode can be the capacity.
    pub(super) mode_ratio_max: f64,
    /// Minimum width of a bin as a share of the mean of the values.
    pub(super) width_share_min: f64,
    /// Trains to a receiver that takes packets in batches.
    pub(super) batched_trains: u32,
}

/// Pathrate 2.4.1: 63 preliminary trains, 1000 pairs, 500 trains; up to 42 MB in a quarter of an hour.
pub(super) static FAITHFUL: Plan = Plan {
    largest: 65_535,
    rising: true,
    longest: 50,
    receiver_tests: 1,
    by_curve: false,
    preliminary: (10, 7),
    trim_preliminary: 5,
    sizes: 40,
    pairs: 25,
    implausible_max: 6,
    mode: 15,
    trains: 500,
    trim_trains: 10,
    mode_of_trains: Some(15),
    mode_ratio_max: f64::INFINITY,
    width_share_min: 0.0,
    batched_trains: 10,
};

/// At most 1 MB in packets of 1500 bytes: 3 long trains (185 kB), 21 short (189 kB), 100 pairs (315 kB), 5 long (308
/// kB).
pub(super) static MODERN: Plan = Plan {
    // A jumbo frame measures a link no better than a packet of 1500 bytes, and costs six of them.
    largest: 1500,
    rising: false,
    // With 40 gaps, one packet of cross traffic changes a train by 2.5 % at most, and a bucket of about 30 packets runs
    // empty.
    longest: 40,
    // Together with the train that determined the length: two of three must agree.
    receiver_tests: 2,
    by_curve: true,
    preliminary: (8, 3),
    // 5 of 63 are 8 %, 2 of 21 are 10 %.
    trim_preliminary: 2,
    // As many sizes as the original has pairs per size: different sizes blur the modes of cross traffic.
    sizes: 25,
    pairs: 4,
    // 6 of 25 is one of 4.
    implausible_max: 1,
    // An even spread over the eight bins of the middle 80 % has ten values in each.
    mode: 5,
    // Eight long trains, including those that tested for batches and buckets.
    trains: 5,
    trim_trains: 1,
    mode_of_trains: None,
    // Trains enter a link of capacity C at C or more, and leave it at C/2 or more if its load is below C. A quarter is
    // added for chance. A mode above that comes from pairs compressed in a queue behind the narrow link, or from
    // several fully loaded links of that capacity.
    mode_ratio_max: 2.5,
    // Timestamps that are 1 us off are 1 % of the gap of a pair at 100 Mb/s.
    width_share_min: 0.02,
    batched_trains: 5,
};

impl Plan {
    /// Time without packets before a train; `last` is the duration of the previous train at the receiver.
    pub(super) fn pause(&self, path: &Path, last: Duration, long: bool) -> Duration {
        if self.rising {
            // 2.4.1: max(500 ms, 1.25 round trips), doubled in phase II.
            let spacing = self.spacing(path);
            return if long { spacing.saturating_mul(2) } else { spacing };
        }
        // The queue that the train built drains, and a token bucket refills, in the duration of the train.
        let settled = last.saturating_mul(2).min(Duration::from_secs(1));
        settled.max(path.round_trip / 4).max(Duration::from_millis(10))
    }

    /// Maximum duration of a train at the receiver.
    pub(super) fn spacing(&self, path: &Path) -> Duration {
        (path.round_trip.saturating_mul(5) / 4).max(Duration::from_millis(500))
    }

    /// Size of the largest packets that the method sends on this path.
    pub(super) fn bytes(&self, path: &Path) -> u32 {
        path.mtu.min(self.largest).max(super::UDP_HEADERS + 1)
    }
}
