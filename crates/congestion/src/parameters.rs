//! Parameters of the algorithms: names, values and limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use units::parse_duration;

use crate::{FastSettings, HtcpSettings};

/// Maximum alpha in packets; larger windows do not occur in practice.
const ALPHA_MAX: u32 = 1_000_000;
const PERIOD_MAX: Duration = Duration::from_secs(10);
const THRESHOLD_MAX: Duration = Duration::from_secs(10);
/// Maximum tick: one jiffy of the coarsest kernel (HZ = 100).
const TICK_MAX: Duration = Duration::from_millis(10);
/// Maximum divisor of a sample's weight. A mean with a smaller weight would adapt more slowly than connections last.
const AVERAGE_DIVISOR_MAX: f64 = 65_536.0;

/// A congestion control of longhaul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// FAST TCP.
    Fast,
    /// H-TCP.
    Htcp,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Htcp];

    /// Name without parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Htcp => "htcp",
        }
    }

    /// One-line description of the algorithm.
    pub fn about(self) -> &'static str {
        match self {
            Self::Fast => "FAST TCP (Jin, Wei, Low 2004): keeps alpha packets queued, by the round trip's delay",
            Self::Htcp => "H-TCP (Leith, Shorten 2004): grows the faster, the longer the last loss is ago",
        }
    }

    /// Algorithm whose name starts `name`, such as `fast` or `fast_a200`.
    pub fn of_name(name: &str) -> Option<Self> {
        let family = name.split(['_', '.']).next().unwrap_or(name);
        Self::ALL.into_iter().find(|a| a.name() == family)
    }
}

/// An algorithm with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// FAST TCP.
    Fast(FastSettings),
    /// H-TCP.
    Htcp(HtcpSettings),
}

/// A parameter and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub key: &'static str,
    /// Value in the syntax of [`Settings::set`].
    pub value: String,
    /// Effect of the parameter.
    pub meaning: &'static str,
}

/// Reason why a parameter was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The algorithm has no parameter of that name.
    #[error("{algorithm} has no parameter `{key}`; it has {known}")]
    Unknown {
        /// The algorithm.
        algorithm: &'static str,
        /// The given text.
        key: String,
        /// The parameters of the algorithm.
        known: String,
    },
    /// The value is out of range or malformed.
    #[error("{key}={value}: {hint}")]
    Value {
        /// The parameter.
        key: String,
        /// The given text.
        value: String,
        /// The valid values.
        hint: String,
    },
}

impl Settings {
    /// Settings with the algorithm's default parameters.
    pub fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Fast => Self::Fast(FastSettings::default()),
            Algorithm::Htcp => Self::Htcp(HtcpSettings::default()),
        }
    }

    /// Algorithm of the settings.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Fast(_) => Algorithm::Fast,
            Self::Htcp(_) => Algorithm::Htcp,
        }
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// The algorithm has no such parameter, or the value is invalid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ParameterError> {
        let wrong = |hint: String| ParameterError::Value { key: key.to_owned(), value: value.to_owned(), hint };
        let known = match self {
            Self::Fast(s) => s.set(key, value).map_err(wrong)?,
            Self::Htcp(s) => s.set(key, value).map_err(wrong)?,
        };
        if known {
            return Ok(());
        }
        let keys: Vec<&str> = self.parameters().iter().map(|p| p.key).collect();
        let algorithm = self.algorithm().name();
        Err(ParameterError::Unknown { algorithm, key: key.to_owned(), known: keys.join(", ") })
    }

    /// All parameters with their values.
    pub fn parameters(&self) -> Vec<Parameter> {
        let all = match self {
            Self::Fast(s) => s.parameters(),
            Self::Htcp(s) => s.parameters(),
        };
        all.into_iter().map(|(key, value, meaning)| Parameter { key, value, meaning }).collect()
    }

    /// Encodes the parameters for the BPF program: struct `fast_settings` or `htcp_settings`, which consist of u32
    /// members.
    pub fn to_words(&self) -> Vec<u32> {
        match self {
            Self::Fast(s) => {
                vec![s.alpha, s.gamma, s.period_us, s.threshold_us, s.average_divisor_min, u32::from(s.every_other)]
            }
            Self::Htcp(s) => {
                vec![u32::from(s.rtt_scaling), u32::from(s.adaptive_backoff), u32::from(s.bandwidth_switch), s.tick_us]
            }
        }
    }

    /// Inverse of [`Settings::to_words`]; `None` for a wrong number of words.
    pub fn from_words(algorithm: Algorithm, words: &[u32]) -> Option<Self> {
        match (algorithm, words) {
            (Algorithm::Fast, &[alpha, gamma, period_us, threshold_us, average_divisor_min, every_other]) => {
                let every_other = every_other != 0;
                Some(Self::Fast(FastSettings {
                    alpha,
                    gamma,
                    period_us,
                    threshold_us,
                    average_divisor_min,
                    every_other,
                }))
            }
            (Algorithm::Htcp, &[rtt_scaling, adaptive_backoff, bandwidth_switch, tick_us]) => {
                Some(Self::Htcp(HtcpSettings {
                    rtt_scaling: rtt_scaling != 0,
                    adaptive_backoff: adaptive_backoff != 0,
                    bandwidth_switch: bandwidth_switch != 0,
                    tick_us,
                }))
            }
            (Algorithm::Fast | Algorithm::Htcp, _) => None,
        }
    }
}

type Described = (&'static str, String, &'static str);

