//! Rules for the egress device of the path.

use results::tune::{Judgement, TuneRow};
use units::Bytes;

use super::text::{bytes, rate, time};
use super::{ESNET, SCALING};
use crate::catalogue::{Context, Finding, Paper, row, unread};
use crate::{Device, Offload, OffloadState, Rings, Setting};

/// Default length of a device's transmit queue in packets.
const QUEUE_PACKETS_DEFAULT: u32 = 1000;
/// Bytes of the Ethernet header of a packet.
const ETHERNET_HEADER_BYTES: u64 = 14;
/// Bytes of an Ethernet frame outside the IP packet, including preamble, checksum and gap (IEEE 802.3).
const ETHERNET_OVERHEAD_BYTES: f64 = 38.0;
/// Header bytes of IPv4 and TCP with timestamps.
const HEADER_BYTES: f64 = 52.0;
/// Rate in bits per second from which a single CPU may not suffice for the packets of a device.
const FAST_BPS_MIN: u64 = 10_000_000_000;

const ETHTOOL: &str = "kernel: Documentation/networking/segmentation-offloads.rst";

pub(crate) fn rows(context: &Context<'_>, device: &Device) -> Vec<TuneRow> {
    let mut rows = vec![qdisc(context, device), queue_length(context, device)];
    rows.extend(Offload::ALL.into_iter().map(|o| offload(device, o)));
    rows.push(large_receive(context, device));
    rows.push(checksum(device));
    rows.push(mtu(device));
    rows.push(rings(device));
    rows.push(interrupts(context, device));
    rows.push(spreading(context, device));
    rows
}

fn key(device: &Device, name: &str) -> String {
    format!("{}:{name}", device.name)
}

fn with_paper(mut row: TuneRow, paper: &Paper) -> TuneRow {
    row.paper_2014 = Some(paper.record());
    row
}

fn qdisc(context: &Context<'_>, device: &Device) -> TuneRow {
    const SOURCE: &str = "ESnet fasterdata, packet pacing; tc-fq(8)";
    let key = key(device, "qdisc");
    let Some(kinds) = &device.qdiscs else {
        return unread(&key, Judgement::CannotBeRead, "The kernel did not return the queueing disciplines.", SOURCE);
    };
    let found = if kinds.is_empty() { "none".to_owned() } else { kinds.join(" ") };
    let is_fifo = kinds.iter().any(|k| matches!(k.as_str(), "pfifo_fast" | "pfifo" | "bfifo"));
    let finding = match (is_fifo, context.facts.has_fq) {
        (true, Some(true)) => Finding::change(
            "fq",
            format!("It paces nothing and serves no connection in turn: tc qdisc replace dev {} root fq.", device.name),
        ),
        (true, None) => Finding::unknown("fq would be better; whether this kernel has it cannot be determined."),
        (true, Some(false)) => Finding::good("This kernel has no fq; `longhaul shape` divides the device without it."),
        (false, _) if found.contains("fq") => Finding::good("It shares the device among connections."),
        (false, _) => Finding::good("An administrator chose it, or the device needs none; it is left unchanged."),
    };
    row(&key, &found, finding, SOURCE)
}

fn queue_length(context: &Context<'_>, device: &Device) -> TuneRow {
    const PAPER: Paper = Paper {
        advised: "10000",
        differs: true,
        why: "The longer the queue the longer a full one delays everything; pacing and fq need none of it.",
    };
    let packet = u64::from(device.mtu) + ETHERNET_HEADER_BYTES;
    let link = device.speed.unwrap_or(context.path.rate);
    let full = Bytes::new(u64::from(device.queue_length) * packet);
    let wait = link.time_for(full).unwrap_or_default();
    let effect = format!("a full queue of packets of {packet} bytes waits {} at {}", time(wait), rate(link));
    let is_fifo = device.qdiscs.as_ref().is_none_or(|kinds| kinds.iter().any(|k| k.contains("fifo")));
    let why = "A fifo at the device holds this many packets; more than a round trip of them is only delay.";
    let finding = match device.queue_length {
        QUEUE_PACKETS_DEFAULT..
            if device.queue_length > QUEUE_PACKETS_DEFAULT && is_fifo && wait > context.path.rtt =>
        {
            Finding::change(QUEUE_PACKETS_DEFAULT, why).with_effect(effect)
        }
        0 => Finding::good("The device has no queue of its own, as virtual devices do."),
        _ => Finding::good(why).with_effect(effect),
    };
    let applicable = finding.judgement == Judgement::Change;
    let setting = Setting::QueueLength(device.name.clone());
    let row = row(&setting.to_string(), &device.queue_length.to_string(), finding, "tc-pfifo(8); RFC 7567");
    with_paper(TuneRow { applicable, ..row }, &PAPER)
}

