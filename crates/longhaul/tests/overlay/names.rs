//! Peers configured by host name.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{Lan, or_skip};

use crate::common::{longhaul, text};
use crate::setup::{Members, init, join, overlay};

/// A name that no resolver knows but the hosts file of this test (RFC 6761, section 6.2).
const NAME: &str = "east.test";
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_member_starts_before_the_name_of_another_is_known() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (west, east) = (init(directory.path(), "west", "10.77.0.1"), init(directory.path(), "east", "10.77.0.2"));
    let east = format!("{east}endpoint = \"{NAME}\"\n");
    for (name, lines) in [("west", east), ("east", west)] {
        assert_eq!(join(directory.path(), name, &lines).status.code(), Some(0));
    }
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let mut there = longhaul();
    let there = there.current_dir(directory.path()).args(["overlay", "up", "--config", "east.toml"]);
    // With a hosts file of its own.
    let mut here = Command::new("unshare");
    // Whoever is asked besides does not answer, or is not there.
    here.env("RES_OPTIONS", "timeout:1 attempts:1");
    let script = r#"mount --bind hosts /etc/hosts && exec "$0" overlay up --config west.toml"#;
    let here = here.current_dir(directory.path()).args(["--mount", "sh", "-c", script]).arg(longhaul().get_program());
    let running = vec![lan.client.start(here).unwrap(), lan.server.start(there).unwrap()];
    let members = Members::of(running, directory);
    let events = || text(&overlay(members.directory.path(), &["events", "--json", "--config", "west.toml"]).stdout);
    let began = Instant::now();
    while !events().contains(r#""endpoint":"east.test:5460","event":"unresolved""#) {
        assert!(began.elapsed() < PATIENCE, "{}", events());
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut file = OpenOptions::new().append(true).open(&hosts).unwrap();
    writeln!(file, "{} {NAME}", lan.server_ip()).unwrap();
    members.find_each_other();
    assert_eq!(events().matches("unresolved").count(), 1, "said once: {}", events());
}
