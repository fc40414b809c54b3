use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use crate::serial::nanos;
use crate::{Metrics, Model};

/// What decides whether a path is changed.
///
/// [`Policy::default`] is ours, [`Policy::safire_2008`] the paper's. All of it is in the log beside the decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How the senders whose traffic is routed answer to loss and delay.
    pub model: Model,
    /// How senders would answer that are told their rate: for explanations, which tell what each class of flows would get on a path.
    pub rate_aware: Model,
    /// Data in their segments.
    #[serde(rename = "mss_bytes")]
    pub mss: Bytes,
    /// What a link is taken to carry whose capacity nobody measured.
    #[serde(rename = "unknown_capacity_bps")]
    pub unknown_capacity: Rate,
    /// By how much of the present rate another path must be better (the paper's eta).
    pub margin: f64,
    /// And by how much at least.
    #[serde(rename = "min_gain_bps")]
    pub min_gain: Rate,
    /// Whether a path with fewer relays is gone back to when it is not longer and as good, as far as the intervals of both tell: each relay carries what it
    /// passes on twice.
    pub prefer_shorter: bool,
    /// How long the last change must be past (the paper's T_ch).
    #[serde(rename = "hold_down_ns", with = "nanos")]
    pub hold_down: Duration,
    /// How long another path must have been better without interruption.
    #[serde(rename = "confirm_ns", with = "nanos")]
    pub confirm: Duration,
    /// The intervals of the losses are taken this many times as wide, and the paths must differ beyond them. 0: losses are taken as they are.
    #[serde(rename = "ci_scale")]
    pub ci_scale: f64,
    /// Below this confidence a path is taken only if there is no other.
    #[serde(rename = "min_confidence")]
    pub min_confidence: f64,
    /// Whether paths are compared by what all our flows get; otherwise by what one flow gets.
    pub count_load: bool,
    /// A path that carries this share of its capacity or more, or whose capacity nobody knows, is worth no less than what it carries: its losses may be our own
    /// flows' doing. On others they are not, and a sender in luck for half a second says nothing about the next minute. What it carried when its flows ended
    /// counts for the hold-down.
    #[serde(rename = "saturated_share")]
    pub saturated_share: f64,
    /// Whether a path that has failed, or has collapsed, is left at once, whenever the last change was: a collapsed one not where it is known to be idle, or where only
    /// its capacity is less and what is sent is far below that.
    pub fast_fail: bool,
    /// A path has collapsed below this share of the rate that was predicted when it was chosen.
    #[serde(rename = "degraded_share")]
    pub degraded_share: f64,
    /// A link that nobody has spoken of for so long is down. What our traffic carries is not known after that time either.
    #[serde(rename = "link_timeout_ns", with = "nanos")]
    pub link_timeout: Duration,
    /// For so long a path that was left is not taken again, and a link that failed not relied on after it is back; doubled with each further flap,
    /// but for a link by which there is four times the rate of the present path.
    #[serde(rename = "suppress_ns", with = "nanos")]
    pub suppress: Duration,
    /// Where doubling ends.
    #[serde(rename = "suppress_max_ns", with = "nanos")]
    pub suppress_max: Duration,
    /// By up to this share refractory times are longer, each by another one: members that were driven away together do not come back together.
    pub jitter: f64,
    /// In which time the number of flaps is forgotten by half.
    #[serde(rename = "flap_half_life_ns", with = "nanos")]
    pub flap_half_life: Duration,
    /// Who leaves a path that was used for a shorter time than this has flapped.
    #[serde(rename = "stable_after_ns", with = "nanos")]
    pub stable_after: Duration,
    /// Most paths to a destination at once; they are disjoint.
    pub max_paths: usize,
    /// A further path is used if it has this share of the first one's rate; it is given up below half of that.
    #[serde(rename = "min_share")]
    pub min_share: f64,
    /// How often further paths are looked for.
    #[serde(rename = "search_ns", with = "nanos")]
    pub search: Duration,
    /// So long changes are gathered before paths are compared. What has failed is looked at without delay.
    #[serde(rename = "batch_ns", with = "nanos")]
    pub batch: Duration,
    /// Most links that are remembered; more are refused.
    pub max_links: usize,
    /// Most members that are remembered; more are refused.
    pub max_members: usize,
}

