//! Reloading the configuration of a running node.

use std::fs;
use std::path::Path;

use results::Direction;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::setup::{EAST, Members, TRANSFER_BYTES, init, join, overlay, status, transferred};

/// Output of `overlay reload` of the first node, and its exit status.
fn reload(directory: &Path) -> (String, Option<i32>) {
    let output = overlay(directory, &["reload", "--config", "west.toml"]);
    (text(&output.stdout) + &text(&output.stderr), output.status.code())
}

#[test]
fn a_reload_adds_and_removes_a_peer_without_disturbing_others() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let directory = members.directory.path();
    let file = directory.join("west.toml");
    let before = fs::read_to_string(&file).unwrap();
    assert_eq!(reload(directory), ("peers and certificate are unchanged\n".to_owned(), Some(0)));

    // Nothing is applied from an invalid configuration, and the error is reported.
    fs::write(&file, format!("{before}\nx = 1\n")).unwrap();
    let (message, status_code) = reload(directory);
    assert!(message.contains("unknown field `x`") && message.contains("the configuration is unchanged"), "{message}");
    assert_eq!(status_code, Some(2));
    fs::write(&file, &before).unwrap();

    let joined = join(directory, "west", &init(directory, "north", "10.77.0.3"));
    assert!(text(&joined.stderr).contains("overlay reload --config west.toml"), "{}", text(&joined.stderr));
    let listed = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("switch_margin = 0.4\n{listed}")).unwrap();
    assert_eq!(
        reload(directory),
        ("added: north\nchanged keys that need a restart: switch_margin\n".to_owned(), Some(0))
    );
    let has_peer = |name: &str| {
        let members = status(directory, "west")["members"].clone();
        members.as_array().unwrap().iter().any(|m| m["name"] == name)
    };
    let routes = || lan.client.iproute("ip route show dev lh0").unwrap();
    assert!(has_peer("north") && routes().contains("10.77.0.3"), "{}", routes());

    fs::write(&file, &before).unwrap();
    assert_eq!(reload(directory), ("removed: north\n".to_owned(), Some(0)));
    assert!(!has_peer("north") && has_peer("east"));
    assert!(!routes().contains("10.77.0.3") && routes().contains(EAST), "{}", routes());
    assert_eq!(transferred(&lan.client, Direction::Up, (&lan.server, EAST)), TRANSFER_BYTES);
    let events = text(&overlay(directory, &["events", "--json", "--config", "west.toml"]).stdout);
    assert_eq!(
        events.matches(r#""event":"session""#).count(),
        1,
        "only the session with east from the start: {events}"
    );
}
