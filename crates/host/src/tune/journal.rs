use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tuning::{Change, Setting};

use super::TuneError;
use crate::state::{self, Lock};

/// Changes in a network namespace, with the earlier values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Version of this format.
    format: u32,
    /// The namespace: its id may be reused after a restart.
    network: Identity,
    /// Changes in the order in which they were made.
    entries: Vec<Entry>,
}

/// A network namespace of one start of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    boot: String,
    cookie: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    before: String,
    after: String,
}

const FORMAT: u32 = 1;

impl Journal {
    /// Creates an empty journal for the namespace of the calling thread.
    fn new() -> Self {
        Self { format: FORMAT, network: Identity::own(), entries: Vec::new() }
    }

    /// The changes, in the order in which they were made.
    ///
    /// # Errors
    /// A key that this version does not know.
    pub fn changes(&self) -> Result<Vec<Change>, String> {
        let change = |e: &Entry| {
            let setting: Setting = e.key.parse().map_err(|e: tuning::UnknownSetting| e.to_string())?;
            Ok(Change { setting, before: e.before.clone(), after: e.after.clone() })
        };
        self.entries.iter().map(change).collect()
    }

    /// Adds changes to be made. A value that longhaul changed before, and no other program since, keeps its original
    /// value.
    pub fn add(&mut self, changes: &[Change]) {
        for change in changes {
            let key = change.setting.to_string();
            let known = self.entries.iter_mut().find(|e| e.key == key);
            match known {
                Some(entry) => {
                    if !tuning::same_value(&entry.after, &change.before) {
                        entry.before.clone_from(&change.before);
                    }
                    entry.after.clone_from(&change.after);
                }
                None => self.entries.push(Entry { key, before: change.before.clone(), after: change.after.clone() }),
            }
        }
    }

    /// Drops all changes but `left`.
    pub(super) fn keep(&mut self, left: &[Change]) {
        self.entries.retain(|e| left.iter().any(|c| c.setting.to_string() == e.key));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Identity {
    fn own() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Self { boot, cookie: kernel::network_cookie().ok() }
    }
}

/// The journal file of the calling thread's namespace, with its lock.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    _lock: Lock,
}

impl Place {
    /// Takes the lock of the calling thread's namespace.
    pub(super) fn take(directory: &Path) -> Result<Self, TuneError> {
        let number = state::network().map_err(TuneError::file("reading the network namespace,", "/proc"))?;
        let directory = state::make(directory, "tune").map_err(TuneError::file("creating the directory", directory))?;
        let lock = directory.join(format!("{number}.lock"));
        match Lock::take(&lock).map_err(TuneError::file("creating the lock", &lock))? {
            Some(held) => Ok(Self { path: directory.join(format!("{number}.json")), _lock: held }),
            None => Err(TuneError::Busy(lock)),
        }
    }

    /// Reads the journal; empty when there is none, or when it belongs to another namespace with the same id.
    pub(super) fn read(&self) -> Result<Journal, TuneError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Journal::new()),
            Err(e) => return Err(TuneError::file("reading the journal", &self.path)(e)),
        };
        let bad = |why: String| TuneError::Journal { path: self.path.clone(), why };
        let journal: Journal = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        if journal.format != FORMAT {
            return Err(bad(format!("format {} is not supported (expected {FORMAT})", journal.format)));
        }
        if journal.network != Identity::own() {
            return Ok(Journal::new());
        }
        journal.changes().map_err(bad)?;
        Ok(journal)
    }

    /// Writes the journal; removes it when it is empty.
    pub(super) fn write(&self, journal: &Journal) -> Result<(), TuneError> {
        let done = if journal.is_empty() {
            match fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            }
        } else {
            serde_json::to_vec_pretty(journal)
                .map_err(io::Error::from)
                .and_then(|t| kernel::replace_private(&self.path, &t))
        };
        done.map_err(TuneError::file("writing the journal", &self.path))
    }
}
