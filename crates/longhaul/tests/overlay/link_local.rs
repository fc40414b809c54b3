//! Nodes on a link with link-local addresses only.

use results::Direction;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::setup::{EAST, Members, TRANSFER_BYTES, init, init_with, join, overlay, put_before, status, transferred};

#[test]
fn nodes_connect_over_link_local_addresses_with_a_device() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("ip address add fe80::77:1/64 dev eth0 nodad").unwrap();
    lan.server.iproute("ip address add fe80::77:2/64 dev eth0 nodad").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let west = init_with(directory.path(), "west", &["--address", "10.77.0.1", "--endpoint", "fe80::77:1%eth0"]);
    let east = init(directory.path(), "east", EAST);
    // A link-local endpoint without a device is rejected.
    let bare = join(directory.path(), "west", &format!("{east}endpoint = \"[fe80::77:2]:5460\"\n"));
    assert_ne!(bare.status.code(), Some(0));
    let expected = "needs the device of its link: `[fe80::77:2%eth0]:5460`";
    assert!(text(&bare.stderr).contains(expected), "{}", text(&bare.stderr));
    assert_eq!(
        join(directory.path(), "west", &format!("{east}endpoint = \"[fe80::77:2%eth0]:5460\"\n")).status.code(),
        Some(0)
    );
    assert!(west.contains("endpoint = \"fe80::77:1%eth0\""), "{west}");
    assert_eq!(join(directory.path(), "east", &west).status.code(), Some(0));
    let planned = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    assert!(text(&planned.stdout).contains("is contacted at [fe80::77:2%eth0]:5460"), "{}", text(&planned.stdout));
    let members = Members::up(&lan, directory);
    let endpoint = |name: &str| status(members.directory.path(), name)["members"][0]["link"]["endpoint"].clone();
    assert_eq!([endpoint("west"), endpoint("east")], ["[fe80::77:2%eth0]:5460", "[fe80::77:1%eth0]:5460"]);
    assert_eq!(transferred(&lan.client, Direction::Up, (&lan.server, EAST)), TRANSFER_BYTES);
    drop(members);

    // `listen` may name a link-local address with its device.
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    put_before(directory.path(), "west", "listen = \"[fe80::77:1%nothing]:5460\"");
    let refused = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    let message = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && message.contains("`listen`") && message.contains("device nothing"),
        "{message}"
    );
}