fn offload(device: &Device, offload: Offload) -> TuneRow {
    const PAPER: Paper = Paper {
        advised: "off",
        differs: true,
        why: "The kernel sizes and paces its large packets since Linux 3.12; off only costs CPU. The paper's `ethtool -k` only reads: -K sets.",
    };
    let key = Setting::Offload(device.name.clone(), offload).to_string();
    let row = switched(&key, device.offloads.get(&offload), meaning(offload));
    if offload == Offload::Tso { with_paper(row, &PAPER) } else { row }
}

const fn meaning(offload: Offload) -> &'static str {
    match offload {
        Offload::Tso => "The kernel hands over up to 64 kB at once and the device cuts it into packets.",
        Offload::Gso => "Packets are cut just before the driver, so that the layers above run once for many.",
        Offload::Gro => "Received packets of a connection are merged, so that the layers above run once for many.",
    }
}

fn switched(key: &str, state: Option<&OffloadState>, why: &str) -> TuneRow {
    let Some(state) = state else {
        return unread(key, Judgement::CannotBeRead, "The driver does not report it.", ETHTOOL);
    };
    let finding = match (state.on, state.changeable) {
        (true, _) => Finding::good(why),
        (false, true) => Finding::change("on", why),
        (false, false) => Finding::good("The device has none."),
    };
    let applicable = finding.judgement == Judgement::Change;
    TuneRow { applicable, ..row(key, if state.on { "on" } else { "off" }, finding, ETHTOOL) }
}

fn checksum(device: &Device) -> TuneRow {
    let why =
        "The device computes checksums of what is sent; without it there is no segmentation by the device either.";
    // Switching one checksum offload can switch others, so the setting is only shown.
    let row = switched(&key(device, "tx-checksum"), device.tx_checksum.as_ref(), why);
    TuneRow { applicable: false, ..row }
}

fn large_receive(context: &Context<'_>, device: &Device) -> TuneRow {
    let key = key(device, "lro");
    let Some(on) = device.lro else {
        return unread(&key, Judgement::CannotBeRead, "The driver does not report it.", ETHTOOL);
    };
    let forwards = context.sysctl("net.ipv4.ip_forward") == Some("1");
    let finding = match (on, forwards) {
        (true, true) => {
            Finding::change("off", "What it merges cannot be cut again, so a host that forwards breaks it.")
        }
        (true, false) => Finding::good("It merges more than GRO, at the price of exact packet boundaries."),
        (false, _) => Finding::good("GRO does the same without losing packet boundaries."),
    };
    row(&key, if on { "on" } else { "off" }, finding, ETHTOOL)
}

fn mtu(device: &Device) -> TuneRow {
    const PAPER: Paper = Paper {
        advised: "9000",
        differs: true,
        why: "Only if every hop of the path carries it; offloads have taken most of what it saved in the host.",
    };
    let share = |mtu: f64| (mtu - HEADER_BYTES) / (mtu + ETHERNET_OVERHEAD_BYTES) * 100.0;
    let effect = format!(
        "{:.1} % of an Ethernet link are payload of TCP; {:.1} % with 9000",
        share(f64::from(device.mtu)),
        share(9000.0)
    );
    let finding = if device.mtu < 1500 {
        Finding::unknown("Smaller than Ethernet's 1500: right below a tunnel, else a fault.")
    } else {
        Finding::good("Larger packets need every hop of the path; `longhaul test` reports the verified size.")
    };
    let row = row(&key(device, "mtu"), &device.mtu.to_string(), finding.with_effect(effect), "RFC 4821; RFC 8899");
    with_paper(row, &PAPER)
}

