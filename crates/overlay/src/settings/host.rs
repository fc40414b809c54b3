//! Defaults from this host, and warnings about the settings.

use route::Model;

use super::{Endpoint, MemberSettings, PolicyName, Settings};

impl Settings {
    /// Takes the default congestion control from the kernel, as the rate predictions assume that of this host. Returns
    /// warnings about the settings.
    pub fn fill_in_from_host(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        let available = kernel::read_sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
        if let Some(name) = &self.congestion_control
            && !Model::knows(name)
            && !available.split_whitespace().any(|a| a == name)
        {
            warnings.push(format!(
                "`congestion_control` = {name} is unknown to this kernel and to the rate models; the predictions assume \
                 a rate-based sender"
            ));
        }
        warnings.extend(self.members.get().values().filter_map(endpoint_warning));
        self.fill_in(kernel::accepted_congestion_control());
        warnings
    }

    /// Sets the congestion control to the default of the kernel, unless the settings have one, a model, or the policy
    /// of the paper.
    pub(crate) fn fill_in(&mut self, default: Option<String>) {
        if self.policy == PolicyName::Default && self.model.is_none() && self.congestion_control.is_none() {
            self.congestion_control = default;
        }
    }
}

/// Warning about a peer whose subnets contain its endpoint.
fn endpoint_warning(member: &MemberSettings) -> Option<String> {
    let Some(Endpoint::Address(at)) = &member.endpoint else { return None };
    let net = member.subnets.iter().find(|net| net.contains(&at.ip().to_canonical()))?;
    Some(format!(
        "the endpoint of {}, {at}, is in its own network {net} (`subnets`); without a more specific route of this host \
         the tunnel's datagrams enter the tunnel",
        member.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn an_endpoint_inside_the_subnets_of_its_member_causes_a_warning() {
        let member = |endpoint: &str| MemberSettings {
            name: "east".to_owned(),
            key: Identity::from_seed(&[2; 32]).public(),
            endpoint: Some(endpoint.parse().unwrap()),
            subnets: vec!["10.77.0.2/32".parse().unwrap(), "192.0.2.0/24".parse().unwrap()],
            direct: true,
        };
        for within in ["192.0.2.1", "[::ffff:192.0.2.1]:7"] {
            let warning = endpoint_warning(&member(within)).unwrap();
            assert!(warning.contains("the endpoint of east, ") && warning.contains("192.0.2.0/24"), "{warning}");
        }
        for elsewhere in ["198.51.100.1", "2001:db8::1", "east.example.net"] {
            assert_eq!(endpoint_warning(&member(elsewhere)), None);
        }
    }
}
