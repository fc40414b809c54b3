use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use congestion::{Algorithm, Settings};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use super::load::refused;
use super::{CongestionError, files, registered};
use crate::error;

/// State of an active registration in the map's value: a reference count, then the state (struct
/// bpf_struct_ops_common_value).
pub(super) const IN_USE: u32 = 1;
/// Name of the pin of a registration.
pub(super) const OPS_FILE: &str = "ops";

/// A congestion control that longhaul has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Name of the congestion control.
    pub name: String,
    /// Algorithm and parameters; `None` if another version of longhaul with other parameters loaded it.
    pub settings: Option<Settings>,
    /// Time at which it was loaded.
    pub since: SystemTime,
    /// Approximate number of connections that use it, in all network namespaces.
    pub users: u32,
}

/// Congestion controls that are loaded and pinned in `directory`, by name.
///
/// # Errors
/// Missing privilege.
pub fn list(directory: &Path) -> Result<Vec<Loaded>, CongestionError> {
    let mut all = Vec::new();
    for name in pinned(directory)? {
        let Some(state) = registration(directory, &name)?.filter(|r| r.state == IN_USE) else { continue };
        let since = fs::metadata(directory.join(&name)).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        all.push(Loaded { settings: settings(directory, &name), since, users: state.users, name });
    }
    Ok(all)
}

/// Names with pins in `directory` but without a registration: their loader was killed or is still running. No
/// connection can select them, and they hold no program.
///
/// # Errors
/// Missing privilege.
pub fn unfinished(directory: &Path) -> Result<Vec<String>, CongestionError> {
    let mut all = pinned(directory)?;
    all.retain(|name| !is_active(directory, name));
    Ok(all)
}

/// Names of the subdirectories, sorted.
fn pinned(directory: &Path) -> Result<Vec<String>, CongestionError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(refused("reading the BPF file system", e)),
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Unloads a congestion control, including one whose pins are gone. Existing connections keep it until they end; new
/// ones cannot select it. Pins of a killed loader are removed.
///
/// # Errors
/// No congestion control of that name is pinned in `directory` or registered without pins, or the privilege is missing.
pub fn unload(directory: &Path, name: &str) -> Result<(), CongestionError> {
    if name.contains('/') || !directory.join(name).is_dir() {
        return registered::unload(name);
    }
    match open(directory, name) {
        Ok(map) => unregister(&map)?,
        // The loader was killed before it pinned the map.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(refused("opening what is pinned", error::as_io(&e))),
    }
    remove(directory, name);
    Ok(())
}

pub(super) fn unregister(map: &MapHandle) -> Result<(), CongestionError> {
    match map.delete(&0_u32.to_ne_bytes()) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(refused("unregistering it", error::as_io(&e))),
        _ => Ok(()),
    }
}

pub(super) fn is_active(directory: &Path, name: &str) -> bool {
    registration(directory, name).ok().flatten().is_some_and(|r| r.state == IN_USE)
}

/// Removes the pins. A registered map must be unregistered first.
pub(super) fn remove(directory: &Path, name: &str) {
    for file in files(directory, name) {
        // A missing file needs no removal, and a later call retries a failed one.
        let _ = fs::remove_file(file);
    }
    let _ = fs::remove_dir(directory.join(name));
    // `remove_dir` fails while another congestion control is loaded, because the directory is not empty.
    let _ = fs::remove_dir(directory);
    let _ = directory.parent().map(fs::remove_dir);
}

pub(super) struct Registration {
    pub(super) users: u32,
    pub(super) state: u32,
}

fn open(directory: &Path, name: &str) -> Result<MapHandle, libbpf_rs::Error> {
    let [ops, _] = files(directory, name);
    MapHandle::from_pinned_path(ops)
}

fn registration(directory: &Path, name: &str) -> Result<Option<Registration>, CongestionError> {
    let map = match open(directory, name) {
        Ok(map) => map,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refused("opening what is pinned", error::as_io(&e))),
    };
    Ok(value(&map).and_then(|v| registration_in(&v)))
}

/// The single value of a map.
pub(super) fn value(map: &MapHandle) -> Option<Vec<u8>> {
    map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()
}

pub(super) fn registration_in(value: &[u8]) -> Option<Registration> {
    let word = |at: usize| Some(u32::from_ne_bytes(value.get(at..at + 4)?.try_into().ok()?));
    // The registration itself holds one reference.
    Some(Registration { users: word(0)?.saturating_sub(1), state: word(4)? })
}

fn settings(directory: &Path, name: &str) -> Option<Settings> {
    let [_, settings] = files(directory, name);
    settings_in(&MapHandle::from_pinned_path(settings).ok()?, Algorithm::of_name(name)?)
}

pub(super) fn settings_in(map: &MapHandle, algorithm: Algorithm) -> Option<Settings> {
    let bytes = value(map)?;
    let words: Vec<u32> = bytes.chunks_exact(4).filter_map(|b| Some(u32::from_ne_bytes(b.try_into().ok()?))).collect();
    Settings::from_words(algorithm, &words)
}
