//! Equivalent tc(8) command lines.

use units::{Bytes, Rate};

use crate::arithmetic::{burst_bytes, kernel_rate, microseconds};
use crate::filter::{Classifier, Filter, Key};
use crate::handle::Handle;
use crate::message::Operation;
use crate::object::{Class, Discipline, Object, Qdisc};

impl Operation {
    /// Equivalent tc(8) command line for a device. `name` maps the index of a redirection's target to its name.
    ///
    /// tc(8) rounds bursts to whole bytes and microseconds, which is coarser than the netlink message. The line of a
    /// BPF filter is commented out, because its program is not in a file. Raw options follow as a comment, because
    /// tc(8) cannot express them.
    pub fn command(&self, device: &str, name: impl Fn(u32) -> String) -> String {
        let verb = match self {
            Self::Add(_) => "add",
            Self::Replace(_) => "replace",
            Self::Change(_) => "change",
            Self::Delete(_) => "del",
        };
        let deletion = matches!(self, Self::Delete(_));
        match self.object() {
            Object::Qdisc(q) => {
                let change = matches!(self, Self::Change(_));
                let what = if deletion { String::new() } else { settings_of_qdisc(q, change) };
                format!("tc qdisc {verb} dev {device} {}{what}", position_of_qdisc(q, deletion))
            }
            Object::Class(c) => class(verb, device, c.handle, c.parent, deletion, || settings_of_class(c)),
            Object::OtherClass(c) => {
                class(verb, device, c.handle, c.parent, deletion, || format!("{} {}", c.kind, comment(&c.options)))
            }
            Object::Filter(f) => {
                let head = format!("tc filter {verb} dev {device} {}", position_of_filter(f, deletion));
                if deletion {
                    return format!("{head}{}", f.classifier.kind());
                }
                let line = format!("{head}{}", classifier_for(&f.classifier, &name));
                // tc(8) cannot load the program, which is not in a file.
                if matches!(f.classifier, Classifier::Bpf(_)) { format!("# {line}") } else { line }
            }
        }
    }
}

fn position_of_qdisc(qdisc: &Qdisc, deletion: bool) -> String {
    match (&qdisc.discipline, qdisc.parent) {
        (Discipline::Ingress, _) => "handle ffff: ingress".to_owned(),
        (Discipline::Clsact, _) => "clsact".to_owned(),
        (_, parent) => {
            let parent = if parent == Handle::ROOT { "root".to_owned() } else { format!("parent {parent}") };
            let space = if deletion { "" } else { " " };
            if qdisc.handle == Handle::NONE {
                format!("{parent}{space}")
            } else {
                format!("{parent} handle {}{space}", qdisc.handle)
            }
        }
    }
}

/// Settings after the parent; empty for objects without settings.
fn settings_of_qdisc(qdisc: &Qdisc, change: bool) -> String {
    let settings = discipline(&qdisc.discipline);
    if matches!(qdisc.discipline, Discipline::Ingress | Discipline::Clsact) {
        return String::new();
    }
    if let (Discipline::FqCodel { flows, .. }, true) = (&qdisc.discipline, change) {
        // The kernel rejects a change that contains the number of flows.
        return settings.replace(&format!(" flows {flows}"), "");
    }
    settings
}

/// Kind and settings.
pub(crate) fn discipline(discipline: &Discipline) -> String {
    match discipline {
        Discipline::Htb(root) => format!(
            "htb default {:#x} r2q {} direct_qlen {}",
            root.default_class, root.rate_to_quantum, root.direct_queue
        ),
        Discipline::Tbf(bucket) => format!(
            "tbf rate {} burst {} limit {}",
            bits(bucket.rate),
            bytes(burst_bytes(bucket.rate, bucket.burst)),
            bytes(bucket.limit)
        ),
        Discipline::PacketFifo { limit } => format!("pfifo limit {limit}"),
        Discipline::ByteFifo { limit } => format!("bfifo limit {}", bytes(*limit)),
        Discipline::FqCodel { limit, target, interval, flows, quantum, memory_limit, ecn } => format!(
            "fq_codel limit {limit} flows {flows} quantum {quantum} target {}us interval {}us memory_limit {} {}",
            microseconds(*target),
            microseconds(*interval),
            bytes(*memory_limit),
            if *ecn { "ecn" } else { "noecn" }
        ),
        Discipline::Ingress => "ingress".to_owned(),
        Discipline::Clsact => "clsact".to_owned(),
        Discipline::Other { kind, options, .. } => format!("{kind} {}", comment(options)),
    }
}

