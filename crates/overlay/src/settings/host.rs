//! What the settings leave to this host, and what of it is worth a warning.

use std::time::Duration;

use route::Model;

use super::{PolicyName, Settings};

/// A certificate that ends sooner is warned of.
const CERTIFICATE_ENDS_SOON: Duration = Duration::from_secs(7 * 24 * 3600);

impl Settings {
    /// Takes from the kernel what the settings leave to it: the congestion control of this host's flows, by which rates are predicted. Gives what is
    /// worth a warning.
    pub fn fill_in_from_host(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        let available = kernel::read_sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
        if let Some(name) = &self.congestion_control
            && !Model::knows(name)
            && !available.split_whitespace().any(|a| a == name)
        {
            warnings.push(format!(
                "`congestion_control` is {name}, which neither this kernel has nor the predictions know: they take it for one that sends at a rate"
            ));
        }
        self.fill_in(kernel::accepted_congestion_control());
        warnings.extend(self.certified_until_utc_s.and_then(|until| ends_soon(until, kernel::utc_seconds().0)));
        warnings
    }

    /// Takes the kernel's default congestion control for what flows run by, where the settings name none and the rules bring no formula.
    pub(crate) fn fill_in(&mut self, default: Option<String>) {
        if self.policy == PolicyName::Default && self.model.is_none() && self.congestion_control.is_none() {
            self.congestion_control = default;
        }
    }
}

/// What there is to say of a certificate that holds until then.
fn ends_soon(until_utc_s: u64, now_utc_s: u64) -> Option<String> {
    let left = until_utc_s.saturating_sub(now_utc_s);
    if left == 0 {
        return Some(
            "the time of `certificate` is over: who knows this member by it alone does not let it in".to_owned(),
        );
    }
    let (hours, minutes) = (left / 3600, left / 60 % 60);
    (left < CERTIFICATE_ENDS_SOON.as_secs()).then(|| format!("`certificate` ends in {hours} h {minutes} min"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_spoken_of_a_week_before_it_ends() {
        const WEEK: u64 = 7 * 24 * 3600;
        assert_eq!(ends_soon(WEEK + 5, 5), None);
        assert_eq!(ends_soon(WEEK + 4, 5).as_deref(), Some("`certificate` ends in 167 h 59 min"));
        for over in [5, 4] {
            assert!(ends_soon(over, 5).unwrap().contains("is over"));
        }
    }
}
