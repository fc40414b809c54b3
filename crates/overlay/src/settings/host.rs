//! What the settings leave to this host, and what of it is worth a warning.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use kernel::Netlink;
use route::{Begin, Model};

use super::{Endpoint, MemberSettings, PolicyName, Settings};

/// The hardware of a tunnel of IP packets (ARPHRD_NONE in linux/if_arp.h); that of frames has Ethernet's.
const NONE: u16 = 65_534;

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

    /// Looks whether the device and the files that they name are somebody else's, which they would be at the next try, too. Changes nothing.
    /// `has_events`: whether a file has events in it, or nothing.
    pub(crate) fn name_nothing_foreign(&self, has_events: fn(&Path) -> bool) -> Result<(), String> {
        if is_foreign_device(&self.device) {
            return Err(format!("`device` is {}, which is there and is no tunnel device", self.device));
        }
        if let Some(path) = self.events.as_ref().filter(|path| !has_events(path)) {
            let rest = "is there already and has no events in it; `events` takes a name of its own";
            return Err(format!("{} {rest}", path.display()));
        }
        match self.record.as_ref().filter(|path| is_foreign_to_records(path)) {
            Some(path) => Err(format!(
                "{} is there already and is no record that this program wrote; `record` takes a name of its own",
                path.display()
            )),
            None => Ok(()),
        }
    }

    /// Takes the kernel's default congestion control for what flows run by, where the settings name none and the rules bring no formula.
    pub(crate) fn fill_in(&mut self, default: Option<String>) {
        if self.policy == PolicyName::Default && self.model.is_none() && self.congestion_control.is_none() {
            self.congestion_control = default;
        }
    }
}

/// Whether the device is there and is no tunnel of packets. Where the kernel does not tell, the start will.
fn is_foreign_device(name: &str) -> bool {
    let Ok(devices) = Netlink::open().and_then(|mut netlink| netlink.links()) else { return false };
    devices.iter().any(|d| d.name == name && (d.kind.as_deref() != Some("tun") || d.hardware != NONE))
}

/// Whether something is there that is neither a record nor empty. Where that cannot be told, the start goes on without a record.
fn is_foreign_to_records(path: &Path) -> bool {
    let Ok(there) = fs::symlink_metadata(path) else { return false };
    let first_line = || -> io::Result<String> {
        let mut line = String::new();
        BufReader::new(File::open(path)?).read_line(&mut line)?;
        Ok(line)
    };
    let is_ours = || there.len() == 0 || first_line().is_ok_and(|line| Begin::parse(&line).is_ok());
    !(there.is_file() && is_ours())
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

    #[test]
    fn what_is_no_record_is_foreign_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions");
        assert!(!is_foreign_to_records(&path), "it is not there yet");
        let record = "{\"longhaul_route_record\":1,\"own\":1,\"policy\":{}}\n";
        for (text, foreign) in [("", false), (record, false), ("key = 7\n", true), ("{}\n", true)] {
            fs::write(&path, text).unwrap();
            assert_eq!(is_foreign_to_records(&path), foreign, "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(is_foreign_to_records(folder.path()));
    }

    #[test]
    fn a_device_of_another_kind_is_foreign() {
        assert!(is_foreign_device("lo"));
        assert!(!is_foreign_device("no-such-device"));
    }
}
