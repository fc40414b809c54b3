//! The lab without root, where the machine allows user namespaces.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::host::Host;
use crate::common::lab::turn;
use crate::common::text;
use crate::{SMALL, file};

const NOBODY: u32 = 65_534;

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
fn nobody_can_run_a_lab_and_is_told_by_which_right() {
    let Some(_turn) = turn() else { return };
    let host = Host::now();
    // The build folder may be closed to others: a copy that everyone can run, elsewhere.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = folder.path().join("longhaul");
    // Not written by this process: a child started meanwhile would hold it open for writing.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_longhaul")).arg(&binary).status().unwrap().success());
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir(folder.path()).stdin(Stdio::null());
        command.env("LONGHAUL_STATE", folder.path().join("state")).output()
    };
    let path = match nobody(&["lab", "path", "--quiet", "--rtt", "2ms", "--", "echo $LONGHAUL_PEER"]) {
        Ok(path) => path,
        Err(e) => {
            eprintln!("skipped: only root can become somebody else: {e}");
            return;
        }
    };
    let said = text(&path.stderr);
    if said.contains("a lab needs") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(text(&path.stdout), "10.0.0.2\n", "{said}");
    let small = file(folder.path(), SMALL);
    let run = nobody(&["lab", "run", &small, "--out", "out"]).unwrap();
    let shown = text(&run.stdout);
    assert!(shown.contains("privilege: user namespace"), "{shown}{}", text(&run.stderr));
    assert!(run.status.success() || shown.contains("INVALID"), "{shown}{}", text(&run.stderr));
    assert_eq!(std::fs::read_dir(folder.path().join("state").join("labs")).unwrap().count(), 0);
    assert_eq!(Host::now(), host);
}
