//! Policy of path selection from the settings.

use route::{ALPHA, BETA, Model, Policy};
use serde::Deserialize;
use wire::overlay::{SPACE_PROBES, SPACE_SENSOR};

use super::{File, PolicyName, Settings};

/// Valid numbers of simultaneous paths to a destination: the direct path, and one per packet number space of relayed
/// paths.
const PATHS: std::ops::RangeInclusive<usize> = 1..=(SPACE_SENSOR - SPACE_PROBES) as usize;
/// Valid values of `switch_margin`; a larger value is not meant as a share.
const ETA: std::ops::RangeInclusive<f64> = 0.0..=10.0;

/// Models of the rate predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ModelName {
    Safire,
    Pftk,
    Cubic,
    RateBased,
    RateAware,
}

/// Checks the keys of the policy; returns the selected model and the model of rate-aware senders.
pub(super) fn check(file: &File) -> Result<(Option<Model>, Model), String> {
    let both = |a: &str, b: &str| format!("`{a}` and `{b}` contradict each other; leave one out");
    if file.single_path && file.paths.is_some_and(|paths| paths > 1) {
        return Err(both("single_path", "max_paths"));
    }
    if let Some(paths) = file.paths.filter(|paths| !PATHS.contains(paths)) {
        return Err(format!("`max_paths` = {paths} is out of range ({}-{})", PATHS.start(), PATHS.end()));
    }
    if let Some(eta) = file.eta.filter(|eta| !ETA.contains(eta)) {
        return Err(format!(
            "`switch_margin` = {eta} is out of range ({}-{}); it is a share of the rate, 0.5 for 50 %",
            ETA.start(),
            ETA.end()
        ));
    }
    if file.model.is_some() && file.congestion_control.is_some() {
        return Err(both("model", "congestion_control"));
    }
    let rate_aware = rate_aware(file)?;
    let model = file.model.map(|name| match name {
        ModelName::Safire => Model::Safire { k: 1.0 },
        ModelName::Pftk => Model::Pftk,
        ModelName::Cubic => Model::Cubic,
        ModelName::RateBased => Model::RateBased,
        ModelName::RateAware => rate_aware,
    });
    Ok((model, rate_aware))
}

/// Formula (2) of the paper with the constants of the settings.
fn rate_aware(file: &File) -> Result<Model, String> {
    let constant = |key: &str, value: Option<f64>, default: f64| match value {
        Some(value) if !value.is_finite() || value < 0.0 => {
            Err(format!("`{key}` = {value} is out of range; it must be finite and at least 0"))
        }
        value => Ok(value.unwrap_or(default)),
    };
    Ok(Model::RateAware { alpha: constant("alpha", file.alpha, ALPHA)?, beta: constant("beta", file.beta, BETA)? })
}

impl Settings {
    /// Policy of path selection with the values of the settings.
    pub fn rules(&self) -> Policy {
        let mut policy = match self.policy {
            PolicyName::Default => Policy::default(),
            PolicyName::Safire2008 => Policy::safire_2008(),
        };
        policy.max_paths = if self.single_path { 1 } else { self.paths.unwrap_or(policy.max_paths) };
        policy.hold_down = self.t_ch.unwrap_or(policy.hold_down);
        policy.margin = self.eta.unwrap_or(policy.margin);
        let of_control = || self.congestion_control.as_deref().map(Model::for_congestion_control);
        policy.model = self.model.or_else(of_control).unwrap_or(policy.model);
        policy.rate_aware = self.rate_aware;
        policy
    }
}
