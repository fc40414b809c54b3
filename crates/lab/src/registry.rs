//! The labs that run on this machine. Each has a file, so that `lab shell` and `lab status` find it and `lab gc` can
//! clean up after a crash.
//!
//! A crash leaves nothing but these files: namespaces, devices and processes end with the process of the lab.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use host::state;
use serde::{Deserialize, Serialize};

use crate::topology::Host;
use crate::{LabError, programs};

/// Subdirectory of the state directory for labs.
const KIND: &str = "labs";
/// Copy of a lab's entry in the temporary directory of that lab.
const OWN_ENTRY: &str = "lab.json";
/// Maximum size of an entry in bytes: about 60 bytes for each node.
const ENTRY_BYTES_MAX: u64 = 1 << 20;

/// A process, distinguished from a later one with the same ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Start time in ticks since boot (/proc/PID/stat, field 22).
    pub started_ticks: u64,
}

impl Process {
    fn of(pid: u32) -> io::Result<Self> {
        kernel::start_ticks(pid)?
            .map(|started_ticks| Self { pid, started_ticks })
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether the registered process still runs.
    pub fn lives(self) -> bool {
        kernel::start_ticks(self.pid).is_ok_and(|t| t == Some(self.started_ticks))
    }
}

/// A node of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Name of the node.
    pub name: String,
    /// File descriptor of its network namespace in the lab's process.
    pub descriptor: i32,
}

/// A running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the experiment.
    pub name: String,
    /// The process of the lab.
    pub lab: Process,
    /// Init process of the nodes' PID namespace; all other processes of the nodes end with it.
    pub keeper: Process,
    /// Start in seconds since 1970 UTC.
    pub start_utc_s: u64,
    /// Output directory.
    pub directory: PathBuf,
    /// Whether the directory is temporary and removed with the lab.
    #[serde(default)]
    pub temporary: bool,
    /// Nodes of the lab.
    pub nodes: Vec<NodeEntry>,
}

/// The file of a running lab; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Registers a lab whose nodes are set up.
    pub(crate) fn new(
        name: &str,
        (out, temporary): (&Path, bool),
        keeper: u32,
        hosts: &[Host],
    ) -> Result<Self, LabError> {
        use std::os::fd::AsRawFd;
        let registry = state::make(state::directory(), KIND).map_err(LabError::file(directory()))?;
        let node = |h: &Host| NodeEntry { name: h.name.clone(), descriptor: h.namespace.as_raw_fd() };
        let process = |pid| Process::of(pid).map_err(LabError::system("reading /proc"));
        let entry = Entry {
            name: name.to_owned(),
            lab: process(std::process::id())?,
            keeper: process(keeper)?,
            start_utc_s: kernel::utc_seconds().0,
            directory: out.canonicalize().unwrap_or_else(|_| out.to_owned()),
            temporary,
            nodes: hosts.iter().map(node).collect(),
        };
        let path = registry.join(format!("{}.json", entry.lab.pid));
        let text = serde_json::to_vec(&entry).map_err(io::Error::other).map_err(LabError::file(&path))?;
        if temporary {
            let own = out.join(OWN_ENTRY);
            kernel::replace_private(&own, &text).map_err(LabError::file(&own))?;
        }
        kernel::replace_private(&path, &text).map_err(LabError::file(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // `lab gc` removes a file that remains.
        let _ = fs::remove_file(&self.0);
    }
}

/// Directory in which the labs of this user are registered. Must be called before the lab gains its privilege; see
/// [`host::state::directory`].
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| state::directory().join(KIND))
}

/// All registered labs, running or not. An entry that cannot be read is skipped; `collect` removes it.
///
/// # Errors
/// The registry exists and cannot be read.
pub fn labs() -> Result<Vec<Entry>, LabError> {
    Ok(files()?.iter().filter_map(|path| read(path)).collect())
}

fn files() -> Result<Vec<PathBuf>, LabError> {
    let registry = directory();
    // Files that other users could have written are not trusted, since entries cause processes to be killed and
    // directories to be removed.
    let Some(found) = state::find(state::directory(), KIND).map_err(LabError::file(registry))? else {
        return Ok(Vec::new());
    };
    let entries = fs::read_dir(found).map_err(LabError::file(registry))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Option<Entry> {
    serde_json::from_str(&kernel::read_private(path, ENTRY_BYTES_MAX).ok()?).ok()
}

/// Whether the process that an entry names as its keeper is the keeper of that lab: its arguments contain the lab's
/// hosts file.
fn is_keeper(entry: &Entry) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", entry.keeper.pid)).unwrap_or_default();
    let mut arguments = line.split(|b| *b == 0).skip(1);
    let hosts = entry.directory.join(programs::HOSTS);
    entry.keeper.lives()
        && arguments.next() == Some(programs::KEEPER.as_bytes())
        && arguments.next() == Some(hosts.as_os_str().as_bytes())
}

