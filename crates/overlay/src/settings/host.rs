//! What the settings leave to this host, and what of it is worth a warning.

use route::Model;

use super::{PolicyName, Settings};

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
        warnings
    }

    /// Takes the kernel's default congestion control for what flows run by, where the settings name none and the rules bring no formula.
    pub(crate) fn fill_in(&mut self, default: Option<String>) {
        if self.policy == PolicyName::Default && self.model.is_none() && self.congestion_control.is_none() {
            self.congestion_control = default;
        }
    }
}
