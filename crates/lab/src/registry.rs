//! Which labs run on this machine: a file for each, so that `lab shell` and `lab status` find them, and `lab gc` what a crash left.
//!
//! The files are all that a crash can leave: namespaces, devices and processes end with the lab's process.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use host::state;
use serde::{Deserialize, Serialize};

use crate::topology::Host;
use crate::{LabError, programs};

/// The part of the state that is about labs.
const KIND: &str = "labs";
/// The copy of a lab's entry in the folder that goes with the lab.
const OWN_ENTRY: &str = "lab.json";
/// Bytes of an entry at most: some 60 for each node.
const LONGEST_ENTRY: u64 = 1 << 20;

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it was started, in ticks since boot (/proc/PID/stat, field 22).
    pub started_ticks: u64,
}

impl Process {
    fn of(pid: u32) -> io::Result<Self> {
        kernel::start_ticks(pid)?
            .map(|started_ticks| Self { pid, started_ticks })
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether it is the process that was registered, and lives.
    pub fn lives(self) -> bool {
        kernel::start_ticks(self.pid).is_ok_and(|t| t == Some(self.started_ticks))
    }
}

/// A node of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name.
    pub name: String,
    /// The lab process's descriptor of its network namespace.
    pub descriptor: i32,
}

/// A running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the experiment.
    pub name: String,
    /// The lab's process.
    pub lab: Process,
    /// First process of its nodes' process namespace; all others end with it.
    pub keeper: Process,
    /// Begin, seconds since 1970 UTC.
    pub began_utc_s: u64,
    /// Where it writes.
    pub folder: PathBuf,
    /// Whether the folder goes with the lab.
    #[serde(default)]
    pub temporary: bool,
    /// Its nodes.
    pub nodes: Vec<NodeEntry>,
}

/// A lab's file; goes with it.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Registers a lab that stands.
    pub(crate) fn new(
        name: &str,
        (out, temporary): (&Path, bool),
        keeper: u32,
        hosts: &[Host],
    ) -> Result<Self, LabError> {
        use std::os::fd::AsRawFd;
        let registry = state::make(state::folder(), KIND).map_err(LabError::file(folder()))?;
        let node = |h: &Host| NodeEntry { name: h.name.clone(), descriptor: h.namespace.as_raw_fd() };
        let process = |pid| Process::of(pid).map_err(LabError::system("reading /proc"));
        let entry = Entry {
            name: name.to_owned(),
            lab: process(std::process::id())?,
            keeper: process(keeper)?,
            began_utc_s: kernel::utc_seconds().0,
            folder: out.canonicalize().unwrap_or_else(|_| out.to_owned()),
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
        // `lab gc` removes what stays.
        let _ = fs::remove_file(&self.0);
    }
}

/// Where labs of this user are registered. To be called before a lab gains its privilege, see [`host::state::folder`].
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| state::folder().join(KIND))
}

/// All registered labs, running or not. An entry that cannot be read is left out; `collect` removes it.
///
/// # Errors
/// The registry exists and cannot be read.
pub fn labs() -> Result<Vec<Entry>, LabError> {
    Ok(files()?.iter().filter_map(|path| read(path)).collect())
}

fn files() -> Result<Vec<PathBuf>, LabError> {
    let registry = folder();
    // What others could have written there is not believed: processes are ended and folders removed by it.
    let Some(found) = state::find(state::folder(), KIND).map_err(LabError::file(registry))? else {
        return Ok(Vec::new());
    };
    let entries = fs::read_dir(found).map_err(LabError::file(registry))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Option<Entry> {
    serde_json::from_str(&kernel::read_private(path, LONGEST_ENTRY).ok()?).ok()
}

/// Whether the process that an entry names as its keeper is one, of that lab: it was started with the lab's own hosts file.
fn is_keeper(entry: &Entry) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", entry.keeper.pid)).unwrap_or_default();
    let mut words = line.split(|b| *b == 0).skip(1);
    let hosts = entry.folder.join(programs::HOSTS);
    entry.keeper.lives()
        && words.next() == Some(programs::KEEPER.as_bytes())
        && words.next() == Some(hosts.as_os_str().as_bytes())
}

/// Whether a folder is one that this user's lab made for the time it ran: below the folder for such, nobody else's, with the lab's entry in it.
fn is_made_by(entry: &Entry) -> bool {
    let is_below = || Some(entry.folder.parent()? == std::env::temp_dir().canonicalize().ok()?);
    entry.temporary
        && is_below().unwrap_or(false)
        && kernel::check_private_directory(&entry.folder).unwrap_or(false)
        && read(&entry.folder.join(OWN_ENTRY)).as_ref() == Some(entry)
}

/// The running lab that has a node, chosen by the lab's process when several have one of this name.
///
/// # Errors
/// None has it, or several have.
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

/// Removes what labs that are gone have left: their entries, and processes that outlived them. Gives a line for each.
///
/// # Errors
/// The registry cannot be read or an entry not removed.
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
            kernel::kill_process(entry.keeper.pid).map_err(LabError::system("ending what a lab left"))?;
            done.push(format!("ended the processes of {} (lab {})", entry.name, entry.lab.pid));
        }
        if let Some(entry) = entry.as_ref().filter(|e| is_made_by(e)) {
            fs::remove_dir_all(&entry.folder).map_err(LabError::file(&entry.folder))?;
            done.push(format!("removed {}", entry.folder.display()));
        }
        fs::remove_file(&path).map_err(LabError::file(&path))?;
        done.push(entry.map_or_else(
            || format!("removed {}, which is no entry", path.display()),
            |e| format!("removed the entry of {} (lab {}), whose process is gone", e.name, e.lab.pid),
        ));
    }
    done.extend(crate::controls::collect().into_iter().map(|name| format!("unloaded the congestion control {name}")));
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(folder: &Path) -> Entry {
        let own = Process::of(std::process::id()).unwrap();
        let folder = folder.to_owned();
        Entry {
            name: "x".to_owned(),
            lab: own,
            keeper: own,
            began_utc_s: 0,
            folder,
            temporary: true,
            nodes: Vec::new(),
        }
    }

    #[test]
    fn only_a_folder_that_holds_the_same_entry_goes_with_a_lab() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let entry = entry(&at);
        assert!(!is_made_by(&entry), "there is no entry in it");
        let write = |entry: &Entry| fs::write(at.join(OWN_ENTRY), serde_json::to_vec(entry).unwrap()).unwrap();
        write(&Entry { began_utc_s: 1, ..entry.clone() });
        assert!(!is_made_by(&entry), "that of another lab");
        write(&entry);
        assert!(is_made_by(&entry));
        let inner = Entry { folder: at.join("inner"), ..entry };
        fs::create_dir(&inner.folder).unwrap();
        fs::write(inner.folder.join(OWN_ENTRY), serde_json::to_vec(&inner).unwrap()).unwrap();
        assert!(!is_made_by(&inner), "not right below the folder for temporary files");
    }

    #[test]
    fn a_process_of_somebody_else_is_no_keeper() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_keeper(&entry(folder.path())), "this test's own process");
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_begin() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.lives());
        // A later process with the same number.
        assert!(!Process { started_ticks: own.started_ticks + 1, ..own }.lives());
        // Linux numbers processes up to 2^22.
        assert!(!Process { pid: 1 << 23, ..own }.lives());
        assert!(Process::of(1 << 23).is_err());
    }
}
