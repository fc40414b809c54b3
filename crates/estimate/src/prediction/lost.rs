//! Loss of the data path from counts of lost probes.

/// A count of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossCount {
    /// Probes that were lost, or whose echo was lost.
    pub lost: u64,
    /// Probes sent.
    pub sent: u64,
    /// The part of the path that the probes covered.
    pub over: LossScope,
}

/// The part of the path on which counted probes could be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossScope {
    /// The direction of the data.
    OneWay,
    /// Both directions: the probes were echoed.
    RoundTrip,
}

impl LossCount {
    /// Share of the data's packets that are lost: value, maximum and minimum, each 0 to 1.
    ///
    /// The error of a count is its standard error, the square root. For a loss `p` over the round trip, the direction
    /// of the losses is unknown. The value assumes equal and independent loss in both directions, `1 - p = (1 - q)^2`,
    /// so that `q = 1 - sqrt(1 - p)`. Often, however, a single link in one direction loses packets (a radio uplink, a
    /// damaged fibre). The maximum is therefore all of it in the direction of the data. The minimum is zero, because
    /// lost acknowledgements hardly slow a transfer down.
    pub(super) fn shares(self) -> [f64; 3] {
        let (lost, sent) = (self.lost as f64, self.sent.max(1) as f64);
        let [value, max, min] = [lost, lost + lost.sqrt(), lost - lost.sqrt()].map(|n| (n / sent).clamp(0.0, 1.0));
        match self.over {
            LossScope::OneWay => [value, max, min],
            LossScope::RoundTrip => [1.0 - (1.0 - value).sqrt(), max, 0.0],
        }
    }
}