fn class(
    verb: &str,
    device: &str,
    handle: Handle,
    parent: Handle,
    deletion: bool,
    settings: impl Fn() -> String,
) -> String {
    if deletion {
        return format!("tc class {verb} dev {device} classid {handle}");
    }
    format!("tc class {verb} dev {device} parent {parent} classid {handle} {}", settings())
}

fn settings_of_class(class: &Class) -> String {
    let htb = &class.htb;
    let quantum = if htb.quantum == 0 { String::new() } else { format!(" quantum {}", htb.quantum) };
    format!(
        "htb rate {} ceil {} burst {} cburst {} prio {}{quantum}",
        bits(htb.rate),
        bits(htb.ceiling),
        bytes(burst_bytes(htb.rate, htb.burst)),
        bytes(burst_bytes(htb.ceiling, htb.ceiling_burst)),
        htb.priority
    )
}

fn position_of_filter(filter: &Filter, deletion: bool) -> String {
    let protocol = match filter.protocol {
        0x0003 => "all".to_owned(),
        0x0800 => "ip".to_owned(),
        0x86dd => "ipv6".to_owned(),
        other => format!("{other:#06x}"),
    };
    let chain = if filter.chain() == 0 { String::new() } else { format!(" chain {}", filter.chain()) };
    let handle = match (filter.handle, &filter.classifier) {
        (0, _) => String::new(),
        // A new filter can request only the last part of its handle.
        (handle, Classifier::U32 { .. }) if !deletion => format!(" handle ::{:x}", handle & 0xfff),
        (handle, _) if filter.classifier.kind() == "u32" => format!(" handle {}", u32_handle(handle)),
        (handle, _) => format!(" handle {handle:#x}"),
    };
    format!("parent {} protocol {protocol} prio {}{chain}{handle} ", filter.parent, filter.preference)
}

/// Hash table, bucket and node number (print_u32_handle in iproute2).
fn u32_handle(handle: u32) -> String {
    let (table, bucket, number) = (handle >> 20, handle >> 12 & 0xff, handle & 0xfff);
    let bucket = if bucket == 0 { String::new() } else { format!("{bucket:x}") };
    format!("{table:x}:{bucket}:{number:x}")
}

/// Kind and settings for messages; devices appear by index.
pub(crate) fn classifier(classifier: &Classifier) -> String {
    classifier_for(classifier, &|index| format!("number {index}"))
}

fn classifier_for(classifier: &Classifier, name: &impl Fn(u32) -> String) -> String {
    match classifier {
        Classifier::U32 { keys, class, redirect } => {
            let mut line = "u32".to_owned();
            // tc(8) requires at least one match.
            let all = [Key { offset: 0, after_ip_header: false, mask: 0, value: 0 }];
            for key in if keys.is_empty() { &all[..] } else { keys } {
                let from = if key.after_ip_header { "nexthdr+" } else { "" };
                line += &format!(" match u32 {:#010x} {:#010x} at {from}{}", key.value, key.mask, key.offset);
            }
            line += &class.map_or_else(String::new, |class| format!(" flowid {class}"));
            let action = |device| format!(" action mirred egress redirect dev {}", name(device));
            line + &redirect.map_or_else(String::new, action)
        }
        Classifier::Bpf(program) => format!("bpf program `{}`", program.name),
        Classifier::Other { kind, options, .. } => format!("{kind} {}", comment(options)),
    }
}

/// Options that tc(8) cannot express, as a comment.
fn comment(options: &[u8]) -> String {
    let digits: String = options.iter().map(|b| format!("{b:02x}")).collect();
    format!("# options as the kernel has them: {digits}")
}

fn bits(rate: Rate) -> String {
    format!("{}bit", kernel_rate(rate).as_bps())
}

fn bytes(bytes: Bytes) -> String {
    format!("{}b", bytes.as_u64())
}
