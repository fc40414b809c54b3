//! What was on a device before longhaul shaped it, and until when it is shaped: a file for each device.

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

/// The part of the state that is about shaping.
const KIND: &str = "shape";

/// All that is needed to take a policy back, whoever does it and whenever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Tells this installation from a later one on the same device.
    pub id: u64,
    /// Name of the device.
    pub device: String,
    /// Its number.
    pub index: u32,
    /// What is or shall be installed.
    pub policy: Policy,
    /// The device that what comes in is led through.
    pub ifb: Option<Ifb>,
    /// The messages that bring back what went out before; none for what the kernel attaches by itself.
    pub before_egress: Vec<Saved>,
    /// The same for what holds filters for what comes in.
    pub before_ingress: Vec<Saved>,
    /// What the plan was made with: what is installed is compared with the same plan, whoever looks.
    pub facilities: Facilities,
    /// Programs of this installation, by the kernel's number: egress, ingress.
    pub programs: [Option<u32>; 2],
    /// What was installed before, to go back to when this one is not confirmed.
    pub previous: Option<Policy>,
    /// When that one would have been undone in any case.
    pub previous_until: Option<Instant>,
    /// Undone then unless it is confirmed before.
    pub confirm_by: Option<Instant>,
    /// Undone then in any case.
    pub until: Option<Instant>,
}

/// A device that longhaul made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ifb {
    /// Its name.
    pub name: String,
    /// Its number.
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
    /// The text was damaged.
    pub(super) fn message(&self) -> io::Result<Message> {
        let body = STANDARD.decode(&self.body).map_err(io::Error::other)?;
        Ok(Message { kind: self.kind, flags: self.flags, body })
    }
}

impl Journal {
    /// When it is undone by itself.
    pub fn deadline(&self) -> Option<Instant> {
        [self.confirm_by, self.until].into_iter().flatten().min()
    }
}

/// Where the notes about one device are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    path: PathBuf,
    device: String,
}

impl Notes {
    /// The notes about a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// The number of the namespace cannot be read.
    pub fn of(device: &str) -> Result<Self, ShapeError> {
        let network = state::network().map_err(ShapeError::system("reading the network namespace's number"))?;
        // What somebody else could have written there is not believed.
        state::find(state::folder(), KIND).map_err(ShapeError::state(&folder()))?;
        // Every byte but `/` and NUL may stand in the name of a device, as in that of a file.
        let path = folder().join(format!("{network}-{device}.json"));
        Ok(Self { path, device: device.to_owned() })
    }

    /// Those of all devices of the calling thread's network namespace that have some.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all() -> Result<Vec<Self>, ShapeError> {
        let network = state::network().map_err(ShapeError::system("reading the network namespace's number"))?;
        let found = state::find(state::folder(), KIND).map_err(ShapeError::state(&folder()))?;
        let Some(folder) = found else { return Ok(Vec::new()) };
        let entries = fs::read_dir(&folder).map_err(ShapeError::state(&folder))?;
        let prefix = format!("{network}-");
        let device = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_prefix(&prefix)?.strip_suffix(".json")?.to_owned())
        };
        let mut devices: Vec<String> = entries.filter_map(|e| device(e.ok()?)).collect();
        devices.sort();
        devices.iter().map(|d| Self::of(d)).collect()
    }

    /// The device that they are about.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// What is noted; `None` when nothing is.
    ///
    /// # Errors
    /// The file is there and cannot be read or was damaged.
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
        state::make(state::folder(), KIND)
            .and_then(|_| kernel::replace_private(&self.path, &text))
            .map_err(ShapeError::state(&self.path))
    }

    pub(super) fn remove(&self) -> Result<(), ShapeError> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ShapeError::state(&self.path)(e)),
            _ => Ok(()),
        }
    }

    /// The sole right to change the device, among processes of longhaul.
    pub(super) fn lock(&self) -> Result<Lock, ShapeError> {
        let path = self.path.with_extension("lock");
        state::make(state::folder(), KIND).map_err(ShapeError::state(&path))?;
        let lock = Lock::take(&path).map_err(ShapeError::state(&path))?;
        lock.ok_or_else(|| ShapeError::Busy { device: self.device.clone() })
    }
}

fn folder() -> PathBuf {
    Path::new(state::folder()).join(KIND)
}
