use std::str::FromStr;

use units::Duration;

/// A probing method, by the name that a user selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MethodName {
    /// Two-rate trains within a small budget, and a prediction of the transfer.
    Auto,
    /// [`super::TwoRates`].
    TwoRates,
    /// [`super::Adr::full`].
    Adr,
    /// [`super::Adr::short`].
    ShortAdr,
    /// [`super::Spruce`].
    Spruce,
    /// [`super::Igi`].
    Igi,
    /// [`super::PathChirp`].
    Pathchirp,
    /// [`super::Pathload`].
    Pathload,
    /// [`super::Pathrate`].
    Pathrate,
    /// [`super::SqueezedPairs`], after [`super::Adr`] if the capacity is unknown.
    SqueezedPairs,
    /// [`super::RonProbes`].
    Loss,
    /// [`super::RonProbes::loss_only`].
    LossOnly,
    /// A TCP transfer of 128 KiB.
    ShortTcp,
    /// A TCP transfer of 10 s.
    Tcp,
}

impl MethodName {
    /// Methods that a request for all methods runs, cheapest first. [`Auto`](Self::Auto) is not among them.
    pub const ALL: [Self; 13] = [
        Self::ShortAdr,
        Self::Adr,
        Self::TwoRates,
        Self::Spruce,
        Self::Igi,
        Self::Pathchirp,
        Self::Pathrate,
        Self::SqueezedPairs,
        Self::Pathload,
        Self::Loss,
        Self::LossOnly,
        Self::ShortTcp,
        Self::Tcp,
    ];

    /// All names, in the order of the documentation.
    pub const KNOWN: [Self; 14] = [
        Self::Auto,
        Self::TwoRates,
        Self::Adr,
        Self::ShortAdr,
        Self::Spruce,
        Self::Igi,
        Self::Pathchirp,
        Self::Pathload,
        Self::Pathrate,
        Self::SqueezedPairs,
        Self::Loss,
        Self::LossOnly,
        Self::ShortTcp,
        Self::Tcp,
    ];

    /// The name as a user writes it, and as records contain it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::TwoRates => "two-rates",
            Self::Adr => "adr",
            Self::ShortAdr => "short-adr",
            Self::Spruce => "spruce",
            Self::Igi => "igi",
            Self::Pathchirp => "pathchirp",
            Self::Pathload => "pathload",
            Self::Pathrate => "pathrate",
            Self::SqueezedPairs => "squeezed-pairs",
            Self::Loss => "loss",
            Self::LossOnly => "loss-only",
            Self::ShortTcp => "short-tcp",
            Self::Tcp => "tcp",
        }
    }

    /// Description in one line, for a list of the methods.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Auto => "Two-rate trains within the budget, and a prediction of the transfer",
            Self::TwoRates => "Available bandwidth and capacity: trains at two rates until the intervals are narrow",
            Self::Adr => "Asymptotic dispersion rate: two back-to-back trains of 30 packets",
            Self::ShortAdr => "Asymptotic dispersion rate: two back-to-back trains of 15 packets",
            Self::Spruce => "Available bandwidth: gaps that cross traffic adds to packet pairs",
            Self::Igi => {
                "Available bandwidth: highest rate that trains keep (PTR), and gaps that cross traffic adds (IGI)"
            }
            Self::Pathchirp => "Available bandwidth: trains of exponentially increasing rate",
            Self::Pathload => "Available bandwidth: trends of the one-way delay in periodic streams (SLoPS)",
            Self::Pathrate => "Capacity: modes of packet-pair rates, and the dispersion of trains",
            Self::SqueezedPairs => {
                "Whether queues form at the bottleneck: packet pairs sent closer together than it forwards them"
            }
            Self::Loss => "Score of RON: round trips and losses of 100 small probes",
            Self::LossOnly => "Score of RON, only if at least three probes are lost",
            Self::ShortTcp => "Bulk transfer capacity: a TCP transfer of 128 kB",
            Self::Tcp => "Bulk transfer capacity: a TCP transfer of 10 s, or 30 s with --faithful-2002",
        }
    }

    /// Limit of the bytes of the method unless the user sets one, headers included. For [`Auto`](Self::Auto) two and a
    /// half times the cost of the cheapest good method of 2002.
    pub const fn budget_default(self) -> u64 {
        if matches!(self, Self::Auto) { 100_000 } else { 50_000_000 }
    }
}

/// Maximum duration of a method unless the user sets one.
pub const TIME_DEFAULT: Duration = Duration::from_secs(120);

/// Default limit of the bytes of all methods together: the default limit of a server.
const SESSION_BUDGET_BYTES: u64 = 200_000_000;

/// Limit of the bytes of all methods together unless the user sets one.
pub fn session_budget(methods: &[MethodName]) -> u64 {
    methods.iter().map(|m| m.budget_default()).sum::<u64>().min(SESSION_BUDGET_BYTES)
}

/// A text that names no method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMethod;

impl FromStr for MethodName {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::KNOWN.into_iter().find(|m| m.name() == text).ok_or(UnknownMethod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name() {
        for method in MethodName::KNOWN {
            assert_eq!(method.name().parse(), Ok(method));
        }
        assert_eq!("pathlode".parse::<MethodName>(), Err(UnknownMethod));
        assert!(MethodName::ALL.iter().all(|m| MethodName::KNOWN.contains(m)));
    }
}
