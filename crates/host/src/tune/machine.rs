//! Facts about the machine from /proc, /sys and the module lists.

use std::fs;

use units::Bytes;

/// Major and minor version of the kernel; 0.0 if unknown, so that the rules for older kernels apply.
pub(super) fn version() -> (u32, u32) {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Whether `fq` is built into the kernel or available as a module. The kernel's symbols list loaded code, and the
/// module lists contain available modules.
pub(super) fn has_fq() -> Option<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let directory = format!("/lib/modules/{}", release.trim());
    let lists = ["modules.builtin", "modules.dep"].map(|f| fs::read_to_string(format!("{directory}/{f}")).ok());
    if lists.iter().flatten().any(|text| text.contains("/sch_fq.ko")) {
        return Some(true);
    }
    let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
    let loaded = has_symbol(&symbols, "fq_enqueue");
    // The list of symbols is complete only if it has the symbols of a discipline that every kernel has.
    let is_whole = has_symbol(&symbols, "pfifo_fast_enqueue");
    match (loaded, lists.iter().flatten().count(), is_whole) {
        (true, _, _) => Some(true),
        // In a kernel without modules all disciplines are built in.
        (false, 2, true) => Some(false),
        (false, 0, true) if !std::path::Path::new("/proc/modules").exists() => Some(false),
        _ => None,
    }
}

fn has_symbol(symbols: &str, name: &str) -> bool {
    symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(name))
}

/// Total memory of the machine.
pub(super) fn memory() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kib * 1024))
}

/// Page size in bytes.
pub(super) fn page() -> u64 {
    kernel::page_bytes()
}

/// The frequency governor of each CPU; `None` where the machine does not expose them.
pub(super) fn governors() -> Option<Vec<String>> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let found: Vec<String> = cpus
        .filter_map(|cpu| fs::read_to_string(cpu.ok()?.path().join("cpufreq/scaling_governor")).ok())
        .map(|g| g.trim().to_owned())
        .collect();
    (!found.is_empty()).then_some(found)
}

/// Whether irqbalance runs; a process of another user may be hidden and then counts as absent.
pub(super) fn irqbalance() -> Option<bool> {
    let processes = fs::read_dir("/proc").ok()?;
    let mut names = processes.filter_map(|p| fs::read_to_string(p.ok()?.path().join("comm")).ok());
    Some(names.any(|name| name.trim() == "irqbalance"))
}
