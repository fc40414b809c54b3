//! The lab without root, where the machine allows user namespaces.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::host::Host;
use crate::common::lab::turn;
use crate::common::text;
use crate::{SMALL, file};

const UNPRIVILEGED_ID: u32 = 65_534;

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
fn an_unprivileged_user_can_run_a_lab_in_a_user_namespace() {
    let Some(_turn) = turn() else { return };
    let host = Host::now();
    // The build directory may be inaccessible to other users, so a copy of the binary is used.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = directory.path().join("longhaul");
    // `cp` writes the copy: a child that this process starts meanwhile would inherit a descriptor open for writing.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_longhaul")).arg(&binary).status().unwrap().success());
    let unprivileged = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command
            .args(arguments)
            .uid(UNPRIVILEGED_ID)
            .gid(UNPRIVILEGED_ID)
            .current_dir(directory.path())
            .stdin(Stdio::null());
        command.env("LONGHAUL_STATE", directory.path().join("state")).output()
    };
    let path = match unprivileged(&["lab", "path", "--quiet", "--rtt", "2ms", "--", "echo $LONGHAUL_PEER"]) {
        Ok(path) => path,
        Err(e) => {
            eprintln!("skipped: only root can become another user: {e}");
            return;
        }
    };
    let message = text(&path.stderr);
    if message.contains("a lab needs") {
        eprintln!("skipped: {message}");
        return;
    }
    assert_eq!(text(&path.stdout), "10.0.0.2\n", "{message}");
    let small = file(directory.path(), SMALL);
    let run = unprivileged(&["lab", "run", &small, "--out", "out"]).unwrap();
    let shown = text(&run.stdout);
    assert!(shown.contains("privilege: user namespace"), "{shown}{}", text(&run.stderr));
    assert!(run.status.success() || shown.contains("INVALID"), "{shown}{}", text(&run.stderr));
    assert_eq!(std::fs::read_dir(directory.path().join("state").join("labs")).unwrap().count(), 0);
    assert_eq!(Host::now(), host);
}
