//! Programs of a lab end with it, whatever ends it and whichever user runs it.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    reason = "helpers of tests are tests too"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout for processes to start and end: milliseconds normally, more under heavy load.
const TIMEOUT: Duration = Duration::from_secs(20);
const UNPRIVILEGED_ID: u32 = 65_534;
/// A script that detaches itself by all means: a new session, and an orphan whose parent has ended.
const DETACHED: &str = "setsid sh -c 'setsid sleep 1000 & setsid sleep 1000 & echo detached' & wait; exec sleep 1000";

/// The user who runs the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own,
    Unprivileged,
}

/// A copy of the helper that every user can run: the build directory may be closed to other users.
struct Helper {
    _directory: TempDir,
    program: PathBuf,
}

impl Helper {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = directory.path().join("kernel-lab");
        // The file is copied by `cp`: a child that another test starts meanwhile would inherit a descriptor open for
        // writing, and the helper could not be run.
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_kernel-lab")).arg(&program).status().unwrap().success());
        Self { _directory: directory, program }
    }

    fn command(&self, user: User, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir("/usr").stdin(Stdio::piped()).stdout(Stdio::piped());
        if user == User::Unprivileged {
            command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
        }
        command
    }

    /// Starts a lab; `None`, with a note, where this user cannot run one.
    fn lab(&self, user: User, arguments: &[&str]) -> Option<Lab> {
        let mut process = match self.command(user, &[&["lab"], arguments].concat()).spawn() {
            Ok(process) => process,
            Err(e) => {
                println!("skipped: only root can become another user: {e}");
                return None;
            }
        };
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let first = line(&mut out);
        if first.starts_with("gaining") {
            println!("skipped: {first}");
            process.wait().unwrap();
            return None;
        }
        let mut fields = first.splitn(4, ' ');
        let mut field = || fields.next().unwrap_or_else(|| panic!("{first}")).to_owned();
        Some(Lab {
            process,
            out,
            keeper: field(),
            namespace: field().parse().unwrap(),
            network: field(),
            privilege: field(),
        })
    }
}

struct Lab {
    process: Child,
    out: BufReader<ChildStdout>,
    keeper: String,
    namespace: u64,
    network: String,
    privilege: String,
}

impl Lab {
    /// Number of processes in the lab's PID namespace.
    fn processes(&self) -> usize {
        std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::metadata(entry.unwrap().path().join("ns/pid")).ok())
            .filter(|m| m.ino() == self.namespace)
            .count()
    }

    /// Number of running processes: one that has ended has no command line, whether or not it has been reaped.
    fn running(&self) -> usize {
        let members = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        members
            .filter(|path| std::fs::metadata(path.join("ns/pid")).is_ok_and(|m| m.ino() == self.namespace))
            .filter(|path| std::fs::read(path.join("cmdline")).is_ok_and(|text| !text.is_empty()))
            .count()
    }

    /// Waits for the init process, the script, and the two processes that it detached.
    fn await_detached(&mut self) {
        assert_eq!(line(&mut self.out), "detached");
        await_that("four processes", || self.running() >= 4);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn await_that(what: &str, holds: impl Fn() -> bool) {
    let limit = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The host's own devices, addresses and routes, by iproute2.
fn host() -> Vec<String> {
    let read = |line: &str| {
        let out = Command::new("ip").args(line.split(' ')).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    ["-o link show", "-4 -o address show", "route show table all", "-6 route show table all"].map(read).to_vec()
}

#[test]
fn killing_the_lab_leaves_no_process_behind() {
    let helper = Helper::new();
    for user in [User::Own, User::Unprivileged] {
        let before = host();
        let Some(mut lab) = helper.lab(user, &[DETACHED]) else { continue };
        lab.await_detached();
        lab.process.kill().unwrap();
        lab.process.wait().unwrap();
        await_that("a process outlived the lab", || lab.running() == 0);
        assert_eq!(host(), before);
    }
}

#[test]
fn killing_the_init_process_ends_all_programs_too() {
    let helper = Helper::new();
    let Some(mut lab) = helper.lab(User::Own, &[DETACHED]) else { return };
    lab.await_detached();
    assert!(Command::new("kill").args(["-9", &lab.keeper]).status().unwrap().success());
    await_that("a process outlived the init process", || lab.running() == 0);
    drop(lab.process.stdin.take());
    assert_eq!(line(&mut lab.out), "ended");
    assert_eq!(lab.processes(), 0);
    assert!(lab.process.wait().unwrap().success());
}

#[test]
fn a_lab_ends_its_programs_before_it_ends() {
    let helper = Helper::new();
    for user in [User::Own, User::Unprivileged] {
        let Some(mut lab) = helper.lab(user, &[DETACHED]) else { continue };
        lab.await_detached();
        drop(lab.process.stdin.take());
        assert_eq!(line(&mut lab.out), "ended");
        assert_eq!(lab.processes(), 0, "at once");
        assert!(lab.process.wait().unwrap().success());
    }
}

#[test]
fn a_terminals_interrupt_reaches_neither_keeper_nor_programs() {
    let helper = Helper::new();
    let Some(mut lab) = helper.lab(User::Own, &["echo here; sleep 1000"]) else { return };
    assert_eq!(line(&mut lab.out), "here");
    let group = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().to_owned()
    };
    let own = group(&lab.process.id().to_string());
    assert_eq!(group(&lab.keeper), lab.keeper);
    assert_ne!(group(&lab.keeper), own);
    let inside = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let member = std::fs::metadata(path.join("ns/pid")).is_ok_and(|m| m.ino() == lab.namespace);
        member.then(|| path.file_name().unwrap().to_string_lossy().into_owned())
    });
    let groups: Vec<String> = inside.map(|process| group(&process)).collect();
    assert!(groups.len() >= 2 && !groups.contains(&own), "{groups:?}");
}

