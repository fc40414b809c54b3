//! What counts of lost probes say of the way that data takes.

/// A count of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Probes that did not arrive, or whose echo did not.
    pub lost: u64,
    /// Probes that left.
    pub sent: u64,
    /// Where they could be lost.
    pub over: LossOver,
}

/// Where probes could be lost that were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossOver {
    /// On the way of the data.
    OneWay,
    /// There and back: they were echoed.
    RoundTrip,
}

impl Lost {
    /// Share of the data's packets that are lost: value, most and least, each 0 to 1.
    ///
    /// The count give or take its standard error, the root of it. Of a loss `p` over the round trip, which of the two ways
    /// it was on is not known. The value takes both to lose the same share, independently of each other: both are survived
    /// by `1 - p = (1 - q)^2`, so `q = 1 - sqrt(1 - p)`. But often a single link in one direction loses (a radio uplink,
    /// a damaged fibre): at most all of it is on the data's way, and at least nothing, for acknowledgements that are lost hardly
    /// slow a transfer down.
    pub(super) fn shares(self) -> [f64; 3] {
        let (lost, sent) = (self.lost as f64, self.sent.max(1) as f64);
        let [value, most, least] = [lost, lost + lost.sqrt(), lost - lost.sqrt()].map(|n| (n / sent).clamp(0.0, 1.0));
        match self.over {
            LossOver::OneWay => [value, most, least],
            LossOver::RoundTrip => [1.0 - (1.0 - value).sqrt(), most, 0.0],
        }
    }
}
