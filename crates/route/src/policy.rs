use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use crate::serial::nanos;
use crate::{Metrics, Model};

/// Parameters of the route control.
///
/// [`Policy::default`] is the one of longhaul, [`Policy::safire_2008`] that of the paper. The log of decisions begins
/// with all parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Response of the senders to loss and delay.
    pub model: Model,
    /// Response of senders that are told their rate: for explanations, which state the rate of each class of flows.
    pub rate_aware: Model,
    /// Payload of a segment.
    #[serde(rename = "mss_bytes")]
    pub mss: Bytes,
    /// Assumed capacity of a link without a measurement.
    #[serde(rename = "unknown_capacity_bps")]
    pub unknown_capacity: Rate,
    /// Minimum gain of a change as a share of the present rate (the paper's eta).
    pub margin: f64,
    /// Minimum gain of a change.
    #[serde(rename = "min_gain_bps")]
    pub min_gain: Rate,
    /// Whether a path with fewer relays is taken that is not longer and as good within the confidence intervals: each
    /// relay carries the traffic twice.
    pub prefer_shorter: bool,
    /// Minimum time between two changes (the paper's T_ch).
    #[serde(rename = "hold_down_ns", with = "nanos")]
    pub hold_down: Duration,
    /// Time for which another path must have been better without interruption; where the route has no traffic, at least
    /// the hold-down.
    #[serde(rename = "confirm_ns", with = "nanos")]
    pub confirm: Duration,
    /// Factor of the confidence intervals of the losses; paths must differ beyond them. 0: losses are taken as
    /// measured.
    pub ci_scale: f64,
    /// A path of less confidence is taken only if there is no other, 0 to 1.
    pub min_confidence: f64,
    /// Whether paths are compared by the rate of all own flows together, not by that of one.
    pub count_load: bool,
    /// A path with at least this share of its capacity in use, or of unknown capacity, counts at least at its
    /// throughput: its losses may be those of own flows. On others they are not, and a high throughput for half a
    /// second is no evidence. The throughput at the end of the flows counts for the hold-down.
    pub saturated_share: f64,
    /// Whether a failed route, and a degraded one with traffic, is replaced without hold-down and confirmation.
    pub fast_fail: bool,
    /// A route is degraded below this share of the rate that was predicted when it was chosen.
    pub degraded_share: f64,
    /// A link without a measurement for this time is down. Own traffic is unknown after this time, too.
    #[serde(rename = "link_timeout_ns", with = "nanos")]
    pub link_timeout: Duration,
    /// Suppression of a path that was left, doubled with each further flap (RFC 2439).
    #[serde(rename = "suppress_ns", with = "nanos")]
    pub suppress: Duration,
    /// Maximum suppression, before the random part.
    #[serde(rename = "suppress_max_ns", with = "nanos")]
    pub suppress_max: Duration,
    /// Maximum random part of a suppression, as a share of it: members that left a path together do not return
    /// together.
    pub jitter: f64,
    /// Half-life of the number of flaps.
    #[serde(rename = "flap_half_life_ns", with = "nanos")]
    pub flap_half_life: Duration,
    /// A path that was in use for a shorter time than this has flapped.
    #[serde(rename = "stable_after_ns", with = "nanos")]
    pub stable_after: Duration,
    /// Maximum number of routes to a destination; they are disjoint.
    pub max_paths: usize,
    /// Minimum rate of a further route as a share of the first one's; it is removed below half of that.
    pub min_share: f64,
    /// Interval of the searches for further routes.
    #[serde(rename = "search_ns", with = "nanos")]
    pub search: Duration,
    /// Time for which changes are collected before paths are compared. Failures are handled without delay.
    #[serde(rename = "batch_ns", with = "nanos")]
    pub batch: Duration,
    /// Maximum number of links; more are refused.
    pub max_links: usize,
    /// Maximum number of members; more are refused.
    pub max_members: usize,
}

