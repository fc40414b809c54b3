//! A network device, by netlink, ethtool and sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kernel::{DeviceFeature, Ethtool, FeatureSwitch, Netlink};
use tc::{Handle, Object};
use tuning::{Device, Interrupt, Offload, OffloadState, Rings};

use super::TuneError;

/// Features that are one offload, as `ethtool -K` groups them.
const GROUPS: [(Offload, FeatureSwitch, &[&str]); 3] = [
    (
        Offload::Tso,
        FeatureSwitch::Tso,
        &["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"],
    ),
    (Offload::Gso, FeatureSwitch::Gso, &["tx-generic-segmentation"]),
    (Offload::Gro, FeatureSwitch::Gro, &["rx-gro"]),
];

/// Drivers of virtual devices that report a nominal speed of 10 Gb/s without a physical link.
const DRIVERS_WITH_NOMINAL_SPEED: [&str; 2] = ["veth", "tun"];

const CHECKSUMS: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// Reads the properties of a device; properties that the kernel does not report are absent.
pub(super) fn read(link: &kernel::Device) -> Result<Device, TuneError> {
    let ethtool = Ethtool::open()?;
    let features = ethtool.features(&link.name).unwrap_or_default();
    let offload = |(offload, switch, names): &(Offload, FeatureSwitch, &[&str])| {
        let on = ethtool.switch(&link.name, *switch).ok()?;
        let changeable = group(&features, names).is_some_and(|g| g.changeable);
        Some((*offload, OffloadState { on, changeable }))
    };
    let sysfs = sysfs(link);
    let driver = ethtool.driver(&link.name).ok();
    let is_virtual = driver.as_deref().is_some_and(|d| DRIVERS_WITH_NOMINAL_SPEED.contains(&d));
    let rings = ethtool.rings(&link.name).ok().map(|r| Rings {
        receive: r.receive,
        receive_max: r.receive_max,
        send: r.send,
        send_max: r.send_max,
    });
    Ok(Device {
        name: link.name.clone(),
        speed: ethtool.speed(&link.name).ok().flatten().filter(|_| !is_virtual),
        driver,
        mtu: link.mtu,
        queue_length: link.tx_queue_len,
        qdiscs: Netlink::open()?
            .traffic_control(link.index)
            .ok()
            .map(|all| kinds(all.into_iter().map(|(object, _)| object))),
        offloads: GROUPS.iter().filter_map(offload).collect(),
        lro: features.get("rx-lro").filter(|f| f.active || f.changeable).map(|f| f.active),
        tx_checksum: group(&features, CHECKSUMS),
        rings,
        received_drops: received_drops(&link.name),
        interrupts: sysfs.as_deref().and_then(interrupts),
        rps: sysfs.as_deref().and_then(|p| masks(p, "rx-", "rps_cpus")),
        xps: sysfs.as_deref().and_then(|p| masks(p, "tx-", "xps_cpus")),
    })
}

/// Kinds of the egress disciplines, each once, in the kernel's order with the root first.
fn kinds(objects: impl Iterator<Item = Object>) -> Vec<String> {
    let mut kinds = Vec::new();
    for object in objects {
        if let Object::Qdisc(qdisc) = object
            && qdisc.parent != Handle::INGRESS
            && !kinds.iter().any(|k| k == qdisc.discipline.kind())
        {
            kinds.push(qdisc.discipline.kind().to_owned());
        }
    }
    kinds
}

/// On if any of the features is, as ethtool shows a group.
fn group(features: &BTreeMap<String, DeviceFeature>, names: &[&str]) -> Option<OffloadState> {
    let found: Vec<_> = names.iter().filter_map(|n| features.get(*n)).collect();
    let state = OffloadState { on: found.iter().any(|f| f.active), changeable: found.iter().any(|f| f.changeable) };
    (!found.is_empty()).then_some(state)
}

/// Directory of the device in sysfs, if /sys shows this network namespace. It shows the namespace of the process that
/// mounted it.
fn sysfs(link: &kernel::Device) -> Option<PathBuf> {
    let directory = Path::new("/sys/class/net").join(&link.name);
    let reads = |file: &str| fs::read_to_string(directory.join(file)).ok().map(|t| t.trim().to_owned());
    let mac = link.mac.map(|m| m.map(|byte| format!("{byte:02x}")).join(":"));
    let is_it = reads("ifindex")? == link.index.to_string() && mac.is_none_or(|mac| reads("address") == Some(mac));
    is_it.then_some(directory)
}

/// Received packets dropped for lack of buffers: columns `drop` and `fifo` of /proc/net/dev.
fn received_drops(device: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let mut columns = line.split_whitespace().skip(3);
    let mut next = || columns.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Message-signalled interrupts (MSI) of the device, or, on a virtual bus, of its parent device.
fn interrupts(directory: &Path) -> Option<Vec<Interrupt>> {
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let listed = places.iter().find_map(|place| fs::read_dir(directory.join(place)).ok())?;
    let number = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = listed.filter_map(number).collect();
    numbers.sort_unstable();
    let interrupt = |number| {
        let read = |file: &str| fs::read_to_string(format!("/proc/irq/{number}/{file}")).ok();
        let cpus = read("effective_affinity_list").or_else(|| read("smp_affinity_list"))?;
        Some(Interrupt { number, cpus: cpus.trim().to_owned() })
    };
    Some(numbers.into_iter().filter_map(interrupt).collect())
}

/// Content of a file of each queue, ordered by queue name.
fn masks(directory: &Path, queues: &str, file: &str) -> Option<Vec<String>> {
    let listed = fs::read_dir(directory.join("queues")).ok()?;
    let mut paths: Vec<PathBuf> = listed
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(queues)))
        .collect();
    paths.sort_unstable();
    paths.iter().map(|p| fs::read_to_string(p.join(file)).ok().map(|t| t.trim().to_owned())).collect()
}
