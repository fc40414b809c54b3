//! Access of other users of the host to a node and its files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{Lan, Namespace, or_skip};

use crate::common::{longhaul, text};
use crate::setup::{Node, init, join, overlay, put_before, up, wait_for_start};

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

#[test]
fn an_event_log_on_standard_output_is_appended_to_the_file_of_the_redirection() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let [west, east] =
        [("west", "10.77.0.1"), ("east", "10.77.0.2")].map(|(name, ip)| init(directory.path(), name, ip));
    join(directory.path(), "west", &format!("{east}endpoint = \"{}\"\n", lan.server_ip()));
    join(directory.path(), "east", &format!("{west}endpoint = \"{}\"\n", lan.client_ip()));
    let _east = Node(up(&lan.server, directory.path(), "east"));
    let settings = fs::read_to_string(at("west.toml")).unwrap();
    let program = longhaul().get_program().display().to_string();
    for (path, redirection) in
        [("/dev/stdout", ">> lines"), ("/dev/stderr", "> log 2>> lines"), ("/dev/stdout", "> lines")]
    {
        fs::write(at("west.toml"), format!("event_log = \"{path}\"\n{settings}")).unwrap();
        // A line that is no event, as a shell or a supervisor may write before the member starts.
        fs::write(at("lines"), "earlier line\n").unwrap();
        let inode = fs::metadata(at("lines")).unwrap().ino();
        let run = format!("{{ echo started; {program} overlay up --config west.toml; echo ended; }} {redirection}");
        let mut member =
            Node(lan.client.start(Command::new("sh").args(["-c", &run]).current_dir(directory.path())).unwrap());
        wait_for_start(directory.path(), "west");
        let start = Instant::now();
        while !fs::read_to_string(at("lines")).unwrap().contains("\"event\"") {
            assert!(start.elapsed() < Duration::from_secs(20), "no event of the link to the other member");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
        assert_eq!(member.0.wait().unwrap().code(), Some(0), "{path} {redirection}");
        let written = fs::read_to_string(at("lines")).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert!(lines.iter().any(|l| l.starts_with('{') && l.contains("\"event\"")), "{path} {redirection}: {written}");
        assert_eq!(lines.contains(&"earlier line"), redirection.contains(">>"), "{path} {redirection}: {written}");
        if path == "/dev/stdout" {
            assert!(lines.contains(&"started") && lines.last() == Some(&"ended"), "{redirection}: {written}");
        }
        assert_eq!(fs::metadata(at("lines")).unwrap().ino(), inode, "the file was replaced");
    }
}
