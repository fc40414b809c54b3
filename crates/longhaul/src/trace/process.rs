//! The connections of chosen processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kernel::{TcpConnection, TcpDiagnostics};

/// One process by its number, or all of a name, which may come and go.
pub(super) struct Choice {
    wanted: Wanted,
    /// One conversation for each network namespace in which they are.
    diagnostics: BTreeMap<PathBuf, TcpDiagnostics>,
}

enum Wanted {
    Number(u32),
    Name(String),
}

impl Choice {
    /// A number is of a process that runs; of a name there may be none yet.
    pub(super) fn new(wanted: &str) -> anyhow::Result<Self> {
        let wanted = match wanted.parse() {
            Ok(number) => {
                anyhow::ensure!(Path::new(&format!("/proc/{number}")).exists(), "there is no process {number}");
                Wanted::Number(number)
            }
            Err(_) => Wanted::Name(wanted.to_owned()),
        };
        Ok(Self { wanted, diagnostics: BTreeMap::new() })
    }

    /// TCP connections that they hold now.
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
                    anyhow::bail!("process {process} belongs to another user: only root sees its connections")
                }
                // It has ended, or is one of a name that somebody else runs too.
                Err(_) => continue,
            };
            let Ok(namespace) = fs::read_link(format!("/proc/{process}/ns/net")) else { continue };
            held.entry(namespace).or_insert_with(|| (process, BTreeSet::new())).1.extend(inodes);
        }
        // A conversation holds its namespace: nothing of processes that are gone is kept alive.
        self.diagnostics.retain(|namespace, _| held.contains_key(namespace));
        let mut found = Vec::new();
        for (namespace, (process, inodes)) in held {
            match self.of_namespace(namespace, process) {
                Ok(diagnostics) => {
                    found.extend(diagnostics.connections()?.into_iter().filter(|c| inodes.contains(&c.inode)));
                }
                // It has ended meanwhile.
                Err(_) if !Path::new(&format!("/proc/{process}")).exists() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    /// Whether a process is the one that was asked for, and has not ended: the files of a zombie are root's.
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
            // One's own needs no privilege.
            Entry::Vacant(place) if *place.key() == own => Ok(place.insert(TcpDiagnostics::open()?)),
            Entry::Vacant(place) => Ok(place.insert(TcpDiagnostics::open_of(process)?)),
        }
    }
}
