//! Changes in network namespaces, read back from /proc and by iproute2.

use std::fs;
use std::path::Path;
use std::process::Command;

use results::tune::{ChangeOutcome, TuneChange};
use tuning::{Change, Offload, Setting};

use super::*;

/// Runs the test in a new network namespace; prints a note if none can be created.
fn inside(test: impl FnOnce(&Path) + Send + 'static) {
    let Ok(namespace) = kernel::new_namespace().inspect_err(|e| eprintln!("skipped: no network namespace: {e}")) else {
        return;
    };
    let done = std::thread::spawn(move || {
        kernel::enter_namespace(&namespace).unwrap();
        let directory = tempfile::tempdir().unwrap();
        test(directory.path());
    });
    done.join().unwrap();
}

fn sysctl(key: &str, after: &str) -> Change {
    let setting = Setting::Sysctl(key.to_owned());
    Change { before: read(&setting).unwrap(), setting, after: after.to_owned() }
}

/// Content of the kernel's file.
fn bytes(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap()
}

fn two() -> [Change; 2] {
    [sysctl("net.ipv4.tcp_rmem", "4096 131072 50003968"), sysctl("net.ipv4.tcp_mtu_probing", "1")]
}

fn outcomes(changes: &[TuneChange]) -> Vec<(&str, ChangeOutcome)> {
    changes.iter().map(|t| (t.key.as_str(), t.outcome)).collect()
}

fn apply_all(directory: &Path, changes: &[Change]) -> Vec<TuneChange> {
    let mut outcomes = Vec::new();
    Session::open(directory).unwrap().apply(changes, None, &mut |c| outcomes.push(c)).unwrap();
    outcomes
}

fn undo_all(directory: &Path) -> (bool, Vec<TuneChange>) {
    let mut changes = Vec::new();
    let as_before = undo(directory, &Persistent::at(directory.join("none.conf")), &mut |c| changes.push(c)).unwrap();
    (as_before, changes)
}

fn journals(directory: &Path) -> usize {
    let files = fs::read_dir(directory.join("tune")).unwrap();
    files.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "json")).count()
}

#[test]
fn an_undo_restores_every_byte() {
    inside(|directory| {
        let before = [bytes("tcp_rmem"), bytes("tcp_mtu_probing")];
        let changes = apply_all(directory, &two());
        assert!(changes.iter().all(|t| t.outcome == ChangeOutcome::Applied), "{changes:?}");
        assert_eq!(bytes("tcp_rmem"), "4096\t131072\t50003968\n");
        assert_eq!(journals(directory), 1);
        let (as_before, changes) = undo_all(directory);
        assert!(as_before);
        let restored = ChangeOutcome::Restored;
        assert_eq!(outcomes(&changes), [("net.ipv4.tcp_mtu_probing", restored), ("net.ipv4.tcp_rmem", restored)]);
        assert_eq!([bytes("tcp_rmem"), bytes("tcp_mtu_probing")], before);
        assert_eq!(journals(directory), 0, "no journal remains");
        assert_eq!(undo_all(directory), (true, Vec::new()));
    });
}

#[test]
fn a_killed_apply_is_undone_from_its_journal() {
    inside(|directory| {
        let before = [bytes("tcp_rmem"), bytes("tcp_mtu_probing")];
        apply_all(directory, &two());
        // Simulates a process killed after the first of two changes: the journal is written before any change.
        fs::write("/proc/sys/net/ipv4/tcp_mtu_probing", &before[1]).unwrap();
        let (as_before, changes) = undo_all(directory);
        assert!(as_before);
        let wanted =
            [("net.ipv4.tcp_mtu_probing", ChangeOutcome::AsBefore), ("net.ipv4.tcp_rmem", ChangeOutcome::Restored)];
        assert_eq!(outcomes(&changes), wanted);
        assert_eq!([bytes("tcp_rmem"), bytes("tcp_mtu_probing")], before);
    });
}

#[test]
fn a_value_of_another_program_is_left_and_named() {
    inside(|directory| {
        apply_all(directory, &two());
        fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 7000000").unwrap();
        let (as_before, changes) = undo_all(directory);
        assert!(!as_before);
        assert_eq!(changes[1].outcome, ChangeOutcome::LeftAlone);
        assert!(changes[1].note.as_ref().unwrap().contains("4096 131072 7000000"), "{changes:?}");
        assert_eq!(bytes("tcp_rmem"), "4096\t131072\t7000000\n");
        assert_eq!(bytes("tcp_mtu_probing"), "0\n");
    });
}

#[test]
fn a_second_apply_keeps_the_first_values() {
    inside(|directory| {
        let before = bytes("tcp_rmem");
        apply_all(directory, &[sysctl("net.ipv4.tcp_rmem", "4096 131072 50003968")]);
        apply_all(directory, &[sysctl("net.ipv4.tcp_rmem", "4096 131072 60002304")]);
        assert!(undo_all(directory).0);
        assert_eq!(bytes("tcp_rmem"), before);
    });
}

