//! Loads longhaul's own congestion controls into the kernel for the duration of an experiment.
//!
//! The kernel has one list of congestion controls for the host. Each experiment therefore loads them under unique
//! names, and does not affect those of users and of other labs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bpf::congestion as loader;
use congestion::{Algorithm, Settings};
use scenario::Scenario;

use crate::LabError;

/// Directory of the labs' pins, with one subdirectory for each process.
const PIN_DIRECTORY: &str = "/sys/fs/bpf/longhaul";
const PREFIX: &str = "lab-";

/// The loaded congestion controls; dropping it unloads them.
#[derive(Debug)]
pub(crate) struct Controls {
    directory: PathBuf,
    loaded: Vec<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// Name in the experiment file.
    name: String,
    settings: Settings,
    /// Name in the kernel.
    own: String,
    /// Whether the kernel brings this control itself, so that it is never unloaded.
    is_builtin: bool,
}

impl Controls {
    /// Loads all congestion controls that the scenarios of an experiment use.
    pub(crate) fn load(scenarios: &[Scenario]) -> Result<Self, LabError> {
        let directory = Path::new(PIN_DIRECTORY).join(format!("{PREFIX}{}", std::process::id()));
        let mut all = Self { directory, loaded: Vec::new() };
        let used = scenarios.iter().flat_map(|s| s.congestion.iter().filter(|(name, _)| is_used(s, name)));
        for (name, settings) in used {
            if all.own_name(name, settings).is_some() {
                continue;
            }
            if !loader::is_supported() && is_builtin(settings) {
                let own = settings.algorithm().name().to_owned();
                all.loaded.push(Loaded { name: name.clone(), settings: *settings, own, is_builtin: true });
                continue;
            }
            let own = name_in_kernel(settings.algorithm(), std::process::id(), all.loaded.len());
            loader::load(&all.directory, &own, settings)
                .map_err(|source| LabError::Congestion { name: name.clone(), source: Box::new(source) })?;
            all.loaded.push(Loaded { name: name.clone(), settings: *settings, own, is_builtin: false });
        }
        Ok(all)
    }

    fn own_name(&self, name: &str, settings: &Settings) -> Option<&str> {
        let same = |l: &&Loaded| l.name == name && l.settings == *settings;
        self.loaded.iter().find(same).map(|l| l.own.as_str())
    }

    /// The scenario with the names of congestion controls in the kernel.
    pub(crate) fn in_kernel(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        let settings = scenario.congestion.clone();
        let rename = |name: &mut String| {
            if let Some(own) = settings.get(name).and_then(|s| self.own_name(name, s)) {
                own.clone_into(name);
            }
        };
        scenario.flows.iter_mut().filter_map(|f| f.congestion_control.as_mut()).for_each(rename);
        scenario.mice.iter_mut().map(|m| &mut m.congestion_control).for_each(rename);
        scenario
    }
}

/// Whether Linux has this control with these parameters (tcp_htcp.c); it has no FAST.
fn is_builtin(settings: &Settings) -> bool {
    settings.algorithm() == Algorithm::Htcp && *settings == Settings::of(Algorithm::Htcp)
}

/// Name of the first congestion control that these scenarios use and that only BPF programs provide; `None` if a
/// kernel without BPF can run all of them.
pub fn control_that_needs_bpf(scenarios: &[Scenario]) -> Option<&str> {
    let used = scenarios.iter().flat_map(|s| s.congestion.iter().filter(|(name, _)| is_used(s, name)));
    used.filter(|(_, settings)| !is_builtin(settings)).map(|(name, _)| name.as_str()).next()
}

fn name_in_kernel(algorithm: Algorithm, lab: u32, number: usize) -> String {
    format!("{}_{lab}_{number}", algorithm.name())
}

/// The process ID of the lab that loaded a congestion control of this name; `None` if the name does not have the form
/// that labs use.
pub fn lab_of_control(name: &str) -> Option<u32> {
    let mut rest = name.strip_prefix(Algorithm::of_name(name)?.name())?.split('_');
    let (before, lab, number) = (rest.next()?, rest.next()?.parse().ok()?, rest.next()?.parse().ok()?);
    let is_labs = before.is_empty() && name_in_kernel(Algorithm::of_name(name)?, lab, number) == name;
    is_labs.then_some(lab)
}

/// Whether a process with this number in any PID namespace may be running. Returns true if this process cannot see all
/// processes of the host.
fn may_run(number: u32) -> bool {
    // PROC_PID_INIT_INO, include/linux/proc_ns.h.
    const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFC;
    if !fs::metadata("/proc/self/ns/pid").is_ok_and(|m| m.ino() == INITIAL_NAMESPACE) {
        return true;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let number = number.to_string();
    // proc_pid_status(5): the process IDs, from the outermost namespace to the innermost.
    let is_it = |status: &str| {
        let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:")).unwrap_or_default();
        numbers.split_whitespace().next_back() == Some(number.as_str())
    };
    processes.flatten().filter_map(|e| fs::read_to_string(e.path().join("status")).ok()).any(|s| is_it(&s))
}

fn is_used(scenario: &Scenario, name: &str) -> bool {
    scenario.flows.iter().any(|f| f.congestion_control.as_deref() == Some(name))
        || scenario.mice.iter().any(|m| m.congestion_control == name)
}

impl Drop for Controls {
    fn drop(&mut self) {
        for loaded in self.loaded.iter().filter(|l| !l.is_builtin) {
            // `lab gc` unloads the rest.
            if let Err(e) = loader::unload(&self.directory, &loaded.own) {
                tracing::warn!("{e}");
            }
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Unloads the congestion controls of labs that no longer run. Returns their names; without the required privilege the
/// list is empty.
pub(crate) fn collect() -> Vec<String> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(PIN_DIRECTORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let lab = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|pid| pid.parse::<u32>().ok());
        if lab.is_none_or(may_run) {
            continue;
        }
        let loaded = loader::list(&entry.path()).unwrap_or_default().into_iter().map(|l| l.name);
        // A dead process cannot have a load in progress.
        for name in loaded.chain(loader::unfinished(&entry.path()).unwrap_or_default()) {
            if loader::unload(&entry.path(), &name).is_ok() {
                removed.push(name);
            }
        }
        let _ = fs::remove_dir(entry.path());
    }
    // Congestion controls of labs in separate mount namespaces, whose pins are gone.
    let mut unpinned = loader::unpinned();
    unpinned.retain(|l| lab_of_control(&l.name).is_some_and(|lab| !may_run(lab)));
    removed.extend(
        unpinned.into_iter().map(|l| l.name).filter(|name| loader::unload(Path::new(PIN_DIRECTORY), name).is_ok()),
    );
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_control_identifies_its_lab() {
        assert_eq!(lab_of_control(&name_in_kernel(Algorithm::Fast, 4_194_304, 9)), Some(4_194_304));
        assert_eq!(lab_of_control("htcp_12_0"), Some(12));
        for other in ["fast", "fast_a200", "fast_12", "fast_12_0_1", "fast_012_0", "fastx_12_0", "cubic_1_0"] {
            assert_eq!(lab_of_control(other), None, "{other}");
        }
    }

    #[test]
    fn an_existing_process_may_run() {
        assert!(may_run(std::process::id()));
    }
}
