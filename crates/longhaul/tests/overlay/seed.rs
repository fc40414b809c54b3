//! Members that know one other only, as the guide tells: by certificates of an authority, real processes on three
//! hosts.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use results::Direction;
use serde_json::Value;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::networks::behind;
use crate::setup::{MEGABYTES_3, Members, carried, init, join, overlay, overlay_with, put_before, status, up};

/// Makes an authority; gives the line of settings that trusts it.
fn authority(directory: &Path, key: &str) -> String {
    text(&overlay(directory, &["ca", "init", "--key", key]).stdout)
}

/// Settings of a member that has a certificate by this key, trusts `authority`, and knows the seed.
fn certified(directory: &Path, (name, address): (&str, &str), key: &str, authority: &str, seed: &str) {
    let lines = init(directory, name, address);
    let certificate = overlay_with(directory, &["ca", "sign", "--key", key, "--valid", "1h"], &lines);
    assert_eq!(certificate.status.code(), Some(0), "{}", text(&certificate.stderr));
    fs::write(directory.join(format!("{name}.cert")), certificate.stdout).unwrap();
    assert_eq!(join(directory, name, seed).status.code(), Some(0));
    put_before(directory, name, &format!("{authority}certificate = \"{name}.cert\"\n"));
}

/// What a member says of another one, if it knows it.
fn of_member(directory: &Path, at: &str, other: &str) -> Option<Value> {
    let told = status(directory, at);
    told["members"].as_array()?.iter().find(|m| m["name"] == other).cloned()
}

/// Waits until what a member says of another one is so.
pub(crate) fn waits_for(directory: &Path, (at, other): (&str, &str), is_so: impl Fn(&Value) -> bool) {
    let began = Instant::now();
    while !of_member(directory, at, other).is_some_and(|m| is_so(&m)) {
        assert!(began.elapsed() < Duration::from_secs(20), "{at} of {other}: {:#}", status(directory, at));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn members_that_know_the_seed_find_each_other_and_stay_when_it_is_gone() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let host = behind(&lan);
    lan.client.iproute(&format!("ip route add 192.168.7.0/24 via {}", lan.server_ip())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (ours, others) = (authority(path, "net.key"), authority(path, "other.key"));
    let seed = format!("{}endpoint = \"{}\"\n", init(path, "west", "10.77.0.1"), lan.client_ip());
    put_before(path, "west", &ours);
    certified(path, ("north", "10.77.0.2"), "net.key", &ours, &seed);
    certified(path, ("south", "10.77.0.3"), "net.key", &ours, &seed);
    // A node with a certificate of another authority.
    certified(path, ("stranger", "10.77.0.4"), "other.key", &others, &seed);

    let at = [(&lan.client, "west"), (&lan.server, "north"), (&host, "south")];
    let mut running: Vec<Child> = at.iter().map(|(at, name)| up(at, path, name)).collect();
    let mut west = running.remove(0);
    let members = Members::of(running, directory);
    let path = members.directory.path();
    // Each has its own port in a host of its own; the stranger is in that of the first one.
    put_before(path, "stranger", "listen = \"0.0.0.0:5461\"\ndevice = \"lh1\"\n");
    let stranger = Members::of(vec![up(&lan.client, path, "stranger")], tempfile::tempdir().unwrap());
    // It gets a reply, so that it can present its certificate, and is then ignored.
    waits_for(path, ("stranger", "west"), |west| west["link"]["cipher"].is_string());
    let is_direct = |m: &Value| m["link"]["up"] == true && m["routes"][0]["relays"] == Value::Array(vec![]);
    for pair in [("west", "north"), ("west", "south"), ("north", "south"), ("south", "north")] {
        waits_for(path, pair, is_direct);
    }
    assert!(of_member(path, "stranger", "west").is_some_and(|m| m["link"]["up"] == false));
    assert!(of_member(path, "west", "stranger").is_none());
    drop(stranger);

    // The seed is not a relay.
    west.kill().unwrap();
    west.wait().unwrap();
    assert_eq!(carried(&lan.server, Direction::Up, (&host, "10.77.0.3")), MEGABYTES_3);
    let south = of_member(path, "north", "south").unwrap();
    assert!(south["link"]["tx_bytes"].as_u64().is_some_and(|b| b > MEGABYTES_3), "{south:#}");
}
