//! Which labs run on this machine: a file for each, so that `lab shell` and `lab status` find them, and `lab gc` what a crash left.
//!
//! The files are all that a crash can leave: namespaces, devices and processes end with the lab's process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::topology::Host;

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
        let registry = folder();
        fs::create_dir_all(registry).map_err(LabError::file(registry))?;
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
        // Whole or not at all: a reader never sees half an entry.
        let part = registry.join(format!("{}.part", entry.lab.pid));
        fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(LabError::file(&path))?;
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
    FOLDER.get_or_init(|| host::state::folder().join("labs"))
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
    let entries = match fs::read_dir(registry) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(LabError::file(registry)(e)),
    };
    let mut all: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Option<Entry> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
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
            && entry.keeper.lives()
        {
            kernel::kill_process(entry.keeper.pid).map_err(LabError::system("ending what a lab left"))?;
            done.push(format!("ended the processes of {} (lab {})", entry.name, entry.lab.pid));
        }
        // Only a folder that the lab itself made for the time it runs.
        if let Some(entry) = entry.as_ref().filter(|e| e.temporary && e.folder.is_dir()) {
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
