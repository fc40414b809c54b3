//! State file of each shaped device: its earlier traffic control and its time limit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use shaping::{Facilities, Policy};
use tc::Message;
use units::Instant;

use super::ShapeError;
use crate::state::{self, Lock};

/// Subdirectory of the state directory for shaping.
const KIND: &str = "shape";

/// All data that a later process needs to undo a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Identifies this installation among later ones on the same device.
    pub id: u64,
    /// Name of the device.
    pub device: String,
    /// Index of the device.
    pub index: u32,
    /// The policy that is or will be installed.
    pub policy: Policy,
    /// The IFB device for incoming packets.
    pub ifb: Option<Ifb>,
    /// The messages that restore the earlier egress traffic control; empty for the kernel's default.
    pub before_egress: Vec<Saved>,
    /// The messages that restore the earlier parent of ingress filters.
    pub before_ingress: Vec<Saved>,
    /// The facilities that the plan used, so that every process compares with the same plan.
    pub facilities: Facilities,
    /// Ids of this installation's programs: egress, ingress.
    pub programs: [Option<u32>; 2],
    /// The earlier policy, restored if this one is not confirmed.
    pub previous: Option<Policy>,
    /// Time limit of the earlier policy.
    pub previous_until: Option<Instant>,
    /// Time at which the policy is undone unless it was confirmed.
    pub confirm_by: Option<Instant>,
    /// Time at which the policy is undone in any case.
    pub until: Option<Instant>,
}

/// A device that longhaul created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ifb {
    /// Name of the device.
    pub name: String,
    /// Index of the device.
    pub index: u32,
}

/// A message to the kernel, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    kind: u16,
    flags: u16,
    body: String,
}

impl Saved {
    pub(super) fn new(message: &Message) -> Self {
        Self { kind: message.kind, flags: message.flags, body: STANDARD.encode(&message.body) }
    }

    /// # Errors
    /// The text is damaged.
    pub(super) fn message(&self) -> io::Result<Message> {
        let body = STANDARD.decode(&self.body).map_err(io::Error::other)?;
        Ok(Message { kind: self.kind, flags: self.flags, body })
    }
}

impl Journal {
    /// Time at which the policy is undone.
    pub fn deadline(&self) -> Option<Instant> {
        [self.confirm_by, self.until].into_iter().flatten().min()
    }
}

/// Location of the state file of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFile {
    path: PathBuf,
    device: String,
}

impl JournalFile {
    /// The state file of a device in the calling thread's network namespace.
    ///
    /// # Errors
    /// The id of the namespace cannot be read.
    pub fn of(device: &str) -> Result<Self, ShapeError> {
        let network = state::network().map_err(ShapeError::system("reading the network namespace's number"))?;
        // A directory that another user can write is rejected.
        state::find(state::directory(), KIND).map_err(ShapeError::state(&directory()))?;
        // A device name may contain every byte but `/` and NUL, as a file name may.
        let path = directory().join(format!("{network}-{device}.json"));
        Ok(Self { path, device: device.to_owned() })
    }

    /// The state files of all devices of the calling thread's network namespace.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn all() -> Result<Vec<Self>, ShapeError> {
        let network = state::network().map_err(ShapeError::system("reading the network namespace's number"))?;
        let found = state::find(state::directory(), KIND).map_err(ShapeError::state(&directory()))?;
        let Some(directory) = found else { return Ok(Vec::new()) };
        let entries = fs::read_dir(&directory).map_err(ShapeError::state(&directory))?;
        let prefix = format!("{network}-");
        let device = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_prefix(&prefix)?.strip_suffix(".json")?.to_owned())
        };
        let mut devices: Vec<String> = entries.filter_map(|e| device(e.ok()?)).collect();
        devices.sort();
        devices.iter().map(|d| Self::of(d)).collect()
    }

    /// Name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Reads the journal; `None` when there is none.
    ///
    /// # Errors
    /// The file exists and cannot be read or is damaged.
    pub fn read(&self) -> Result<Option<Journal>, ShapeError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(ShapeError::state(&self.path)(e)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|e| ShapeError::state(&self.path)(e.into()))
    }

    pub(super) fn write(&self, journal: &Journal) -> Result<(), ShapeError> {
        let text = serde_json::to_vec(journal).map_err(|e| ShapeError::state(&self.path)(e.into()))?;
        state::make(state::directory(), KIND)
            .and_then(|_| kernel::replace_private(&self.path, &text))
            .map_err(ShapeError::state(&self.path))
    }

    pub(super) fn remove(&self) -> Result<(), ShapeError> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ShapeError::state(&self.path)(e)),
            _ => Ok(()),
        }
    }

    /// Locks the device against other processes of longhaul.
    pub(super) fn lock(&self) -> Result<Lock, ShapeError> {
        let path = self.path.with_extension("lock");
        state::make(state::directory(), KIND).map_err(ShapeError::state(&path))?;
        let lock = Lock::take(&path).map_err(ShapeError::state(&path))?;
        lock.ok_or_else(|| ShapeError::Busy { device: self.device.clone() })
    }
}

fn directory() -> PathBuf {
    Path::new(state::directory()).join(KIND)
}
