//! Nodes that have only the seed configured and certificates of an authority, as in the guide: real processes on three
//! hosts.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use results::Direction;
use serde_json::Value;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::networks::host_behind;
use crate::setup::{Members, TRANSFER_BYTES, init, join, overlay, overlay_with, put_before, status, transferred, up};

/// Creates an authority and returns the configuration line that trusts it.
fn authority(directory: &Path, key: &str) -> String {
    text(&overlay(directory, &["ca", "init", "--key", key]).stdout)
}

/// Creates the configuration of a node with a certificate signed by `key`, the trusted `authority` and the seed as its
/// only peer.
fn init_certified(directory: &Path, (name, address): (&str, &str), key: &str, authority: &str, seed: &str) {
    let lines = init(directory, name, address);
    let certificate = overlay_with(directory, &["ca", "sign", "--key", key, "--valid", "1h"], &lines);
    assert_eq!(certificate.status.code(), Some(0), "{}", text(&certificate.stderr));
    fs::write(directory.join(format!("{name}.cert")), certificate.stdout).unwrap();
    assert_eq!(join(directory, name, seed).status.code(), Some(0));
    put_before(directory, name, &format!("{authority}certificate = \"{name}.cert\"\n"));
}

/// Returns the status of a peer at a node, or `None` if the node does not have this peer.
fn peer_status(directory: &Path, at: &str, other: &str) -> Option<Value> {
    let report = status(directory, at);
    report["members"].as_array()?.iter().find(|m| m["name"] == other).cloned()
}

/// Waits until the status of a peer at a node satisfies the condition.
pub(crate) fn wait_for_peer(directory: &Path, (at, other): (&str, &str), condition: impl Fn(&Value) -> bool) {
    let start = Instant::now();
    while !peer_status(directory, at, other).is_some_and(|m| condition(&m)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{at} of {other}: {:#}", status(directory, at));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn nodes_that_know_the_seed_connect_and_continue_without_it() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let host = host_behind(&lan);
    lan.client.iproute(&format!("ip route add 192.168.7.0/24 via {}", lan.server_ip())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (ours, others) = (authority(path, "net.key"), authority(path, "other.key"));
    let seed = format!("{}endpoint = \"{}\"\n", init(path, "west", "10.77.0.1"), lan.client_ip());
    put_before(path, "west", &ours);
    init_certified(path, ("north", "10.77.0.2"), "net.key", &ours, &seed);
    init_certified(path, ("south", "10.77.0.3"), "net.key", &ours, &seed);
    // A node with a certificate of another authority.
    init_certified(path, ("stranger", "10.77.0.4"), "other.key", &others, &seed);

    let at = [(&lan.client, "west"), (&lan.server, "north"), (&host, "south")];
    let mut running: Vec<Child> = at.iter().map(|(at, name)| up(at, path, name)).collect();
    let mut west = running.remove(0);
    let members = Members::of(running, directory);
    let path = members.directory.path();
    // The stranger shares a host with west, so it needs a port and a device of its own.
    put_before(path, "stranger", "listen = \"0.0.0.0:5461\"\ndevice = \"lh1\"\n");
    let stranger = Members::of(vec![up(&lan.client, path, "stranger")], tempfile::tempdir().unwrap());
    // The seed completes the handshake with the stranger to receive its certificate, then ignores it.
    wait_for_peer(path, ("stranger", "west"), |west| west["link"]["cipher"].is_string());
    let is_direct = |m: &Value| m["link"]["up"] == true && m["routes"][0]["relays"] == Value::Array(vec![]);
    for pair in [("west", "north"), ("west", "south"), ("north", "south"), ("south", "north")] {
        wait_for_peer(path, pair, is_direct);
    }
    assert!(peer_status(path, "stranger", "west").is_some_and(|m| m["link"]["up"] == false));
    assert!(peer_status(path, "west", "stranger").is_none());
    drop(stranger);

    // The seed is not a relay.
    west.kill().unwrap();
    west.wait().unwrap();
    assert_eq!(transferred(&lan.server, Direction::Up, (&host, "10.77.0.3")), TRANSFER_BYTES);
    let south = peer_status(path, "north", "south").unwrap();
    assert!(south["link"]["tx_bytes"].as_u64().is_some_and(|b| b > TRANSFER_BYTES), "{south:#}");
}
