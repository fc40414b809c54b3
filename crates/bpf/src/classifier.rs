use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use libbpf_rs::libbpf_sys::BPF_FUNC_loop;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput, ProgramType};
use shaping::{Match, SizeLimits};
use tc::Handle;

use crate::expand::{Expanded, expand};
use crate::layout::Limits;
use crate::{BpfError, error, log};

/// The compiled `bpf/classify.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify.bpf.o"));

/// Capabilities required to load programs (capabilities(7)).
const LOAD_CAPABILITIES: &str = "CAP_BPF and CAP_NET_ADMIN";

/// Maximum size of the flow table in flows; the map then occupies about 3 GB of kernel memory.
pub const FLOWS_MAX: u32 = 1 << 24;

/// Extra map entries per CPU. Each CPU of the kernel's LRU map keeps up to 128 free entries, and an eviction frees up
/// to 128 at a time (LOCAL_FREE_TARGET in kernel/bpf/bpf_lru_list.c), so these entries may hold no flow.
const LRU_SLACK_PER_CPU: u32 = 256;

/// A rule that assigns matching packets to a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The class.
    pub class: Handle,
    /// Conditions.
    pub matches: Match,
}

/// Settings of a classifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Rules; the first one that a packet matches decides.
    pub rules: Vec<Rule>,
    /// Class of packets that match no rule. With [`Handle::NONE`] the filter does not match, and the kernel evaluates
    /// the next filter.
    pub default: Handle,
    /// Limits above which a flow is an elephant.
    pub sizes: SizeLimits,
}

/// A loaded classifier: program and maps. The kernel frees them with this value and the filters that use the program.
#[derive(Debug)]
pub struct Classifier {
    object: Object,
    descriptor: i32,
    id: u32,
}

/// Result of a trial run on one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Class that the program returned.
    pub class: Handle,
    /// Mean run time, in whole nanoseconds.
    pub time: Duration,
}

impl Classifier {
    /// Loads a classifier. Each direction of each device needs its own classifier, because each counts its own flows.
    ///
    /// # Errors
    /// Missing privilege (CAP_BPF and CAP_NET_ADMIN), a kernel without BPF or before 5.17, a cgroup that does not
    /// exist, too many rules or flows, insufficient memory.
    pub fn load(settings: &Settings) -> Result<Self, BpfError> {
        if settings.sizes.flows > FLOWS_MAX {
            return Err(BpfError::TooManyFlows { flows: settings.sizes.flows, max: FLOWS_MAX });
        }
        let expanded = expand(settings)?;
        let cgroups: Vec<File> =
            expanded.cgroups.iter().map(|path| open_cgroup(path)).collect::<Result<_, BpfError>>()?;
        log::capture();
        let object = prepare(settings, &expanded)?.load().map_err(|e| load_error(&e))?;
        fill(&object, settings, &expanded, &cgroups)?;
        let program = object.progs().next().ok_or_else(|| missing_part("finding the program"))?;
        let id = libbpf_rs::Program::id_from_fd(program.as_fd())
            .map_err(|e| BpfError::failed("asking for the program's number", LOAD_CAPABILITIES, &e))?;
        let descriptor = program.as_fd().as_raw_fd();
        Ok(Self { object, descriptor, id })
    }

    /// Descriptor of the program, for attaching it. This value owns the descriptor.
    pub fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// Program id, as shown by filters (TCA_BPF_ID).
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Runs the program `repeat` times on an Ethernet frame of at least 14 bytes, without sending it
    /// (BPF_PROG_TEST_RUN). The program counts the frame.
    ///
    /// # Errors
    /// The kernel rejects the frame.
    pub fn try_frame(&self, frame: &[u8], repeat: u32) -> Result<Trial, BpfError> {
        self.run(ProgramInput { data_in: Some(frame), repeat, ..ProgramInput::default() })
    }

    pub(crate) fn run(&self, input: ProgramInput<'_>) -> Result<Trial, BpfError> {
        let program = self.object.progs_mut().next().ok_or_else(|| missing_part("finding the program"))?;
        let output = program
            .test_run(input)
            .map_err(|e| BpfError::failed("running the classifier on a frame", LOAD_CAPABILITIES, &e))?;
        Ok(Trial { class: Handle::from_raw(output.return_value), time: output.duration })
    }

    /// Advances the program's clock, so that tests need not wait.
    #[cfg(test)]
    pub(crate) fn set_clock_ahead(&self, by: Duration) {
        let map = self.object.maps().find(|map| map.name() == "classify.bss").unwrap();
        map.update(&0_u32.to_ne_bytes(), &(by.as_nanos() as u64).to_ne_bytes(), MapFlags::ANY).unwrap();
    }
}

