//! Peers configured by host name.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{Lan, or_skip};

use crate::common::{longhaul, text};
use crate::setup::{Members, init, join, overlay};

/// Host name that only the hosts file of this test resolves (`.test`: RFC 6761, section 6.2).
const NAME: &str = "east.test";
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn a_node_starts_before_the_name_of_its_peer_resolves() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (west, east) = (init(directory.path(), "west", "10.77.0.1"), init(directory.path(), "east", "10.77.0.2"));
    let east = format!("{east}endpoint = \"{NAME}\"\n");
    for (name, lines) in [("west", east), ("east", west)] {
        assert_eq!(join(directory.path(), name, &lines).status.code(), Some(0));
    }
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let mut east_up = longhaul();
    let east_up = east_up.current_dir(directory.path()).args(["overlay", "up", "--config", "east.toml"]);
    // The node runs in a mount namespace with its own hosts file.
    let mut west_up = Command::new("unshare");
    // The DNS servers of this host may be unreachable, so the resolver's timeout is short.
    west_up.env("RES_OPTIONS", "timeout:1 attempts:1");
    let script = r#"mount --bind hosts /etc/hosts && exec "$0" overlay up --config west.toml"#;
    let west_up =
        west_up.current_dir(directory.path()).args(["--mount", "sh", "-c", script]).arg(longhaul().get_program());
    let running = vec![lan.client.start(west_up).unwrap(), lan.server.start(east_up).unwrap()];
    let members = Members::of(running, directory);
    let events = || text(&overlay(members.directory.path(), &["events", "--json", "--config", "west.toml"]).stdout);
    let start = Instant::now();
    while !events().contains(r#""endpoint":"east.test:5460","event":"unresolved""#) {
        assert!(start.elapsed() < TIMEOUT, "{}", events());
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut file = OpenOptions::new().append(true).open(&hosts).unwrap();
    writeln!(file, "{} {NAME}", lan.server_ip()).unwrap();
    members.wait_for_routes();
    assert_eq!(events().matches("unresolved").count(), 1, "the event is written once: {}", events());
}
