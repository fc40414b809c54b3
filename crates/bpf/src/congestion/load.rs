use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use congestion::{Algorithm, Settings};
use libbpf_rs::{ErrorKind, MapCore, Object, ObjectBuilder};

use super::{CongestionError, FILE_SYSTEM, files, pins, registered};
use crate::{error, log};

/// The compiled programs.
const FAST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast.bpf.o"));
const HTCP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/htcp.bpf.o"));

/// Maximum length of a congestion control's name (TCP_CA_NAME_MAX - 1).
const NAME_LENGTH_MAX: usize = 15;
/// Name of the struct_ops map in `bpf/fast.bpf.c` and `bpf/htcp.bpf.c`. The first member of its value is the name.
const OPS: &str = "congestion_control";
pub(super) const NAME_BYTES: usize = 16;

/// Loads a congestion control under a name that starts with the name of its algorithm, and pins it in `directory`.
/// Afterwards any process of this host can select it without privilege (TCP_CONGESTION).
///
/// # Errors
/// See [`CongestionError`]; after an error nothing remains loaded or pinned.
pub fn load(directory: &Path, name: &str, settings: &Settings) -> Result<(), CongestionError> {
    check_name(name)?;
    let pin_directory = directory.join(name);
    if pins::is_active(directory, name) {
        return Err(CongestionError::Loaded { name: name.to_owned() });
    }
    check_btf()?;
    log::capture();
    let mut object = open(name, settings).and_then(libbpf_rs::OpenObject::load).map_err(|e| load_error(name, &e))?;
    kernel::mount_bpf_file_system(Path::new(FILE_SYSTEM)).map_err(|e| refused("mounting the BPF file system", e))?;
    // Removes the pins of a loader that was killed.
    pins::remove(directory, name);
    fs::create_dir_all(&pin_directory).map_err(|e| refused("making a directory in the BPF file system", e))?;
    let registered = pin(&mut object, directory, name).and_then(|()| register(&mut object, name));
    if registered.is_err() {
        pins::remove(directory, name);
    }
    registered
}

/// Whether the kernel provides BTF, without which no congestion control can be loaded.
pub fn is_supported() -> bool {
    check_btf().is_ok()
}

/// Fails if the kernel provides no BTF, without which programs cannot locate kernel fields.
pub(crate) fn check_btf() -> Result<(), CongestionError> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() { Ok(()) } else { Err(CongestionError::NoBtf) }
}

/// Error for an object that lacks a part of its source; a tested build never returns it.
pub(crate) fn missing_part(operation: &'static str) -> CongestionError {
    CongestionError::system(operation, io::Error::from(io::ErrorKind::NotFound))
}

fn check_name(name: &str) -> Result<(), CongestionError> {
    let invalid = |reason| Err(CongestionError::Name { name: name.to_owned(), reason });
    // Same check as bpf_obj_name_cpy in kernel/bpf/syscall.c.
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.') {
        return invalid("it may contain letters, digits, _ and . only, as in fast_a200");
    }
    if Algorithm::of_name(name).is_none() {
        return invalid("it must start with the name of its algorithm, fast or htcp, as in fast_a200");
    }
    if name.len() > NAME_LENGTH_MAX {
        return invalid("it may have at most 15 characters");
    }
    Ok(())
}

fn open(name: &str, settings: &Settings) -> Result<libbpf_rs::OpenObject, libbpf_rs::Error> {
    let object = match settings.algorithm() {
        Algorithm::Fast => FAST,
        Algorithm::Htcp => HTCP,
    };
    let mut object = ObjectBuilder::default().name(settings.algorithm().name())?.open_memory(object)?;
    for mut map in object.maps_mut() {
        if map.name() == OPS {
            let Some(value) = map.initial_value_mut() else { continue };
            let mut bytes = [0; NAME_BYTES];
            bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            value.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        } else if is_settings(map.name()) {
            let words: Vec<u8> = settings.to_words().into_iter().flat_map(u32::to_ne_bytes).collect();
            map.set_initial_value(&words)?;
        }
    }
    Ok(object)
}

pub(super) fn is_settings(map: &OsStr) -> bool {
    map.to_string_lossy().ends_with(".rodata")
}

/// Pins the maps before registration, because a registration without a pin could not be found again.
fn pin(object: &mut Object, directory: &Path, name: &str) -> Result<(), CongestionError> {
    let [ops, settings] = files(directory, name);
    for mut map in object.maps_mut() {
        let to = match map.name() {
            found if found == OPS => &ops,
            found if is_settings(found) => &settings,
            _ => continue,
        };
        map.pin(to).map_err(|e| refused("pinning it in the BPF file system", error::as_io(&e)))?;
    }
    Ok(())
}

fn register(object: &mut Object, name: &str) -> Result<(), CongestionError> {
    let mut maps = object.maps_mut();
    let Some(mut ops) = maps.find(|m| m.name() == OPS) else {
        return Err(missing_part("finding the map of the program"));
    };
    match ops.attach_struct_ops() {
        Ok(mut link) => {
            // The registration must outlive this process.
            link.disconnect();
            Ok(())
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let is_ours = registered::unpinned().iter().any(|l| l.name == name);
            let name = name.to_owned();
            Err(if is_ours { CongestionError::Loaded { name } } else { CongestionError::Taken { name } })
        }
        Err(e) => Err(refused("registering it", error::as_io(&e))),
    }
}

pub(crate) fn load_error(name: &str, refusal: &libbpf_rs::Error) -> CongestionError {
    let log = log::last_warnings();
    let source = error::as_io(refusal);
    let release = kernel::kernel_release();
    if source.kind() == io::ErrorKind::PermissionDenied {
        return CongestionError::Privilege { operation: "loading a BPF program" };
    }
    // Warning of libbpf for a kernel without this type or map type.
    if log.contains("tcp_congestion_ops is not found in kernel BTF") || source.kind() == io::ErrorKind::Unsupported {
        return CongestionError::TooOld { release };
    }
    CongestionError::Refused { name: name.to_owned(), release, log, source }
}

pub(crate) fn refused(operation: &'static str, source: io::Error) -> CongestionError {
    if source.kind() == io::ErrorKind::PermissionDenied {
        CongestionError::Privilege { operation }
    } else {
        CongestionError::system(operation, source)
    }
}
