//! Connections of selected processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kernel::{TcpConnection, TcpDiagnostics};

/// Selection of one process by number, or of all present and future processes with a name.
pub(super) struct Choice {
    wanted: Wanted,
    /// Open diagnostics socket for each network namespace of the processes.
    diagnostics: BTreeMap<PathBuf, TcpDiagnostics>,
}

enum Wanted {
    Number(u32),
    Name(String),
}

impl Choice {
    /// Parses a process number, which must exist, or a name, which need not exist yet.
    pub(super) fn new(wanted: &str) -> anyhow::Result<Self> {
        let wanted = match wanted.parse() {
            Ok(number) => {
                anyhow::ensure!(Path::new(&format!("/proc/{number}")).exists(), "no process has the number {number}");
                Wanted::Number(number)
            }
            Err(_) => Wanted::Name(wanted.to_owned()),
        };
        Ok(Self { wanted, diagnostics: BTreeMap::new() })
    }

    /// Returns the current TCP connections of the processes.
    pub(super) fn connections(&mut self) -> anyhow::Result<Vec<TcpConnection>> {
        let processes = match &self.wanted {
            Wanted::Number(number) => vec![*number],
            Wanted::Name(name) => kernel::processes_named(name),
        };
        let mut held: BTreeMap<PathBuf, (u32, BTreeSet<u64>)> = BTreeMap::new();
        for process in processes {
            let inodes = match kernel::socket_inodes(process) {
                Ok(inodes) => inodes,
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied && self.is_one_alive(process) => {
                    anyhow::bail!("process {process} belongs to another user; run as root to see its connections")
                }
                // The process has ended, or another user runs a process of that name.
                Err(_) => continue,
            };
            let Ok(namespace) = fs::read_link(format!("/proc/{process}/ns/net")) else { continue };
            held.entry(namespace).or_insert_with(|| (process, BTreeSet::new())).1.extend(inodes);
        }
        // An open socket keeps its namespace alive, so sockets of ended processes are closed.
        self.diagnostics.retain(|namespace, _| held.contains_key(namespace));
        let mut found = Vec::new();
        for (namespace, (process, inodes)) in held {
            match self.of_namespace(namespace, process) {
                Ok(diagnostics) => {
                    found.extend(diagnostics.connections()?.into_iter().filter(|c| inodes.contains(&c.inode)));
                }
                // The process has ended meanwhile.
                Err(_) if !Path::new(&format!("/proc/{process}")).exists() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    /// Whether a process is selected by number and alive; files of a zombie belong to root.
    fn is_one_alive(&self, process: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let is_alive = stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
        is_alive && matches!(self.wanted, Wanted::Number(_))
    }

    fn of_namespace(&mut self, namespace: PathBuf, process: u32) -> anyhow::Result<&mut TcpDiagnostics> {
        use std::collections::btree_map::Entry;
        let own = fs::read_link("/proc/self/ns/net")?;
        match self.diagnostics.entry(namespace) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            // The current namespace needs no privilege.
            Entry::Vacant(place) if *place.key() == own => Ok(place.insert(TcpDiagnostics::open()?)),
            Entry::Vacant(place) => Ok(place.insert(TcpDiagnostics::open_of(process)?)),
        }
    }
}