impl Default for Policy {
    /// Ours: follows a change of loss in less than two seconds where metrics come each 100 to 500 ms, and stays where it is on a steady network.
    fn default() -> Self {
        Self {
            // The kernel's default congestion control.
            model: Model::Cubic,
            rate_aware: Model::RATE_AWARE_2008,
            // An MTU of 1500 with timestamps, less 60 bytes and an overlay's header.
            mss: Bytes::new(1360),
            // The usual interface of a host.
            unknown_capacity: Rate::from_bps(1_000_000_000),
            // The paper's, and RON's for throughput: a formula errs by some ten per cent, and a change reorders.
            margin: 0.5,
            // A fifth of what TCP gets over a satellite that loses 15 %: less is as good as nothing there, too.
            min_gain: Rate::from_bps(10_000),
            prefer_shorter: true,
            // Some round trips for flows to find their rate on the new path, and for its loss to be counted under their load.
            hold_down: Duration::from_secs(10),
            // At least two reports of the slowest: one report hit by a burst of losses changes nothing.
            confirm: Duration::from_millis(500),
            // One and a half times a 95 % interval is three standard deviations. Two equal ways are compared ten times a second for days, but chance must also
            // make one of them better by the margin: in 10 min at losses of 0.05 it did not in any of ten runs, where one standard deviation less changed
            // ways. Twice the interval is paid for with twice the time on links that few packets are sent on.
            ci_scale: 1.5,
            min_confidence: 0.3,
            count_load: true,
            // A flow that fills its path has at least 0.7 of it, by CUBIC's beta, and after a timeout a fraction of that for a second.
            saturated_share: 0.25,
            fast_fail: true,
            // From 0.05 to 0.15 a window is divided by sqrt(3), 0.58 of the rate, and timeouts make it less.
            degraded_share: 0.7,
            // Ten reports of the slowest. Ends that are next to a link know sooner and say so; this is for links whose both ends are gone.
            link_timeout: Duration::from_secs(5),
            // ZeroTier's bonds: 8 s to 600 s.
            suppress: Duration::from_secs(8),
            suppress_max: Duration::from_secs(600),
            // Ten members come back a second apart, after the shortest time.
            jitter: 1.0,
            // BGP's route flap damping has 15 min (RFC 2439 §4.2 leaves it to the operator); the longest refractory time is our scale.
            flap_half_life: Duration::from_secs(600),
            // Three times the hold-down: a change each hold-down is flapping, one each minute may be the network's own schedule.
            stable_after: Duration::from_secs(30),
            // Each path by way of a relay costs others twice its traffic.
            max_paths: 2,
            min_share: 0.5,
            search: Duration::from_secs(10),
            batch: Duration::from_millis(100),
            // The size that the search is made for, ten times.
            max_links: 100_000,
            max_members: 10_000,
        }
    }
}

impl Policy {
    /// That of the paper (Mark et al. 2008, §III.B): formula (1) with k = 1, eta = 0.5, T_ch, one path; losses as they are measured, and no haste for paths
    /// that fail.
    pub fn safire_2008() -> Self {
        Self {
            model: Model::Safire { k: 1.0 },
            margin: 0.5,
            min_gain: Rate::ZERO,
            prefer_shorter: false,
            // The paper gives no number. Its losses are measured once a minute: whatever is shorter has the same effect there.
            hold_down: Duration::from_secs(10),
            confirm: Duration::ZERO,
            ci_scale: 0.0,
            min_confidence: 0.0,
            // "for a single TCP flow".
            count_load: false,
            saturated_share: 0.0,
            fast_fail: false,
            degraded_share: 0.0,
            // Three of the paper's T_loss of 60 s.
            link_timeout: Duration::from_secs(180),
            suppress: Duration::ZERO,
            suppress_max: Duration::ZERO,
            jitter: 0.0,
            stable_after: Duration::ZERO,
            max_paths: 1,
            // "periodically updates the routing table".
            batch: Duration::from_secs(1),
            ..Self::default()
        }
    }