/// Whether a directory was created by this user's lab for its lifetime: below the directory for temporary files, owned
/// by this user, and with the lab's entry in it.
fn is_made_by(entry: &Entry) -> bool {
    let is_below = || Some(entry.directory.parent()? == std::env::temp_dir().canonicalize().ok()?);
    entry.temporary
        && is_below().unwrap_or(false)
        && kernel::check_private_directory(&entry.directory).unwrap_or(false)
        && read(&entry.directory.join(OWN_ENTRY)).as_ref() == Some(entry)
}

/// The running lab that has a node of this name; `lab` selects one by process ID if several have it.
///
/// # Errors
/// No running lab has such a node, or several have.
pub fn find(node: &str, lab: Option<u32>) -> Result<(Entry, NodeEntry), LabError> {
    let running: Vec<Entry> = labs()?.into_iter().filter(|e| e.lab.lives()).collect();
    let mut found = Vec::new();
    for entry in running.iter().filter(|e| lab.is_none_or(|pid| e.lab.pid == pid)) {
        found.extend(entry.nodes.iter().find(|n| n.name == node).map(|n| (entry.clone(), n.clone())));
    }
    match found.len() {
        1 => found.pop().ok_or_else(|| LabError::Unknown(String::new())),
        0 => {
            let known: Vec<&str> = running.iter().flat_map(|e| e.nodes.iter().map(|n| n.name.as_str())).collect();
            let known = if known.is_empty() {
                "no lab is running".to_owned()
            } else {
                format!("nodes are: {}", known.join(", "))
            };
            Err(LabError::Unknown(format!("no running lab has a node `{node}`; {known}")))
        }
        _ => {
            let labs: Vec<String> = found.iter().map(|(e, _)| format!("{} ({})", e.lab.pid, e.name)).collect();
            Err(LabError::Unknown(format!(
                "several labs have a node `{node}`; choose one with --lab: {}",
                labs.join(", ")
            )))
        }
    }
}

/// Removes the remains of labs that no longer run: their entries, and processes that survived. Returns one line for
/// each.
///
/// # Errors
/// The registry cannot be read, or an entry cannot be removed.
pub fn collect() -> Result<Vec<String>, LabError> {
    let mut done = Vec::new();
    for path in files()? {
        let entry = read(&path);
        if entry.as_ref().is_some_and(|e| e.lab.lives()) {
            continue;
        }
        if let Some(entry) = &entry
            && is_keeper(entry)
        {
            kernel::kill_process(entry.keeper.pid).map_err(LabError::system("killing the processes of a lab"))?;
            done.push(format!("ended the processes of {} (lab {})", entry.name, entry.lab.pid));
        }
        if let Some(entry) = entry.as_ref().filter(|e| is_made_by(e)) {
            fs::remove_dir_all(&entry.directory).map_err(LabError::file(&entry.directory))?;
            done.push(format!("removed {}", entry.directory.display()));
        }
        fs::remove_file(&path).map_err(LabError::file(&path))?;
        done.push(entry.map_or_else(
            || format!("removed {}, which is not a valid entry", path.display()),
            |e| format!("removed the entry of {} (lab {}), which no longer runs", e.name, e.lab.pid),
        ));
    }
    done.extend(crate::controls::collect().into_iter().map(|name| format!("unloaded the congestion control {name}")));
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(directory: &Path) -> Entry {
        let own = Process::of(std::process::id()).unwrap();
        let directory = directory.to_owned();
        Entry {
            name: "x".to_owned(),
            lab: own,
            keeper: own,
            start_utc_s: 0,
            directory,
            temporary: true,
            nodes: Vec::new(),
        }
    }

    #[test]
    fn only_a_directory_with_the_same_entry_is_removed_with_a_lab() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap();
        let entry = entry(&at);
        assert!(!is_made_by(&entry), "there is no entry in it");
        let write = |entry: &Entry| fs::write(at.join(OWN_ENTRY), serde_json::to_vec(entry).unwrap()).unwrap();
        write(&Entry { start_utc_s: 1, ..entry.clone() });
        assert!(!is_made_by(&entry), "the entry of another lab");
        write(&entry);
        assert!(is_made_by(&entry));
        let inner = Entry { directory: at.join("inner"), ..entry };
        fs::create_dir(&inner.directory).unwrap();
        fs::write(inner.directory.join(OWN_ENTRY), serde_json::to_vec(&inner).unwrap()).unwrap();
        assert!(!is_made_by(&inner), "not directly below the directory for temporary files");
    }

    #[test]
    fn an_unrelated_process_is_not_the_keeper() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_keeper(&entry(directory.path())), "this test's own process");
    }

    #[test]
    fn a_process_is_identified_by_its_id_and_start() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.lives());
        // A later process with the same ID.
        assert!(!Process { started_ticks: own.started_ticks + 1, ..own }.lives());
        // Linux process IDs are at most 2^22.
        assert!(!Process { pid: 1 << 23, ..own }.lives());
        assert!(Process::of(1 << 23).is_err());
    }
}