impl Default for Policy {
    /// Follows a change of loss in less than two seconds with metrics each 100 to 500 ms, and keeps its routes on a
    /// steady network.
    fn default() -> Self {
        Self {
            // The kernel's default congestion control.
            model: Model::Cubic,
            rate_aware: Model::RATE_AWARE_2008,
            // An MTU of 1500 with timestamps, less 60 bytes and an overlay's header.
            mss: Bytes::new(1360),
            // The usual interface of a host.
            unknown_capacity: Rate::from_bps(1_000_000_000),
            // That of the paper, and of RON for throughput: a formula errs by some ten per cent, and a change reorders.
            margin: 0.5,
            // A fifth of the TCP rate over a satellite with a loss of 15 %.
            min_gain: Rate::from_bps(10_000),
            prefer_shorter: true,
            // Flows need some round trips to reach their rate on the new path, and its loss is measured under their
            // load.
            hold_down: Duration::from_secs(10),
            // Two reports at the longest interval: one report after a burst of losses changes nothing.
            confirm: Duration::from_millis(500),
            // One and a half times a 95 % interval is three standard deviations. Two equal paths are compared ten times
            // a second for days, but chance must also make one of them better by the margin: it did not in ten runs of
            // 10 min at losses of 0.05; with one standard deviation less, routes changed. Twice the interval takes
            // twice the time on links with few packets.
            ci_scale: 1.5,
            min_confidence: 0.3,
            count_load: true,
            // A flow that saturates its path has at least 0.7 of it, by CUBIC's beta, and after a timeout a fraction of
            // that for a second.
            saturated_share: 0.25,
            fast_fail: true,
            // At a loss of 0.15 instead of 0.05 a window is divided by sqrt(3): 0.58 of the rate, and less with
            // timeouts.
            degraded_share: 0.7,
            // Ten reports at the longest interval. The ends of a link notice its failure sooner; this is for links with
            // no end left.
            link_timeout: Duration::from_secs(5),
            // ZeroTier's bonds: 8 s to 600 s.
            suppress: Duration::from_secs(8),
            suppress_max: Duration::from_secs(600),
            // Ten members return a second apart, after the shortest time.
            jitter: 1.0,
            // That of BGP is often 15 min (RFC 2439, section 4.2, leaves it to the operator); here it is the longest
            // suppression.
            flap_half_life: Duration::from_secs(600),
            // Three times the hold-down: a change each hold-down is flapping, one each minute may be that of the
            // network.
            stable_after: Duration::from_secs(30),
            // A path over a relay costs others twice its traffic.
            max_paths: 2,
            min_share: 0.5,
            search: Duration::from_secs(10),
            batch: Duration::from_millis(100),
            // Ten times the size that the search is made for.
            max_links: 100_000,
            max_members: 10_000,
        }
    }
}

impl Policy {
    /// That of the paper (Mark et al. 2008, section III.B): formula (1) with k = 1, eta = 0.5, T_ch, one path; losses
    /// as measured, and no exception for failures.
    pub fn safire_2008() -> Self {
        Self {
            model: Model::Safire { k: 1.0 },
            margin: 0.5,
            min_gain: Rate::ZERO,
            prefer_shorter: false,
            // The paper gives no value. Its losses are measured once a minute: all shorter times have the same effect.
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

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// The first field whose value is out of range.
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

    /// Predicted rate of one flow on a path.
    pub fn predict(&self, metrics: &Metrics) -> Rate {
        self.model.predict(metrics, self.mss, self.unknown_capacity)
    }

    /// Whether the predicted rate depends on the assumed capacity: no capacity of the path is known, and with a larger
    /// one the rate would be larger.
    pub fn is_assumed(&self, metrics: &Metrics) -> bool {
        let roomy = Rate::from_bps(self.unknown_capacity.as_bps().saturating_mul(2));
        metrics.capacity.is_none() && self.predict(metrics) != self.model.predict(metrics, self.mss, roomy)
    }

    /// Suppression after this number of flaps; `draw` is uniform from 0 to 1.
    pub fn suppress_after(&self, flaps: f64, draw: f64) -> Duration {
        // Larger exponents exceed every maximum that a user sets.
        let doubled = self.suppress.as_secs_f64() * (flaps - 1.0).clamp(0.0, 32.0).exp2();
        let bounded = doubled.min(self.suppress_max.as_secs_f64()) * (1.0 + self.jitter * draw);
        Duration::try_from_secs_f64(bounded).unwrap_or(Duration::MAX)
    }

    /// Number of flaps after its decay for some time.
    pub(crate) fn decayed(&self, flaps: f64, after: Duration) -> f64 {
        flaps * (-after.as_secs_f64() / self.flap_half_life.as_secs_f64()).exp2()
    }
}

/// A parameter of a policy is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {wanted}")]
pub struct PolicyError {
    field: &'static str,
    wanted: &'static str,
}

#[cfg(test)]
mod tests;
