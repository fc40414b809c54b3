//! Keys and settings of members.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{longhaul, text};

/// `longhaul overlay` in a folder.
pub(crate) fn overlay(folder: &Path, arguments: &[&str]) -> Output {
    longhaul().current_dir(folder).arg("overlay").args(arguments).output().unwrap()
}

pub(crate) fn init(folder: &Path, name: &str, address: &str) -> String {
    let file = format!("{name}.toml");
    let made = overlay(folder, &["init", "--config", &file, "--address", address, "--secret", "of this test alone"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    text(&made.stdout)
}

/// The same, with lines on its standard input.
pub(crate) fn overlay_with(folder: &Path, arguments: &[&str], lines: &str) -> Output {
    let mut command = longhaul();
    command.current_dir(folder).arg("overlay").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn join(folder: &Path, name: &str, lines: &str) -> Output {
    overlay_with(folder, &["join", "--config", &format!("{name}.toml")], lines)
}