fn rings(device: &Device) -> TuneRow {
    let key = key(device, "rings");
    let Some(Rings { receive, receive_max, send, send_max }) = device.rings else {
        return unread(
            &key,
            Judgement::CannotBeRead,
            "The driver does not report it; virtual devices have none.",
            ESNET,
        );
    };
    let found = format!("rx {receive}/{receive_max}, tx {send}/{send_max}");
    let finding = match device.received_drops {
        Some(lost) if lost > 0 && receive < receive_max => Finding::change(
            format!("rx {receive_max}"),
            format!(
                "{lost} received packets were lost to a full ring: ethtool -G {} rx {receive_max} (the link goes down for a moment).",
                device.name
            ),
        ),
        Some(0) => Finding::good("No received packet was lost to a full ring."),
        Some(lost) => {
            Finding::good(format!("{lost} received packets were dropped; the ring is as large as it can be."))
        }
        None => Finding::unknown("The number of packets lost to a full ring cannot be read."),
    };
    let ring_bytes = Bytes::new(u64::from(receive) * (u64::from(device.mtu) + ETHERNET_HEADER_BYTES));
    let effect = device
        .speed
        .and_then(|s| s.time_for(ring_bytes))
        .map(|t| format!("{} of full packets ({}) while the CPU does something else", time(t), bytes(ring_bytes)));
    row(&key, &found, Finding { effect, ..finding }, ESNET)
}

fn interrupts(context: &Context<'_>, device: &Device) -> TuneRow {
    let key = key(device, "interrupts");
    let Some(interrupts) = device.interrupts.as_ref().filter(|i| !i.is_empty()) else {
        return unread(
            &key,
            Judgement::CannotBeRead,
            "The device shows no interrupts; virtual ones have none.",
            SCALING,
        );
    };
    let mut cpus: Vec<&str> = interrupts.iter().map(|i| i.cpus.as_str()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let balance = match context.facts.irqbalance {
        Some(true) => ", irqbalance runs",
        Some(false) => ", no irqbalance",
        None => "",
    };
    let found = format!("{} on CPUs {}{balance}", interrupts.len(), cpus.join(" "));
    let is_fast = context.path.rate.as_bps() >= FAST_BPS_MIN;
    let on_one = cpus.len() == 1 && interrupts.len() > 2 && cpus.first().is_some_and(|c| c.parse::<u32>().is_ok());
    let finding = if on_one && context.facts.cpus > 1 && is_fast {
        Finding::change("spread", "All queues interrupt one CPU; set /proc/irq/N/smp_affinity_list, or run irqbalance.")
    } else if is_fast {
        Finding::good(
            "Spread as it is; at this rate keep the program off the CPUs that take interrupts, on the same NUMA node.",
        )
    } else {
        Finding::good("At this rate one CPU suffices.")
    };
    row(&key, &found, finding, SCALING)
}

fn spreading(context: &Context<'_>, device: &Device) -> TuneRow {
    let key = key(device, "rps-xps");
    let Some(rps) = &device.rps else {
        return unread(&key, Judgement::CannotBeRead, "The device's queues cannot be read here.", SCALING);
    };
    let is_on = |masks: &[String]| masks.iter().any(|m| m.chars().any(|c| !matches!(c, '0' | ',')));
    let word = |masks: &[String]| if is_on(masks) { "on" } else { "off" };
    // A device with one transmit queue has no mask.
    let xps = device.xps.as_deref().map_or("none", word);
    let found = format!("{} rx, RPS {}, XPS {xps}", rps.len(), word(rps));
    let finding = if rps.len() == 1
        && !is_on(rps)
        && context.facts.cpus > 1
        && context.path.rate.as_bps() >= FAST_BPS_MIN
    {
        Finding::change(
            "RPS on",
            "One receive queue means one CPU for all packets: spread them (queues/rx-0/rps_cpus), CPUs of one NUMA node.",
        )
    } else {
        Finding::good("Spreading by software pays where one CPU cannot keep up with one receive queue.")
    };
    row(&key, &found, finding, SCALING)
}
