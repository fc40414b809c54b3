//! What was decided and why, and what was known: the log.

use core::fmt;

use serde::{Deserialize, Serialize};
use units::{Duration, Instant, Rate};

use crate::control::{Control, Load};
use crate::serial::nanos;
use crate::{Member, Metrics, Path, Policy, PolicyError};

/// Why a path was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// There was none.
    Initial,
    /// The new one is better by the margin, and surely so.
    Better,
    /// A link of the old one, or the consent of one of its relays, is gone.
    Failed,
    /// The old one has a fraction of the rate that it was chosen for, and the new one is better by the margin.
    Degraded,
    /// The new one is better by the margin, and was used before.
    Restored,
    /// The new one has fewer relays, and is as good.
    FewerHops,
    /// The destination left the overlay; or a further path is not worth its relays, or shares links with those before it.
    Removed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Initial => "initial",
            Self::Better => "better",
            Self::Failed => "failed",
            Self::Degraded => "degraded",
            Self::Restored => "restored",
            Self::FewerHops => "fewer hops",
            Self::Removed => "removed",
        })
    }
}

/// A path with all that a decision rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What its links come to together.
    pub metrics: Metrics,
    /// Rate predicted for one flow.
    #[serde(rename = "predicted_bps")]
    pub predicted: Rate,
    /// What all flows to the destination would get together, by the upper end of the interval of the loss, by the loss, and by the lower end; where
    /// our flows to others fill a link of the path, no less than what each of those gets. The middle one is what paths are compared by.
    #[serde(rename = "utility_bps")]
    pub utility: [Rate; 3],
}

/// What a change was decided from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The path that was left; nothing where it was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Judged>,
    /// The path that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Judged>,
    /// Rate that was predicted for the old path when it was chosen.
    #[serde(rename = "predicted_at_selection_bps", default, skip_serializing_if = "Option::is_none")]
    pub chosen_for: Option<Rate>,
    /// For how long the old path had been used.
    #[serde(rename = "used_for_ns", with = "nanos")]
    pub used_for: Duration,
    /// What our own traffic on the old path was.
    pub load: Load,
    /// Least ratio of the new path to the old one that the intervals leave; a change for the better needs more than 1, one to a shorter path does not.
    #[serde(rename = "confidence_ratio", default, skip_serializing_if = "Option::is_none")]
    pub confidence_ratio: Option<f64>,
    /// Of a further path: what it must be worth, a share of what the first one is.
    #[serde(rename = "required_bps", default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Rate>,
    /// How many elephants there are, by which each path is judged: on the path that was left, and of a further path on all paths to the
    /// destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// The policy's margin.
    pub margin: f64,
    /// The policy's hold-down.
    #[serde(rename = "hold_down_ns", with = "nanos")]
    pub hold_down: Duration,
}

/// A change of path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// Where to.
    pub destination: Member,
    /// 0: the first path, which all traffic takes that is not spread; from 1 on: further ones.
    #[serde(rename = "rank")]
    pub place: usize,
    /// The path until now.
    pub from: Option<Path>,
    /// The path from now on.
    pub to: Option<Path>,
    /// Why.
    pub reason: Reason,
    /// What it was decided from.
    pub inputs: Inputs,
}

impl Decision {
    /// One line as that of `Display`, with members called as `name` says.
    pub fn with_names<N: fmt::Display>(&self, name: impl Fn(Member) -> N) -> impl fmt::Display {
        fmt::from_fn(move |f| self.show_line(f, &name))
    }

    fn show_line<N: fmt::Display>(&self, f: &mut fmt::Formatter<'_>, name: &impl Fn(Member) -> N) -> fmt::Result {
        write!(f, "{}", name(self.destination))?;
        if self.place > 0 {
            write!(f, " [{}]", self.place)?;
        }
        f.write_str(": ")?;
        self.show(f, name)
    }

    /// The change and its reason: `direct -> via 00000007, predicted 1.2 Mb/s -> 3.4 Mb/s (better: loss 4.7 %)`. The loss is that of the previous path.
    pub(crate) fn show<N: fmt::Display>(&self, f: &mut fmt::Formatter<'_>, name: &impl Fn(Member) -> N) -> fmt::Result {
        let show = |f: &mut fmt::Formatter<'_>, path: Option<Path>| match path {
            Some(path) => path.show(f, name),
            None => f.write_str("no path"),
        };
        show(f, self.from)?;
        f.write_str(" -> ")?;
        show(f, self.to)?;
        // Without a capacity the predicted rate is an assumption of the policy.
        let known = |judged: Option<Judged>| judged.filter(|j| j.metrics.capacity.is_some()).map(|j| j.predicted);
        match (known(self.inputs.from), known(self.inputs.to)) {
            (Some(from), Some(to)) => write!(f, ", predicted {from} -> {to}")?,
            (None, Some(to)) => write!(f, ", predicted {to}")?,
            (_, None) => {}
        }
        match self.inputs.from.map(|judged| judged.metrics.loss).filter(|loss| *loss > 0.0) {
            Some(loss) => write!(f, " ({}: loss {:.1} %)", self.reason, loss * 100.0),
            None => write!(f, " ({})", self.reason),
        }
    }
}

impl fmt::Display for Decision {
    /// One line: `0000002a: direct -> via 00000007, predicted 1.2 Mb/s -> 3.4 Mb/s (better)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_line(f, &|member| member)
    }
}

/// What control was told: with the policy, all that decisions follow from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// [`Control::handle_member`].
    Member {
        /// When.
        #[serde(rename = "at_ns")]
        at: Instant,
        /// Who.
        member: Member,
        /// Whether it relays; nothing: it left.
        relays: Option<bool>,
    },
    /// [`Control::handle_link`].
    Link {
        /// When.
        #[serde(rename = "at_ns")]
        at: Instant,
        /// Where the link begins.
        from: Member,
        /// Where it ends.
        to: Member,
        /// Its metrics; nothing: it is down.
        metrics: Option<Metrics>,
    },
    /// [`Control::handle_load`].
    Load {
        /// When.
        #[serde(rename = "at_ns")]
        at: Instant,
        /// The path.
        path: Path,
        /// What we send over it.
        load: Load,
    },
    /// [`Control::handle_timeout`].
    Timeout {
        /// When.
        #[serde(rename = "at_ns")]
        at: Instant,
    },
}

/// The decisions of a member `source` that was told these events.
///
/// # Errors
/// The policy has no meaning. Events that control refuses are passed over, as they were when they happened.
pub fn replay<'a>(
    source: Member,
    policy: Policy,
    events: impl IntoIterator<Item = &'a Event>,
) -> Result<Vec<Decision>, PolicyError> {
    let mut control = Control::new(source, policy)?;
    let mut decisions = Vec::new();
    for event in events {
        // What was refused changed nothing.
        let _refused = control.handle(event).is_err();
        decisions.extend(core::iter::from_fn(|| control.poll_decision()));
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests;
