//! Registered congestion controls, found by map id. Pins belong to the mount namespace in which they were created (`ip
//! netns exec` creates one per program). Registrations are valid for the whole host.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use congestion::Algorithm;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{MapCore, MapHandle, MapType};

use super::load::{NAME_BYTES, is_settings};
use super::pins::{self, IN_USE, Loaded, OPS_FILE};
use super::{CongestionError, FILE_SYSTEM};

/// Congestion controls that are registered but not pinned in this mount namespace. The list is empty without
/// CAP_SYS_ADMIN.
pub fn unpinned() -> Vec<Loaded> {
    found().into_iter().map(|f| f.loaded).collect()
}

/// Unregisters a congestion control of [`unpinned`].
pub(super) fn unload(name: &str) -> Result<(), CongestionError> {
    match found().into_iter().find(|f| f.loaded.name == name) {
        Some(found) => pins::unregister(&found.map),
        None => Err(CongestionError::NotLoaded { name: name.to_owned() }),
    }
}

struct Found {
    map: MapHandle,
    loaded: Loaded,
}

fn found() -> Vec<Found> {
    let Some(layout) = Layout::of_kernel() else { return Vec::new() };
    let mut pinned = BTreeSet::new();
    collect_pinned(Path::new(FILE_SYSTEM), &mut pinned);
    let programs: Vec<ProgramInfo> =
        ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true)).collect();
    let maps = MapInfoIter::default().filter(|m| m.ty == MapType::StructOps && !pinned.contains(&m.id));
    maps.filter_map(|m| inspect_map(MapHandle::from_map_id(m.id).ok()?, &layout, &programs)).collect()
}

/// Collects the ids of maps that are pinned in the layout of [`super::files`], in any directory.
fn collect_pinned(directory: &Path, into: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect_pinned(&entry.path(), into);
        } else if entry.file_name() == OPS_FILE {
            into.extend(MapHandle::from_pinned_path(entry.path()).and_then(|m| m.info()).map(|m| m.info.id));
        }
    }
}

/// Offsets of members in the map's value.
struct Layout {
    name: usize,
    /// Offset of `ssthresh`, where the kernel stores the program id.
    ssthresh: usize,
}

impl Layout {
    fn of_kernel() -> Option<Self> {
        let btf = Btf::from_vmlinux().ok()?;
        let value: Struct<'_> = btf.type_by_name("bpf_struct_ops_tcp_congestion_ops")?;
        let ops: Struct<'_> = btf.type_by_name("tcp_congestion_ops")?;
        let data = offset(&value, "data")?;
        Some(Self { name: data + offset(&ops, "name")?, ssthresh: data + offset(&ops, "ssthresh")? })
    }
}

/// Offset of a member in bytes.
fn offset(of: &Struct<'_>, name: &str) -> Option<usize> {
    let member = of.iter().find(|m| m.name == Some(OsStr::new(name)))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

/// Congestion control that a map registers, if it is longhaul's: its name and the name of its program start with the
/// name of an algorithm.
fn inspect_map(map: MapHandle, layout: &Layout, programs: &[ProgramInfo]) -> Option<Found> {
    let value = pins::value(&map)?;
    let registration = pins::registration_in(&value).filter(|r| r.state == IN_USE)?;
    let name = value.get(layout.name..layout.name + NAME_BYTES)?.split(|b| *b == 0).next()?;
    let name = std::str::from_utf8(name).ok()?.to_owned();
    let algorithm = Algorithm::of_name(&name)?;
    let program = u32::from_ne_bytes(*value.get(layout.ssthresh..)?.first_chunk()?);
    let program = programs.iter().find(|p| p.id == program)?;
    if program.name != *format!("{}_ssthresh", algorithm.name()) {
        return None;
    }
    let mut of_program = program.map_ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok());
    let settings = of_program.find(|m| is_settings(m.name())).and_then(|m| pins::settings_in(&m, algorithm));
    let age = Duration::from_nanos(kernel::uptime_ns()).saturating_sub(program.load_time);
    let since = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Found { map, loaded: Loaded { name, settings, since, users: registration.users } })
}
