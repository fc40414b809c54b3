//! Longhaul's own congestion controls, in the kernel for as long as an experiment lasts.
//!
//! The kernel knows them for the whole host, so each experiment loads them under names that nobody else uses: what a user has loaded, and
//! other labs, go on beside it.

use std::path::{Path, PathBuf};

use bpf::congestion as loader;
use congestion::Settings;
use scenario::Scenario;

use crate::LabError;

/// Where those of labs are pinned: a folder for each process.
const FOLDER: &str = "/sys/fs/bpf/longhaul";
const PREFIX: &str = "lab-";

/// What is loaded; unloaded when dropped.
#[derive(Debug)]
pub(crate) struct Controls {
    folder: PathBuf,
    loaded: Vec<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// As in the experiment's file.
    name: String,
    settings: Settings,
    /// As in the kernel.
    own: String,
}

impl Controls {
    /// Loads all that the points of an experiment name.
    pub(crate) fn load(scenarios: &[Scenario]) -> Result<Self, LabError> {
        let folder = Path::new(FOLDER).join(format!("{PREFIX}{}", std::process::id()));
        let mut all = Self { folder, loaded: Vec::new() };
        let used = scenarios.iter().flat_map(|s| s.congestion.iter().filter(|(name, _)| is_used(s, name)));
        for (name, settings) in used {
            if all.own_name(name, settings).is_some() {
                continue;
            }
            let own = format!("{}_{}_{}", settings.algorithm().name(), std::process::id(), all.loaded.len());
            loader::load(&all.folder, &own, settings)
                .map_err(|source| LabError::Congestion { name: name.clone(), source: Box::new(source) })?;
            all.loaded.push(Loaded { name: name.clone(), settings: *settings, own });
        }
        Ok(all)
    }

    fn own_name(&self, name: &str, settings: &Settings) -> Option<&str> {
        let same = |l: &&Loaded| l.name == name && l.settings == *settings;
        self.loaded.iter().find(same).map(|l| l.own.as_str())
    }

    /// The scenario with the kernel's names.
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

fn is_used(scenario: &Scenario, name: &str) -> bool {
    scenario.flows.iter().any(|f| f.congestion_control.as_deref() == Some(name))
        || scenario.mice.iter().any(|m| m.congestion_control == name)
}

impl Drop for Controls {
    fn drop(&mut self) {
        for loaded in &self.loaded {
            // What stays is found by `lab gc`.
            if let Err(e) = loader::unload(&self.folder, &loaded.own) {
                tracing::warn!("{e}");
            }
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Unloads what labs left that are gone; gives the names. Without the right to look, there is nothing.
pub(crate) fn collect() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return Vec::new() };
    let mut gone = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let lab = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|pid| pid.parse::<u32>().ok());
        if lab.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            continue;
        }
        let loaded = loader::list(&entry.path()).unwrap_or_default().into_iter().map(|l| l.name);
        // Nobody loads for a process that is gone.
        for name in loaded.chain(loader::unfinished(&entry.path()).unwrap_or_default()) {
            if loader::unload(&entry.path(), &name).is_ok() {
                gone.push(name);
            }
        }
        let _ = std::fs::remove_dir(entry.path());
    }
    gone
}