#[test]
fn a_failed_change_reverts_the_earlier_ones() {
    inside(|directory| {
        let before = bytes("tcp_rmem");
        let [rmem, _] = two();
        let refused = sysctl("net.ipv4.tcp_congestion_control", "no_such_control");
        let mut changes = Vec::new();
        let mut session = Session::open(directory).unwrap();
        assert!(!session.apply(&[rmem, refused], None, &mut |c| changes.push(c)).unwrap());
        assert!(changes.iter().any(|t| t.outcome == ChangeOutcome::Failed), "{changes:?}");
        assert_eq!(bytes("tcp_rmem"), before);
        assert!(!session.is_changed());
        assert_eq!(journals(directory), 0);
    });
}

#[test]
fn only_one_process_at_a_time_changes_a_network() {
    inside(|directory| {
        let first = Session::open(directory).unwrap();
        assert!(matches!(Session::open(directory), Err(TuneError::Busy(_))));
        drop(first);
        Session::open(directory).unwrap();
    });
}

#[test]
fn the_journal_of_an_ended_namespace_is_not_applied_to_its_successor() {
    inside(|directory| {
        apply_all(directory, &two());
        let number = crate::state::network().unwrap();
        let path = directory.join("tune").join(format!("{number}.json"));
        let cookie = kernel::network_cookie().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let other = text.replace(&format!("\"cookie\": {cookie}"), &format!("\"cookie\": {}", cookie + 1));
        assert_ne!(text, other);
        fs::write(&path, other).unwrap();
        assert!(!Session::open(directory).unwrap().is_changed());
        fs::write(&path, "{\"format\": 1").unwrap();
        let e = Session::open(directory).unwrap_err().to_string();
        assert!(e.contains("cannot read the journal") && e.contains("nothing was changed"), "{e}");
    });
}

#[test]
fn a_device_is_read_and_its_queue_and_offloads_are_changed_and_restored() {
    inside(|directory| {
        let ip = |arguments: &str| {
            let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        ip("link add pair0 txqueuelen 12000 type veth peer name pair1");
        ip("link set pair0 up");
        ip("link set pair1 up");
        // The kernel updates the carrier state asynchronously.
        let waiting = std::time::Instant::now();
        while !ip("link show pair0").contains("state UP") {
            assert!(waiting.elapsed().as_secs() < 5, "a veth has no carrier");
            kernel::sleep_for(std::time::Duration::from_millis(10));
        }
        let device = pick_device(None).unwrap().unwrap();
        assert_eq!(device.speed, None, "veth reports a nominal speed of 10 Gb/s");
        assert_eq!((device.driver.as_deref(), device.mtu), (Some("veth"), 1500));
        assert!(device.interrupts.is_none(), "/sys shows another network");
        assert!(matches!(pick_device(Some("eth77")), Err(TuneError::NoDevice { .. })));
        let queue = Setting::QueueLength("pair0".to_owned());
        let tso = Setting::Offload("pair0".to_owned(), Offload::Tso);
        let was = read(&tso).unwrap();
        let other = if was == "on" { "off" } else { "on" };
        let changes = [
            Change { before: read(&queue).unwrap(), setting: queue, after: "1000".to_owned() },
            Change { setting: tso.clone(), before: was.clone(), after: other.to_owned() },
        ];
        apply_all(directory, &changes);
        assert!(ip("link show pair0").contains("qlen 1000"));
        assert_eq!(read(&tso).unwrap(), other);
        assert!(undo_all(directory).0);
        assert!(ip("link show pair0").contains("qlen 12000"));
        assert_eq!(read(&tso).unwrap(), was);
    });
}

#[test]
fn a_namespace_has_no_file_in_etc_and_distinguishes_host_settings() {
    inside(|directory| {
        assert!(!is_host());
        let file = Persistent::at(directory.join("90-longhaul.conf"));
        let refused = Session::open(directory).unwrap().apply(&two(), Some(&file), &mut |_| {});
        assert!(matches!(refused, Err(TuneError::NotTheHost)));
        assert!(!file.path().exists());
        assert_eq!(bytes("tcp_mtu_probing"), "0\n", "nothing was changed");
        let facts = gather(None);
        // Read-only in newer kernels, absent in older ones.
        let shared = &facts.sysctls["net.core.rmem_max"];
        assert!(matches!(shared, tuning::Reading::OfHost(_) | tuning::Reading::HiddenInNamespace), "{shared:?}");
        assert_eq!(facts.sysctls["net.core.netdev_max_backlog"], tuning::Reading::HiddenInNamespace);
        assert!(matches!(facts.sysctls["net.ipv4.tcp_rmem"], tuning::Reading::Own(_)));
    });
}