/// Prints a program's view of its host, one item a line.
const VIEW: &str = "echo $(ls /sys/class/net); cat /etc/hosts; hostname 2>/dev/null || uname -n; pwd; echo $(cat /proc/1/comm); \
                    id -u; ip -o link show up | cut -d: -f2; cat /proc/sys/net/ipv4/ip_forward; \
                    ls -l /proc/self/fd | grep -cE 'net:|pidfd'; grep SigIgn /proc/self/status";

#[test]
fn a_program_sees_its_own_host() {
    let helper = Helper::new();
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for user in [User::Own, User::Unprivileged] {
        let hosts = directory.path().join("hosts");
        std::fs::write(&hosts, "10.0.0.1 sender\n").unwrap();
        let Some(mut lab) = helper.lab(user, &[VIEW, hosts.to_str().unwrap()]) else { continue };
        // Once the init process is ready the file is no longer needed.
        std::fs::remove_file(&hosts).unwrap();
        // The last ones are the setting that was written for the host, and the number of lab descriptors that leaked
        // into the program.
        let expected = ["lo", "10.0.0.1 sender", "node1", "/usr", "kernel-lab", "0", " lo", "1", "0"];
        for what in expected {
            assert_eq!(line(&mut lab.out), what, "as {user:?}");
        }
        let ignored = line(&mut lab.out).replace("SigIgn:", "");
        // The C library reserves signals 32 and 33 and leaves them as they were.
        assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & !(3 << 31), 0, "{ignored}");
        let root = user == User::Own && std::fs::metadata("/proc/self").unwrap().uid() == 0;
        assert_eq!(lab.privilege, if root { "root" } else { "user namespace" });
        assert!(!std::fs::read_to_string("/etc/hosts").unwrap().contains("10.0.0.1 sender"), "the host's is untouched");
    }
}

#[test]
fn another_process_of_the_same_user_or_root_joins_a_host() {
    let helper = Helper::new();
    for (user, guest) in
        [(User::Own, User::Own), (User::Unprivileged, User::Unprivileged), (User::Unprivileged, User::Own)]
    {
        let Some(mut lab) = helper.lab(user, &["echo here; sleep 1000"]) else { continue };
        assert_eq!(line(&mut lab.out), "here");
        let network = format!("/proc/{}/fd/{}", lab.process.id(), lab.network);
        let node = std::fs::metadata(&network).unwrap().ino();
        let script = "echo $(ls /sys/class/net) $(readlink /proc/self/ns/net) $(hostname || uname -n) $(id -u) $(pwd); \
                      echo $(cat /proc/1/comm); ip link set lo mtu 1600 && echo changed; sleep 1000 & exit 0";
        let mut out = helper.command(guest, &["join", &lab.keeper, &network, script]).spawn().unwrap();
        let mut output = BufReader::new(out.stdout.take().unwrap());
        assert_eq!(line(&mut output), format!("lo net:[{node}] node1 0 /usr"), "{guest:?} joins {user:?}");
        assert_eq!(line(&mut output), "kernel-lab");
        assert_eq!(line(&mut output), "changed");
        assert!(out.wait().unwrap().success());
        // A process that the guest left behind ends with the lab.
        drop(lab.process.stdin.take());
        assert_eq!(line(&mut lab.out), "ended");
        assert_eq!(lab.processes(), 0);
        assert_eq!(line(&mut output), "");
    }
}

#[test]
fn refused_and_late_joins_are_explained() {
    let helper = Helper::new();
    let Some(mut lab) = helper.lab(User::Own, &["echo here; sleep 1000"]) else { return };
    assert_eq!(line(&mut lab.out), "here");
    let network = format!("/proc/{}/fd/{}", lab.process.id(), lab.network);
    let join = |user, keeper: &str, network: &str| {
        let out = helper.command(user, &["join", keeper, network, "true"]).output().ok()?;
        Some(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if let Some(output) = join(User::Unprivileged, &lab.keeper, &network).filter(|_| root) {
        assert!(output.contains("only the user who runs the lab, or root, may join it"), "{output}");
    }
    lab.process.kill().unwrap();
    lab.process.wait().unwrap();
    let output = join(User::Own, &lab.process.id().to_string(), &network).unwrap();
    assert!(output.contains("the lab has ended"), "{output}");
}

#[test]
fn privileges_are_gained_before_there_are_threads() {
    let helper = Helper::new();
    let Ok(out) = helper.command(User::Unprivileged, &["threaded"]).output() else {
        println!("skipped: only root can become another user");
        return;
    };
    let output = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(output.contains("the process has 2 threads; this needs a single one"), "{output}");
}

#[test]
fn the_helper_runs_only_as_an_init_process() {
    let helper = Helper::new();
    let out = helper.command(User::Own, &["keeper"]).output().unwrap();
    let output = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(output.contains("runs it as process 1"), "{output}");
    if kernel::gain().is_err() {
        println!("skipped: this process may not create a PID namespace");
        return;
    }
    let missing = "without a ready message";
    for (program, reason) in [("true", missing), ("no-such-program", "No such file"), ("yes", missing)] {
        let e = kernel::NamespaceInit::start(program.as_ref(), &[]).unwrap_err().to_string();
        assert!(e.contains(reason), "{e}");
    }
    let e = kernel::NamespaceInit::start("ls".as_ref(), &["/no such file"]).unwrap_err().to_string();
    assert!(e.contains("/no such file"), "{e}");
}
