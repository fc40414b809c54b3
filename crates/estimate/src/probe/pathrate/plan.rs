//! How many trains of which kind, as of 2002 and today.

use units::Duration;

use super::Path;

/// Shortest time that an end of 2002 needed to take a packet. Pathrate 2.4.1 measures it over its own loopback; stamps of
/// a kernel need no such time, and packets closer than this came together (see [`super::ArrivalCurve`]).
pub(super) const RECEIVE_NS: u64 = 1_000;

/// Shortest dispersion that is believed: three times the time to receive a packet (2.4.1).
pub(super) const DISPERSION_NS_MIN: u64 = 3 * RECEIVE_NS;

/// Smallest packet of the pairs, in bytes of IP: 572 bytes of payload (2.4.1). Smaller ones are hard to tell apart.
pub(super) const SMALLEST: u32 = 572 + super::UDP_HEADERS;

/// By how much packets grow when too many pairs are not believed (2.4.1).
pub(super) const GROWTH: u32 = 275;

/// Standard deviation over mean below which values agree (2.4.1).
pub(super) const NARROW: f64 = 0.05;

/// Share of the mean rate of the pairs that long trains reach on a path without load to speak of (2.4.1, of whose mean the
/// description does not say of what: pairs are what load slows least).
pub(super) const UNLOADED: f64 = 0.9;

/// Standard deviation over mean of long trains below which the load that they met, if any, was even: random load of a fiftieth of the link varies by
/// more (`sqrt(40 / 50) / 40`, 2.2 %).
pub(super) const EVEN: f64 = 0.015;

/// Even load of up to half the link's rate leaves at least half of the pairs as they were, and slows trains to two thirds at most: what fewer pairs show
/// beside trains that it explains is of stamps that are off.
pub(super) const UNTOUCHED: f64 = 0.5;

/// Numbers of one form of the method.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// Longest packet in bytes of IP.
    pub(super) largest: u32,
    /// Whether the longest train is found from short ones on, or by halving when packets are lost.
    pub(super) rising: bool,
    /// Longest train in packets.
    pub(super) longest: u32,
    /// Long trains that tell whether the receiver takes packets in batches.
    pub(super) looks: u32,
    /// Whether batches and token buckets are told by the arrival curve, not by short gaps.
    pub(super) by_curve: bool,
    /// Longest train of the preliminary ones, and how many there are of each length from 2 on.
    pub(super) preliminary: (u32, u32),
    /// Preliminary values to be left out at each end.
    pub(super) trim_preliminary: usize,
    /// Sizes of the pairs of phase I, and how many pairs there are of each.
    pub(super) sizes: u32,
    /// Pairs of each size.
    pub(super) pairs: u32,
    /// Of these, how many need not be believed before longer trains are tried.
    pub(super) ignored: u32,
    /// Values that a mode of phase I must exceed.
    pub(super) mode: usize,
    /// Trains of phase II.
    pub(super) trains: u32,
    /// Values of phase II to be left out at each end.
    pub(super) trim_trains: usize,
    /// Values that a mode of phase II must exceed; `None`: they are too few for modes.
    pub(super) mode_of_trains: Option<usize>,
    /// How far a mode may lie above the rate of long trains to be the capacity, as a factor.
    pub(super) most_over: f64,
    /// Least width of a bin over the mean of the values.
    pub(super) least_width: f64,
    /// Trains to a receiver that takes packets in batches.
    pub(super) bunches: u32,
}

/// Pathrate 2.4.1: 63 preliminary trains, 1000 pairs, 500 trains; up to 42 MB in a quarter of an hour.
pub(super) static FAITHFUL: Plan = Plan {
    largest: 65_535,
    rising: true,
    longest: 50,
    looks: 1,
    by_curve: false,
    preliminary: (10, 7),
    trim_preliminary: 5,
    sizes: 40,
    pairs: 25,
    ignored: 6,
    mode: 15,
    trains: 500,
    trim_trains: 10,
    mode_of_trains: Some(15),
    most_over: f64::INFINITY,
    least_width: 0.0,
    bunches: 10,
};

/// At most 1 MB in packets of 1500 bytes: 3 long trains (185 kB), 21 short (189 kB), 100 pairs (315 kB), 5 long (308 kB).
pub(super) static MODERN: Plan = Plan {
    // A jumbo frame tells no more about a link than a packet of 1500 bytes, and costs six of them.
    largest: 1500,
    rising: false,
    // 40 gaps bound what one packet of cross traffic does to a train to 2.5 %, and see a bucket of some 30 packets end.
    longest: 40,
    // With the first train, the one that found the length: two of three must agree.
    looks: 2,
    by_curve: true,
    preliminary: (8, 3),
    // 5 of 63 are 8 %, 2 of 21 are 10 %.
    trim_preliminary: 2,
    // As many sizes as of the original's pairs of one size: sizes are what blurs the modes of cross traffic.
    sizes: 25,
    pairs: 4,
    // 6 of 25 is one of 4.
    ignored: 1,
    // An even spread over the eight bins of the middle 80 % has ten values in each.
    mode: 5,
    // With those that told about batches and buckets eight long trains.
    trains: 5,
    trim_trains: 1,
    mode_of_trains: None,
    // Trains enter a link of capacity C at C or more, and leave it at C/2 or more while its load is below C. A mode beyond
    // that, and a quarter for chance, is of pairs pushed together in a queue behind the narrow link; or several links of
    // that capacity are all full.
    most_over: 2.5,
    // Stamps that are 1 us off are 1 % of the gap of a pair at 100 Mb/s.
    least_width: 0.02,
    bunches: 5,
};

impl Plan {
    /// Time without packets before a train; `last` is how long the train before it was at the receiver.
    pub(super) fn pause(&self, path: &Path, last: Duration, long: bool) -> Duration {
        if self.rising {
            // 2.4.1: max(500 ms, 1.25 round trips), doubled in phase II.
            let spacing = self.spacing(path);
            return if long { spacing.saturating_mul(2) } else { spacing };
        }
        // What the train left in a queue, or took from a token bucket, is made good in the time that it took.
        let settled = last.saturating_mul(2).min(Duration::from_secs(1));
        settled.max(path.round_trip / 4).max(Duration::from_millis(10))
    }

    /// Longest that a train may last at the receiver.
    pub(super) fn spacing(&self, path: &Path) -> Duration {
        (path.round_trip.saturating_mul(5) / 4).max(Duration::from_millis(500))
    }

    /// Length of the longest packets that the path carries.
    pub(super) fn bytes(&self, path: &Path) -> u32 {
        path.mtu.min(self.largest).max(super::UDP_HEADERS + 1)
    }
}