impl FastSettings {
    /// Sets a parameter. Returns `false` for an unknown name, and the valid values as the error for an invalid value.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "alpha" => self.alpha = number(value, 1, ALPHA_MAX, "packets")?,
            "gamma" => self.gamma = (share(value)? * 256.0).round().max(1.0) as u32,
            "weight" => {
                let divisor = 1.0 / share(value)?;
                if divisor > AVERAGE_DIVISOR_MAX {
                    return Err("write at least 1/65536".to_owned());
                }
                self.average_divisor_min = divisor.round() as u32;
            }
            "period" => self.period_us = time(value, PERIOD_MAX)?,
            "threshold" => self.threshold_us = time(value, THRESHOLD_MAX)?,
            "rest" => self.every_other = switch(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn parameters(&self) -> Vec<Described> {
        vec![
            ("alpha", self.alpha.to_string(), "packets that a flow keeps queued"),
            (
                "gamma",
                (f64::from(self.gamma) / 256.0).to_string(),
                "step towards the goal at each change, above 0 to 1",
            ),
            ("weight", format!("1/{}", self.average_divisor_min), "largest weight of a sample in the mean round trip"),
            ("period", microseconds(self.period_us), "minimum time between two changes"),
            (
                "threshold",
                microseconds(self.threshold_us),
                "queueing delay below which the window doubles each round trip",
            ),
            ("rest", on_off(self.every_other), "the window rests for a round trip after each change"),
        ]
    }
}

impl HtcpSettings {
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "rtt_scaling" => self.rtt_scaling = switch(value)?,
            "adaptive_backoff" => self.adaptive_backoff = switch(value)?,
            "bandwidth_switch" => self.bandwidth_switch = switch(value)?,
            "tick" => self.tick_us = time(value, TICK_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn parameters(&self) -> Vec<Described> {
        vec![
            ("rtt_scaling", on_off(self.rtt_scaling), "the increase grows with the round trip, over 100 ms"),
            ("adaptive_backoff", on_off(self.adaptive_backoff), "the decrease is RTTmin / RTTmax, 0.5 to 0.8"),
            ("bandwidth_switch", on_off(self.bandwidth_switch), "a half again where the throughput changed by a fifth"),
            ("tick", microseconds(self.tick_us), "granularity of times, such as 4ms for a kernel's jiffies; 0: none"),
        ]
    }
}

fn number(value: &str, min: u32, max: u32, unit: &str) -> Result<u32, String> {
    let number = u32::from_str(value).ok().filter(|n| (min..=max).contains(n));
    number.ok_or_else(|| format!("write a whole number of {unit} from {min} to {max}"))
}

/// Parses a fraction above 0 and up to 1: 0.25, 25% or 1/4.
fn share(value: &str) -> Result<f64, String> {
    let plain = |text: &str| f64::from_str(text.trim()).ok();
    let number = if let Some((over, under)) = value.split_once('/') {
        plain(over).zip(plain(under)).map(|(a, b)| a / b)
    } else if let Some(percent) = value.strip_suffix('%') {
        plain(percent).map(|p| p / 100.0)
    } else {
        plain(value)
    };
    let share = number.filter(|n| *n > 0.0 && *n <= 1.0);
    share.ok_or_else(|| "write a share above 0 and up to 1, such as 0.25 or 1/4".to_owned())
}

fn time(value: &str, max: Duration) -> Result<u32, String> {
    let hint = || format!("write a time up to {} s, such as 10ms", max.as_secs_f64());
    let time = parse_duration(value).ok().filter(|t| *t <= max).ok_or_else(hint)?;
    u32::try_from(time.as_micros()).map_err(|_| hint())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

fn on_off(on: bool) -> String {
    if on { "on".to_owned() } else { "off".to_owned() }
}

fn microseconds(us: u32) -> String {
    format!("{us}us")
}

impl fmt::Display for Settings {
    /// `alpha=200 gamma=0.5 ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.parameters().iter().map(|p| format!("{}={}", p.key, p.value)).collect();
        f.write_str(&pairs.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_settings_can_be_parsed() {
        for algorithm in Algorithm::ALL {
            let usual = Settings::of(algorithm);
            let mut again = usual;
            for p in usual.parameters() {
                again.set(p.key, &p.value).unwrap();
            }
            assert_eq!(again, usual);
            assert_eq!(Settings::from_words(algorithm, &usual.to_words()), Some(usual));
        }
    }

    #[test]
    fn parameters_have_units_and_limits() {
        let mut fast = Settings::of(Algorithm::Fast);
        for (key, value) in [("alpha", "200"), ("gamma", "1"), ("weight", "1/256"), ("period", "20ms"), ("rest", "off")]
        {
            fast.set(key, value).unwrap();
        }
        let Settings::Fast(set) = fast else { panic!() };
        assert_eq!((set.alpha, set.gamma, set.average_divisor_min, set.period_us), (200, 256, 256, 20_000));
        assert!(!set.every_other);
        for (key, value) in
            [("alpha", "0"), ("alpha", "many"), ("gamma", "1.5"), ("gamma", "0"), ("period", "11s"), ("rest", "maybe")]
        {
            let error = fast.set(key, value).unwrap_err().to_string();
            assert!(error.contains(&format!("{key}={value}: write")), "{error}");
        }
        let error = fast.set("beta", "1").unwrap_err().to_string();
        assert!(error.contains("fast has no parameter `beta`; it has alpha, gamma"), "{error}");
    }

    #[test]
    fn a_name_starts_with_its_algorithm() {
        assert_eq!(Algorithm::of_name("fast_a200"), Some(Algorithm::Fast));
        assert_eq!(Algorithm::of_name("htcp"), Some(Algorithm::Htcp));
        assert_eq!(Algorithm::of_name("faster"), None);
        // The kernel rejects hyphens in names of congestion controls in BPF.
        assert_eq!(Algorithm::of_name("fast-a200"), None);
    }
}
