//! Access of other users of the host to a node and its files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

use testbed::{Namespace, or_skip};

use crate::common::{longhaul, text};
use crate::setup::{Node, init, overlay, put_before, wait_for_start};

#[test]
fn files_of_a_node_are_private_and_symbolic_links_are_not_followed() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    init(directory.path(), "west", "10.77.0.1");
    put_before(directory.path(), "west", "event_log = \"west.events\"\ndecision_log = \"west.record\"");
    let start = || {
        let mut command = Command::new("sh");
        let run = format!("umask 0; exec {} overlay up --config west.toml", longhaul().get_program().display());
        Node(host.start(command.args(["-c", &run]).current_dir(directory.path())).unwrap())
    };
    // In a world-writable directory, another user could plant such links; a write through one would overwrite its
    // target.
    fs::write(at("victim"), "precious\n").unwrap();
    symlink(at("victim"), at("west.start.new")).unwrap();
    symlink(at("victim"), at("west.start")).unwrap();
    let mut member = start();
    wait_for_start(directory.path(), "west");
    for name in ["west.sock", "west.start", "west.events", "west.record", "west.key", "west.toml"] {
        let metadata = fs::symlink_metadata(at(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o600, "{name}");
        assert!(metadata.is_file() || metadata.file_type().is_socket(), "{name}");
    }
    assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
    assert_eq!(member.0.wait().unwrap().code(), Some(0));

    // An existing file keeps its mode, and the start refuses a link to a file.
    fs::set_permissions(at("west.events"), Permissions::from_mode(0o640)).unwrap();
    member = start();
    wait_for_start(directory.path(), "west");
    assert_eq!(fs::metadata(at("west.events")).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
    assert_eq!(member.0.wait().unwrap().code(), Some(0));
    fs::write(at("others"), "{}\n").unwrap();
    fs::remove_file(at("west.events")).unwrap();
    symlink(at("others"), at("west.events")).unwrap();
    let refused = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is a link to a file"), "{}", text(&refused.stderr));
    assert_eq!(
        fs::read_to_string(at("victim")).unwrap() + &fs::read_to_string(at("others")).unwrap(),
        "precious\n{}\n"
    );
}