/// Opens the object with map sizes and settings.
fn prepare(settings: &Settings, expanded: &Expanded) -> Result<OpenObject, BpfError> {
    let failed = |e: &libbpf_rs::Error| BpfError::failed("preparing the classifier", LOAD_CAPABILITIES, e);
    let mut builder = ObjectBuilder::default();
    builder.name("classify").map_err(|e| failed(&e))?;
    let mut object = builder.open_memory(OBJECT).map_err(|e| failed(&e))?;
    let origins = settings.rules.len() as u32 + 1;
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("rules") => expanded.rules.len() as u32,
            Some("classes" | "hits") => origins,
            Some("cgroups") => expanded.cgroups.len() as u32,
            Some("flows") => flow_entries(settings)?,
            Some("classify.rodata") => {
                let limits = Limits::new(&settings.sizes, expanded.rules.len() as u32);
                map.set_initial_value(&limits.to_bytes()).map_err(|e| failed(&e))?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries.max(1)).map_err(|e| failed(&e))?;
    }
    Ok(object)
}

/// Number of entries of the flow map that guarantees the configured number of flows; 1 without rules by size.
fn flow_entries(settings: &Settings) -> Result<u32, BpfError> {
    if settings.rules.iter().all(|rule| rule.matches.size.is_none()) {
        return Ok(1);
    }
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| BpfError::failed("counting CPUs", LOAD_CAPABILITIES, &e))?;
    let slack = u32::try_from(cpus).unwrap_or(u32::MAX).saturating_mul(LRU_SLACK_PER_CPU);
    Ok(settings.sizes.flows.saturating_add(slack))
}

/// Writes rules, classes and cgroups into their maps.
fn fill(object: &Object, settings: &Settings, expanded: &Expanded, cgroups: &[File]) -> Result<(), BpfError> {
    let classes = std::iter::once(settings.default).chain(settings.rules.iter().map(|rule| rule.class));
    let tables: [(&str, Vec<Vec<u8>>); 3] = [
        ("rules", expanded.rules.iter().map(|rule| rule.to_bytes()).collect()),
        ("classes", classes.map(|class| class.as_raw().to_ne_bytes().to_vec()).collect()),
        // The map takes a descriptor and then holds a reference to the cgroup.
        ("cgroups", cgroups.iter().map(|cgroup| cgroup.as_raw_fd().to_ne_bytes().to_vec()).collect()),
    ];
    for (name, values) in tables {
        let map = object.maps().find(|map| map.name() == name).ok_or_else(|| missing_part("finding a map"))?;
        for (index, value) in (0_u32..).zip(values) {
            map.update(&index.to_ne_bytes(), &value, MapFlags::ANY)
                .map_err(|e| BpfError::failed("filling the classifier's maps", LOAD_CAPABILITIES, &e))?;
        }
    }
    Ok(())
}

/// Opens a cgroup by its path from the root of the version 2 hierarchy.
fn open_cgroup(path: &str) -> Result<File, BpfError> {
    let failed = |reason: String| BpfError::Cgroup { path: path.to_owned(), reason };
    let relative = Path::new(path.trim_start_matches('/'));
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(failed("it leads out of the hierarchy".to_owned()));
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|e| failed(e.to_string()))?;
    let root = cgroup_root(&mounts).ok_or_else(|| failed("no version 2 hierarchy is mounted".to_owned()))?;
    let directory = File::open(root.join(relative)).map_err(|e| failed(e.to_string()))?;
    // The map would reject a regular file of the hierarchy with an unclear error.
    match directory.metadata() {
        Ok(data) if data.is_dir() => Ok(directory),
        Ok(_) => Err(failed("it is a file".to_owned())),
        Err(e) => Err(failed(e.to_string())),
    }
}

/// Mount point of the version 2 hierarchy (fstab(5), as in /proc/mounts).
fn cgroup_root(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let directory = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(directory.replace("\\040", " ")))
    })
}

/// Determines why the kernel rejected the program.
fn load_error(refusal: &libbpf_rs::Error) -> BpfError {
    let log = log::last_warnings();
    let error = BpfError::failed("loading the classifier, whose maps take kernel memory", LOAD_CAPABILITIES, refusal);
    let BpfError::System { operation, source } = error else { return error };
    if source.kind() == io::ErrorKind::OutOfMemory {
        return BpfError::System { operation, source };
    }
    // The checks load trial programs, so they run only after a failure.
    match supported() {
        (false, _) => BpfError::Missing,
        (_, false) => BpfError::TooOld,
        _ => BpfError::Refused { log, source },
    }
}

/// Whether the kernel supports classifiers, and whether it has the helper bpf_loop.
fn supported() -> (bool, bool) {
    let classifiers = ProgramType::SchedCls.is_supported().unwrap_or(true);
    (classifiers, ProgramType::SchedCls.is_helper_supported(BPF_FUNC_loop).unwrap_or(true))
}

/// Error for an object that lacks a part of its source; a tested build never returns it.
fn missing_part(operation: &'static str) -> BpfError {
    BpfError::System {
        operation,
        source: error::as_io(&libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound))),
    }
}
