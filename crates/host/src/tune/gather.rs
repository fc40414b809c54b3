use std::collections::BTreeMap;

use kernel::{Netlink, SysctlAccess};
use tuning::{Facts, Reading, Softnet};
use units::Bytes;

use super::{TuneError, device, machine};

/// A variable that exists only in the machine's first network namespace (net/core/sysctl_net_core.c).
const HOST_ONLY_KEY: &str = "net.core.netdev_max_backlog";

/// Variables that the rules read and that have no row, or a row without a change.
const READ_ONLY_KEYS: &[&str] = &[
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_available_congestion_control",
    "net.core.rmem_default",
    "net.ipv4.ip_forward",
];

/// Whether the calling thread is in the machine's first network namespace, to which all settings belong.
pub fn is_host() -> bool {
    kernel::sysctl_access(HOST_ONLY_KEY).is_ok_and(|a| a != SysctlAccess::Missing)
}

/// Devices other than loopback, in the kernel's order.
///
/// # Errors
/// The kernel does not answer.
pub fn devices() -> Result<Vec<String>, TuneError> {
    let links = Netlink::open()?.links()?;
    Ok(links.into_iter().filter(|d| d.name != "lo").map(|d| d.name).collect())
}

/// The named device, else the fastest operational one with a known speed.
///
/// # Errors
/// There is none of that name.
pub fn pick_device(name: Option<&str>) -> Result<Option<tuning::Device>, TuneError> {
    let links = Netlink::open()?.links()?;
    if let Some(name) = name {
        let found = links.iter().find(|d| d.name == name);
        let known = || links.iter().map(|d| d.name.clone()).collect();
        let link = found.ok_or_else(|| TuneError::NoDevice { name: name.to_owned(), known: known() })?;
        return Ok(Some(device::read(link)?));
    }
    let candidates = links.iter().filter(|d| d.operational && d.name != "lo");
    let read: Result<Vec<_>, TuneError> = candidates.map(device::read).collect();
    // `rev` selects the first of equal devices, so that the choice is stable.
    Ok(read?.into_iter().rev().max_by_key(|d| d.speed))
}

/// Reads all facts that the rules need, in the calling thread's network namespace. Unreadable values are marked as
/// such.
pub fn gather(device: Option<tuning::Device>) -> Facts {
    let first = is_host();
    let keys = tuning::sysctls().chain(READ_ONLY_KEYS.iter().copied());
    let sysctls: BTreeMap<String, Reading> = keys.map(|key| (key.to_owned(), sysctl(key, first))).collect();
    Facts {
        sysctls,
        kernel: machine::version(),
        has_fq: machine::has_fq(),
        page: Bytes::new(machine::page()),
        memory: machine::memory(),
        softnet: softnet(),
        governors: machine::governors(),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        irqbalance: machine::irqbalance(),
        device,
    }
}

fn sysctl(key: &str, is_host: bool) -> Reading {
    let access = match kernel::sysctl_access(key) {
        Ok(access) => access,
        Err(e) => return Reading::Failed(e.to_string()),
    };
    let value = match access {
        SysctlAccess::Missing if is_host => return Reading::Absent,
        SysctlAccess::Missing => return Reading::HiddenInNamespace,
        SysctlAccess::Own | SysctlAccess::ReadOnly => kernel::read_sysctl(key),
    };
    match (value, access) {
        (Err(e), _) => Reading::Failed(e.to_string()),
        (Ok(value), SysctlAccess::ReadOnly) if !is_host => Reading::OfHost(value),
        (Ok(value), _) => Reading::Own(value),
    }
}

/// Sums over the CPUs; columns are hexadecimal (softnet_seq_show, net/core/net-procfs.c).
fn softnet() -> Option<Softnet> {
    let text = std::fs::read_to_string("/proc/thread-self/net/softnet_stat").ok()?;
    let mut sums = Softnet::default();
    for line in text.lines() {
        let mut columns = line.split_whitespace().map(|c| u64::from_str_radix(c, 16).ok());
        sums.processed += columns.next()??;
        sums.dropped += columns.next()??;
        sums.squeezed += columns.next()??;
    }
    Some(sums)
}
