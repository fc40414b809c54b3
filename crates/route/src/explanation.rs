//! Explanation of the routes to a destination.

use core::fmt;

use serde::{Deserialize, Serialize};
use units::{Instant, Rate};

use crate::{Decision, Judged, Load, Member, Path};

/// Reason that prevents a change to a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hold", rename_all = "kebab-case")]
pub enum Hold {
    /// The gain is below the margin.
    Margin {
        /// Rate that the path must have.
        #[serde(rename = "required_bps")]
        required: Rate,
    },
    /// The capacity is below the steady throughput of the present route.
    InsufficientCapacity {
        /// Steady throughput of the present route.
        #[serde(rename = "throughput_bps")]
        carried: Rate,
    },
    /// The gain is within the uncertainty of the losses.
    NotSignificant {
        /// Lower confidence bound of the ratio of the rates.
        ratio: f64,
    },
    /// Too few frames were measured.
    Confidence {
        /// Confidence of the measurement, 0 to 1.
        confidence: f64,
    },
    /// The last change is too recent.
    HoldDown {
        /// Until when.
        #[serde(rename = "until_ns")]
        until: Instant,
    },
    /// The path must stay better for some time.
    Confirmation {
        /// Until when.
        #[serde(rename = "until_ns")]
        until: Instant,
    },
    /// The path was left recently.
    Damped {
        /// Until when.
        #[serde(rename = "until_ns")]
        until: Instant,
    },
}

impl Hold {
    /// Time at which the reason ends; `None`: with other measurements only.
    pub const fn until(&self) -> Option<Instant> {
        match self {
            Self::HoldDown { until } | Self::Confirmation { until } | Self::Damped { until } => Some(*until),
            Self::Margin { .. }
            | Self::InsufficientCapacity { .. }
            | Self::NotSignificant { .. }
            | Self::Confidence { .. } => None,
        }
    }

    fn show(&self, f: &mut fmt::Formatter<'_>, now: Instant) -> fmt::Result {
        match self {
            Self::Margin { required } => write!(f, "less than {required}")?,
            Self::InsufficientCapacity { carried } => write!(f, "capacity below the {carried} of the present route")?,
            Self::NotSignificant { ratio } => write!(f, "not significant, at least {ratio:.2} of the present rate")?,
            Self::Confidence { confidence } => write!(f, "confidence {confidence:.2}")?,
            Self::HoldDown { .. } => f.write_str("last change too recent")?,
            Self::Confirmation { .. } => f.write_str("to be confirmed")?,
            Self::Damped { .. } => f.write_str("left recently")?,
        }
        let Some(until) = self.until() else { return Ok(()) };
        write!(f, ", for another {:.1} s", until.saturating_since(now).as_secs_f64())
    }
}

/// A path that is used, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InUse {
    /// The path.
    pub path: Path,
    /// Since when.
    #[serde(rename = "since_ns")]
    pub since: Instant,
    /// Its metrics and rates; nothing: it has failed.
    pub judged: Option<Judged>,
    /// What one sender that is told its rate would get.
    #[serde(rename = "rate_aware_bps", default, skip_serializing_if = "Option::is_none")]
    pub rate_aware: Option<Rate>,
    /// The rates are what the policy assumes where nothing is known of the capacity.
    #[serde(default)]
    pub assumed: bool,
    /// What was predicted for one flow when it was chosen.
    #[serde(rename = "predicted_at_selection_bps")]
    pub chosen_for: Rate,
    /// What it carries.
    pub load: Load,
}

/// A path that could be used instead of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The path.
    pub path: Path,
    /// Its metrics and rates.
    pub judged: Judged,
    /// What one sender that is told its rate would get.
    #[serde(rename = "rate_aware_bps")]
    pub rate_aware: Rate,
    /// The rates are what the policy assumes where nothing is known of the capacity.
    #[serde(default)]
    pub assumed: bool,
    /// What holds the change back; nothing: it is about to come.
    pub holds: Vec<Hold>,
}

/// Why a destination has the path that it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The time that it speaks of.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// Where to.
    pub destination: Member,
    /// What is used, the first path first.
    pub used: Vec<InUse>,
    /// The last decision on the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decision>,
    /// Paths that no other one is better than in everything, and what there is without the relays of the first path;
    /// the best first.
    pub candidates: Vec<Candidate>,
}

impl Explanation {
    /// The text, with members called as `name` says.
    pub fn with_names<N: fmt::Display>(&self, name: impl Fn(Member) -> N) -> impl fmt::Display {
        fmt::from_fn(move |f| self.show(f, &name))
    }

    fn show<N: fmt::Display>(&self, f: &mut fmt::Formatter<'_>, name: &impl Fn(Member) -> N) -> fmt::Result {
        write!(f, "{}", name(self.destination))?;
        if self.used.is_empty() {
            f.write_str(": no path")?;
        }
        for used in &self.used {
            let age = self.at.saturating_since(used.since).as_secs_f64();
            f.write_str("\n  uses ")?;
            used.path.show(f, name)?;
            write!(f, " for {age:.1} s")?;
            match &used.judged {
                Some(judged) => judged.show(f, used.rate_aware.filter(|_| !used.assumed), used.assumed)?,
                None => f.write_str(": failed")?,
            }
            if used.load.flows > 0 {
                write!(f, "; {} flows with {}", used.load.flows, used.load.carried)?;
            }
        }
        if let Some(decided) = &self.decided {
            let age = self.at.saturating_since(decided.at).as_secs_f64();
            write!(f, "\n  last change {age:.1} s ago: ")?;
            decided.show(f, name)?;
        }
        for candidate in &self.candidates {
            f.write_str("\n  could ")?;
            candidate.path.show(f, name)?;
            let rate_aware = Some(candidate.rate_aware).filter(|_| !candidate.assumed);
            candidate.judged.show(f, rate_aware, candidate.assumed)?;
            for (i, hold) in candidate.holds.iter().enumerate() {
                f.write_str(if i == 0 { "\n    not now: " } else { "; " })?;
                // The required rate follows from the assumed one.
                if candidate.assumed && matches!(hold, Hold::Margin { .. }) {
                    f.write_str("not better by the margin")?;
                } else {
                    hold.show(f, self.at)?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    /// With the numbers of the members.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, &|member| member)
    }
}

impl Judged {
    /// `assumed`: nothing is known of the capacity, and the rates follow from what is assumed instead.
    fn show(&self, f: &mut fmt::Formatter<'_>, rate_aware: Option<Rate>, assumed: bool) -> fmt::Result {
        let m = &self.metrics;
        if assumed {
            f.write_str(": rate unknown, as the capacity is not measured yet")?;
        } else {
            write!(f, ": {} predicted ({} to {} for all flows)", self.predicted, self.utility[0], self.utility[2])?;
        }
        rate_aware.map_or(Ok(()), |rate| write!(f, ", {rate} if told its rate"))?;
        let rtt = m.rtt.as_secs_f64() * 1e3;
        write!(f, ", rtt {rtt:.1} ms, loss {:.4} ({:.4} to {:.4})", m.loss, m.loss_low, m.loss_high)?;
        m.capacity.map_or(Ok(()), |capacity| write!(f, ", capacity {capacity}"))
    }
}

#[cfg(test)]
mod tests;
