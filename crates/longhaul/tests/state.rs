//! State directories that `longhaul` trusts.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests are tests too; notes of skipped ones")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::text;
use tempfile::TempDir;

// Ids of two users that no host has.
const VICTIM_ID: u32 = 31_337;
const OTHER_ID: u32 = 31_338;

/// Directory for temporary files that is writable for all users, like /tmp, with a copy of the program that all can
/// run.
struct Shared(TempDir);

impl Shared {
    /// Creates the directory; `None`, with a note, without root.
    fn new() -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("skipped: only root can become two other users");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_longhaul"), directory.path().join("longhaul")).unwrap();
        Some(Self(directory))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program as the victim, without environment variables that locate its state.
    fn longhaul(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.at("longhaul"));
        command.args(arguments).env("TMPDIR", self.0.path()).env_remove("XDG_RUNTIME_DIR").env_remove("LONGHAUL_STATE");
        command.uid(VICTIM_ID).gid(VICTIM_ID).current_dir("/").stdin(Stdio::null()).output().unwrap()
    }

    /// State directory of the victim, created by another user with a mode.
    fn plant(&self, user: u32, mode: u32) -> PathBuf {
        let state = self.at("longhaul-31337");
        fs::create_dir_all(state.join("labs")).unwrap();
        for directory in [&state, &state.join("labs")] {
            fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
            chown(directory, Some(user), Some(user)).unwrap();
        }
        state
    }
}

/// Writes the entry of an ended lab whose directory is marked as temporary, so that gc would remove it.
fn write_entry(state: &Path, directory: &Path, user: u32) {
    let ended_process = serde_json::json!({ "pid": 4_194_303, "started_ticks": 1 });
    let entry = serde_json::json!({
        "name": "planted", "lab": ended_process, "keeper": ended_process, "start_utc_s": 0, "directory": directory, "temporary": true, "nodes": [],
    });
    let file = state.join("labs/1.json");
    fs::write(&file, entry.to_string()).unwrap();
    chown(file, Some(user), Some(user)).unwrap();
}

#[test]
fn a_state_directory_of_another_user_is_rejected() {
    let Some(shared) = Shared::new() else { return };
    let precious = shared.at("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "7").unwrap();
    chown(&precious, Some(VICTIM_ID), Some(VICTIM_ID)).unwrap();
    for (user, mode, why) in [
        (OTHER_ID, 0o755, "belongs to user 31338, not to user 31337"),
        (VICTIM_ID, 0o777, "other users may write to it (mode 0777)"),
    ] {
        let state = shared.plant(user, mode);
        write_entry(&state, &precious, user);
        for arguments in [&["lab", "gc"][..], &["lab", "status"], &["shape", "show"]] {
            let out = shared.longhaul(arguments);
            let message = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{arguments:?}: {message}");
            assert!(message.contains("longhaul-31337: ") && message.contains(why), "{arguments:?}: {message}");
        }
        assert!(precious.join("file").exists() && state.join("labs/1.json").exists());
    }
}

#[test]
fn gc_removes_only_directories_of_labs() {
    let Some(shared) = Shared::new() else { return };
    let precious = shared.at("precious");
    fs::create_dir(&precious).unwrap();
    chown(&precious, Some(VICTIM_ID), Some(VICTIM_ID)).unwrap();
    // The victim owns the entry, but its directory is no longer, or never was, a lab's.
    let state = shared.plant(VICTIM_ID, 0o700);
    write_entry(&state, &precious, VICTIM_ID);
    let out = shared.longhaul(&["lab", "gc"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("removed the entry of planted"), "{}", text(&out.stdout));
    assert!(precious.exists());
}
