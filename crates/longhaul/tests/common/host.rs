//! State of the host that a lab must not change, and remains that it must not leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::text;

/// State of the host's own network.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Host {
    shown: Vec<String>,
    sysctls: BTreeMap<String, String>,
}

impl Host {
    pub(crate) fn now() -> Self {
        let show = |line: &str| {
            let output = Command::new("ip").args(line.split(' ')).output().unwrap();
            assert!(output.status.success(), "ip {line}");
            text(&output.stdout)
        };
        let lines = ["-o link", "-o address", "-4 route show table all", "-6 route show table all", "rule", "-o neigh"];
        let mut sysctls = BTreeMap::new();
        for tree in ["core", "ipv4", "ipv6"] {
            read_tree(&Path::new("/proc/sys/net").join(tree), &mut sysctls);
        }
        // The age of neighbour entries changes; the set of neighbours does not.
        let shown = lines.iter().map(|l| show(l).replace("STALE", "REACHABLE").replace("DELAY", "REACHABLE"));
        Self { shown: shown.collect(), sysctls }
    }
}

fn read_tree(directory: &Path, all: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            read_tree(&entry, all);
        } else if let Ok(value) = fs::read_to_string(&entry) {
            // Write-only keys are skipped.
            all.insert(entry.display().to_string(), value);
        }
    }
}

/// Returns the inode of the namespace that a file under /proc refers to.
pub(crate) fn inode(path: impl AsRef<Path>) -> Option<u64> {
    fs::metadata(path).ok().map(|m| m.ino())
}

/// Returns the command lines of other processes that are in one of these namespaces or hold one of them open. Without
/// such a process, the kernel has removed the namespaces with all their devices.
pub(crate) fn users(namespaces: &BTreeSet<u64>) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").unwrap().map(|e| e.unwrap().path());
    let processes = processes.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().parse::<u32>().is_ok()));
    let mut found = Vec::new();
    for process in processes.filter(|p| !p.ends_with(&own)) {
        let mut paths = vec![process.join("ns/pid")];
        let children =
            |name: &str| fs::read_dir(process.join(name)).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
        paths.extend(children("task").map(|t| t.join("ns/net")));
        paths.extend(children("fd"));
        if paths.iter().any(|p| inode(p).is_some_and(|i| namespaces.contains(&i))) {
            found.push(fs::read_to_string(process.join("cmdline")).unwrap_or_default().replace('\0', " "));
        }
    }
    found
}