    /// The same with one path to each destination, as in the paper.
    #[must_use]
    pub fn single_path(self) -> Self {
        Self { max_paths: 1, ..self }
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// The first field whose value has no meaning.
    pub fn check(&self) -> Result<(), PolicyError> {
        let is_share = |x: f64| (0.0..=1.0).contains(&x);
        let is_factor = |x: f64| x >= 0.0 && x.is_finite();
        let (model, wanted) = match self.model {
            Model::Safire { k } => (k > 0.0 && k.is_finite(), "a `k` above 0"),
            Model::RateAware { alpha, beta } => {
                (is_factor(alpha) && is_factor(beta), "`alpha` and `beta` of 0 or more")
            }
            Model::Pftk | Model::Cubic | Model::RateBased => (true, ""),
        };
        let has_constants =
            |m: Model| !matches!(m, Model::RateAware { alpha, beta } if !is_factor(alpha) || !is_factor(beta));
        let wrong = [
            ("model", model, wanted),
            ("rate_aware", has_constants(self.rate_aware), "an `alpha` and `beta` of 0 or more"),
            ("mss_bytes", self.mss > Bytes::ZERO, "more than 0"),
            ("unknown_capacity_bps", self.unknown_capacity > Rate::ZERO, "more than 0"),
            ("margin", is_factor(self.margin), "0 or more"),
            ("jitter", is_factor(self.jitter), "0 or more"),
            ("ci_scale", is_factor(self.ci_scale), "0 or more"),
            ("min_confidence", is_share(self.min_confidence), "from 0 to 1"),
            ("degraded_share", is_share(self.degraded_share), "from 0 to 1"),
            ("saturated_share", is_share(self.saturated_share), "from 0 to 1"),
            ("min_share", is_share(self.min_share), "from 0 to 1"),
            ("link_timeout_ns", !self.link_timeout.is_zero(), "more than 0"),
            ("flap_half_life_ns", !self.flap_half_life.is_zero(), "more than 0"),
            ("search_ns", !self.search.is_zero(), "more than 0"),
            ("max_paths", (1..=16).contains(&self.max_paths), "from 1 to 16"),
        ];
        let found = wrong.into_iter().find(|(_, is_right, _)| !is_right);
        found.map_or(Ok(()), |(field, _, wanted)| Err(PolicyError { field, wanted }))
    }

    /// Rate that one flow is predicted to get on a path.
    pub fn predict(&self, metrics: &Metrics) -> Rate {
        self.model.predict(metrics, self.mss, self.unknown_capacity)
    }

    /// Whether such a prediction is nothing that is known: no capacity of the path is, and with another one the rate would be another one.
    pub fn is_assumed(&self, metrics: &Metrics) -> bool {
        let roomy = Rate::from_bps(self.unknown_capacity.as_bps().saturating_mul(2));
        metrics.capacity.is_none() && self.predict(metrics) != self.model.predict(metrics, self.mss, roomy)
    }

    /// How long what has flapped so often is not relied on; `draw` is an even number from 0 to 1.
    pub fn suppress_after(&self, flaps: f64, draw: f64) -> Duration {
        // 2^32 of anything is beyond every bound that a user sets.
        let doubled = self.suppress.as_secs_f64() * (flaps - 1.0).clamp(0.0, 32.0).exp2();
        let bounded = doubled.min(self.suppress_max.as_secs_f64()) * (1.0 + self.jitter * draw);
        Duration::try_from_secs_f64(bounded).unwrap_or(Duration::MAX)
    }

    /// What is left of a number of flaps after some time.
    pub(crate) fn decayed(&self, flaps: f64, after: Duration) -> f64 {
        flaps * (-after.as_secs_f64() / self.flap_half_life.as_secs_f64()).exp2()
    }
}

/// A value of a policy that has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {wanted}")]
pub struct PolicyError {
    field: &'static str,
    wanted: &'static str,
}

#[cfg(test)]
mod tests;
