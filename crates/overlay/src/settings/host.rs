//! What the settings leave to this host, and what of it is worth a warning.

use route::Model;

use super::{Endpoint, MemberSettings, PolicyName, Settings};

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
        warnings.extend(self.members.get().values().filter_map(around_itself));
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

/// What is worth a warning of a member that serves the network of its own endpoint.
fn around_itself(member: &MemberSettings) -> Option<String> {
    let Some(Endpoint::Address(at)) = &member.endpoint else { return None };
    let net = member.subnets.iter().find(|net| net.contains(&at.ip().to_canonical()))?;
    Some(format!(
        "the endpoint of {}, {at}, is in its own network {net} (`subnets`): unless this host has another route to it, the tunnel's datagrams go into the tunnel",
        member.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn an_endpoint_in_a_network_behind_it_is_worth_a_warning() {
        let member = |endpoint: &str| MemberSettings {
            name: "east".to_owned(),
            key: Identity::from_seed(&[2; 32]).public(),
            endpoint: Some(endpoint.parse().unwrap()),
            subnets: vec!["10.77.0.2/32".parse().unwrap(), "192.0.2.0/24".parse().unwrap()],
            direct: true,
        };
        for within in ["192.0.2.1", "[::ffff:192.0.2.1]:7"] {
            let warning = around_itself(&member(within)).unwrap();
            assert!(warning.contains("the endpoint of east, ") && warning.contains("192.0.2.0/24"), "{warning}");
        }
        for elsewhere in ["198.51.100.1", "2001:db8::1", "east.example.net"] {
            assert_eq!(around_itself(&member(elsewhere)), None);
        }
    }
}
