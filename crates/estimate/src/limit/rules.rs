use results::{Limit, LimitVerdict};
use units::{Bytes, Duration, Rate};

use super::evidence::Shares;
use super::full_path::{fills_receive_window, own_estimate, standing_queue};
use super::{ReceiverEvidence, SenderEvidence};

/// Minimum share of one CPU at which a thread saturates it. Interrupts and accounting use the rest.
pub(super) const CPU_SATURATED_SHARE: f64 = 0.9;
/// Minimum share of the interval at the disk at which the disk is the limit.
const DISK_SATURATED_SHARE: f64 = 0.5;
/// Minimum share of the interval that a receiving thread spent at the disk at which it never waited for the network.
/// Reading and echoing use the rest.
const DISK_ONLY_SHARE: f64 = 0.9;
/// Minimum share of the host's busiest CPU at which a thread that neither ran nor waited was kept from running.
const HOST_CPU_SATURATED_SHARE: f64 = 0.95;
/// Maximum share of the interval at which a thread counts as never blocked: accounting is by clock ticks of up to 10
/// ms.
const NEVER_BLOCKED_SHARE_MAX: f64 = 0.1;
/// Minimum share of evidence for a verdict.
const EVIDENCE_SHARE_MIN: f64 = 0.1;
/// Minimum share of the configured rate limit at which it is the limit.
const AT_LIMIT_SHARE_MIN: f64 = 0.95;
/// Header bytes per segment that the pacer counts and goodput does not: Ethernet 14, IPv4 20, TCP with timestamps 32.
const PACED_HEADER_BYTES: u64 = 66;
/// Share of the congestion window in flight below which the window itself is not the limit. BBR keeps it at half.
pub(super) const WINDOW_USED_SHARE_MIN: f64 = 0.9;
/// Mean share of the congestion window in flight (Little's law: rate x srtt) below which the window cannot limit the
/// transfer. A limiting window is full except while it is reduced and grows again.
const WINDOW_MEAN_SHARE_MIN: f64 = 0.5;
/// Reduction by CUBIC on loss (RFC 9438 §4.6: beta 0.7). Reno reduces to 0.5, so that recovery is reported for too
/// short a time.
const CUBIC_BETA: f64 = 0.7;
/// TCP_CA_CWR: the window is being reduced (include/uapi/linux/tcp.h); recovery and loss are above it.
const CA_STATE_CWR: u8 = 2;

/// Determines the limit of one stream in one interval.
///
/// The rules apply in this order. A rate at the configured limit is limited by it, whatever the cause. A sending thread
/// that computes and never waits is the limit, and so is a disk on which the thread waits longer than on the socket, or
/// at which the receiving thread spends all its time. A
/// standing queue makes the path the limit. Otherwise the largest share of the interval decides: receive window, send
/// buffer, the application's idle time, or the rest of the busy time. The receive window is attributed to the
/// receiver's CPU or application if those explain it. The rest of the busy time belongs to the path, the CPU or the
/// congestion window.
pub fn judge(sender: &SenderEvidence, receiver: Option<&ReceiverEvidence>) -> LimitVerdict {
    let s = Shares::of(sender);
    let at_once =
        at_set_ceiling(&s).or_else(|| saturated_sender(&s)).or_else(|| slow_source(&s)).or_else(|| slow_sink(receiver));
    if let Some(verdict) = at_once.or_else(|| standing_queue(&s, receiver)) {
        return verdict;
    }
    let unexplained = if s.blocked < NEVER_BLOCKED_SHARE_MAX { 1.0 - s.busy } else { 0.0 };
    let idle = s.idle.max(unexplained);
    let rest = s.rest();
    let largest = [s.rwnd, s.sndbuf, idle, rest].into_iter().fold(0.0, f64::max);
    let silent = sender.bytes == 0 && s.busy < EVIDENCE_SHARE_MIN && s.idle < EVIDENCE_SHARE_MIN;
    let nothing_happened = silent || sender.interval.is_zero();
    if largest < EVIDENCE_SHARE_MIN || nothing_happened {
        return unknown(&s);
    }
    if s.rwnd >= largest {
        receive_side(&s, receiver)
    } else if s.sndbuf >= largest {
        send_buffer(&s)
    } else if rest >= largest {
        congestion_side(&s, rest, receiver)
    } else {
        application(&s, idle)
    }
}

pub(super) fn verdict(limit: Limit, share: f64, evidence: String) -> LimitVerdict {
    LimitVerdict { limit, share, evidence }
}

/// The configured limit counts packets with headers, goodput does not; the tolerance is in addition to that difference.
fn at_set_ceiling(s: &Shares<'_>) -> Option<LimitVerdict> {
    let ceiling = s.raw.pacing_set.filter(|c| *c > Rate::ZERO)?;
    let mss = s.raw.after.mss_bytes;
    let payload = if mss == 0 { 1.0 } else { mss as f64 / mss.saturating_add(PACED_HEADER_BYTES) as f64 };
    let reached = s.rate.as_bps() as f64 / (ceiling.as_bps() as f64 * payload);
    let text = format!("{} of the set ceiling {ceiling} ({} with headers)", s.rate, percent(reached));
    (reached >= AT_LIMIT_SHARE_MIN).then(|| verdict(Limit::Pacing, reached.min(1.0), text))
}

/// The thread hardly waited for the socket, which would have accepted more data. Either the thread computed all the
/// time, or other work occupied the host's CPUs.
fn saturated_sender(s: &Shares<'_>) -> Option<LimitVerdict> {
    let mut text = format!("sending thread {} CPU, waited for the socket {}", percent(s.cpu), percent(s.blocked));
    // Time at the disk is no wait for a CPU.
    let starved = (1.0 - s.blocked - s.idle - s.cpu - s.disk).max(0.0);
    let contended = s.raw.busiest_cpu.is_some_and(|c| c >= HOST_CPU_SATURATED_SHARE);
    let demand = if contended { s.cpu + starved } else { s.cpu };
    if contended && starved > NEVER_BLOCKED_SHARE_MAX {
        text += &format!(", waited for a CPU {}", percent(starved));
    }
    let is_limit = demand >= CPU_SATURATED_SHARE && s.blocked < NEVER_BLOCKED_SHARE_MAX;
    is_limit.then(|| verdict(Limit::SenderCpu, demand.min(1.0), text))
}

/// The thread waited for the disk, and less for the socket.
fn slow_source(s: &Shares<'_>) -> Option<LimitVerdict> {
    let text =
        || format!("reading from the disk took {}, waiting for the socket {}", percent(s.disk), percent(s.blocked));
    (s.disk >= DISK_SATURATED_SHARE && s.disk > s.blocked).then(|| verdict(Limit::Disk, s.disk, text()))
}

/// The receiving thread spent all its time at the disk, so that the network delivers all that it reads.
///
/// The full receive buffer has other symptoms as well. The kernel drops packets for which it has no memory, and the
/// sender retransmits them; the data in the buffer delays the round trips of the blocks.
fn slow_sink(receiver: Option<&ReceiverEvidence>) -> Option<LimitVerdict> {
    let r = receiver.filter(|r| r.disk() >= DISK_ONLY_SHARE && r.cpu() < CPU_SATURATED_SHARE)?;
    let text = format!("writing to the disk took {}; receiving thread {} CPU", percent(r.disk()), percent(r.cpu()));
    Some(verdict(Limit::Disk, r.disk(), text))
}

fn receive_side(s: &Shares<'_>, receiver: Option<&ReceiverEvidence>) -> LimitVerdict {
    let window = Bytes::new(s.raw.after.snd_wnd_bytes);
    let mut text = format!("receive window limited {} of {}", percent(s.rwnd), seconds(s.raw.interval));
    text += &format!("; window {window} in srtt {} allows {}", millis(s.raw.after.srtt_ns), window_rate(s, window));
    text += &format!(", measured {}", s.rate);
    text += &match receiver {
        Some(r) => format!("; receiving thread {} CPU", percent(r.cpu())),
        None => "; receiver's CPU unknown".to_owned(),
    };
    if let Some(disk) = receiver.map(ReceiverEvidence::disk).filter(|d| *d >= DISK_SATURATED_SHARE) {
        text += &format!("; writing to the disk took {}", percent(disk));
        return verdict(Limit::Disk, s.rwnd, text);
    }
    if receiver.is_some_and(|r| r.cpu() >= CPU_SATURATED_SHARE) {
        return verdict(Limit::ReceiverCpu, s.rwnd, text);
    }
    // A busy host does not matter if the thread hardly runs.
    let runs = receiver.filter(|r| r.cpu() > NEVER_BLOCKED_SHARE_MAX);
    if let Some(host) = runs.and_then(|r| r.busiest_cpu).filter(|c| *c >= HOST_CPU_SATURATED_SHARE) {
        text += &format!(", its busiest CPU {}", percent(host));
        return verdict(Limit::ReceiverCpu, s.rwnd, text);
    }
    // A reader that keeps up leaves the whole buffer advertised; a closed window is a buffer full of unread data.
    let closed_below = s.raw.after.mss_bytes.saturating_mul(2);
    let opened_wide = s.raw.before.snd_wnd_bytes.max(s.raw.after.cwnd_bytes) >= closed_below;
    if receiver.is_some() && opened_wide && s.raw.after.snd_wnd_bytes < closed_below {
        text += "; the window is closed: data waits unread";
        return verdict(Limit::ReceiverApplication, s.rwnd, text);
    }
    verdict(Limit::ReceiveWindow, s.rwnd, text)
}

fn send_buffer(s: &Shares<'_>) -> LimitVerdict {
    let (flight, cwnd) = (Bytes::new(s.in_flight()), Bytes::new(s.raw.after.cwnd_bytes));
    let share = percent(s.sndbuf);
    let interval = seconds(s.raw.interval);
    let text = format!(
        "send buffer limited {share} of {interval}; all it holds is in flight ({flight}), cwnd {cwnd} allows more"
    );
    verdict(Limit::SendBuffer, s.sndbuf, text)
}

fn application(s: &Shares<'_>, share: f64) -> LimitVerdict {
    let host_cpu = s.raw.busiest_cpu.unwrap_or(0.0);
    let mut text = format!("nothing to send {}, data outstanding {}", percent(s.idle), percent(s.busy));
    text += &format!("; sending thread {} CPU, waited for the socket {}", percent(s.cpu), percent(s.blocked));
    if s.idle < share && host_cpu >= HOST_CPU_SATURATED_SHARE {
        text += &format!("; the busiest CPU {}", percent(host_cpu));
        return verdict(Limit::SenderCpu, share, text);
    }
    verdict(Limit::Application, share, text)
}

/// Data was outstanding, and neither window nor buffer limited it.
fn congestion_side(s: &Shares<'_>, rest: f64, receiver: Option<&ReceiverEvidence>) -> LimitVerdict {
    if let Some(verdict) = full_buffer(s, rest).or_else(|| saturated_host(s, rest, receiver)) {
        return verdict;
    }
    if fills_receive_window(s) {
        return LimitVerdict { share: rest, ..receive_side(s, receiver) };
    }
    if let Some(verdict) = own_estimate(s, rest) {
        return verdict;
    }
    if s.blocked < NEVER_BLOCKED_SHARE_MAX && s.raw.after.delivery_rate_app_limited {
        return application(s, rest);
    }
    let cwnd = Bytes::new(s.raw.after.cwnd_bytes);
    let network = format!("cwnd {cwnd} held the transfer {} of {}", percent(rest), seconds(s.raw.interval));
    let losses = format!("{} retransmits, {} congestion marks", s.retransmits, s.marks);
    match reduced(s) {
        Some(how) => verdict(Limit::Loss, rest, format!("{network}; {losses}; {how}")),
        None => verdict(Limit::CongestionWindow, rest, format!("{network}; {losses}; {}", growth(s))),
    }
}

/// All data in the send buffer is in flight, the window has room, and the thread waits for the buffer.
///
/// The kernel counts this as send-buffer limited only while nothing at all waits in the socket. A partial segment that
/// was written with MSG_MORE does wait, so that the kernel's counter misses it.
fn full_buffer(s: &Shares<'_>, rest: f64) -> Option<LimitVerdict> {
    let after = &s.raw.after;
    let has_room = s.in_flight() > 0 && s.in_flight() as f64 <= after.cwnd_bytes as f64 * WINDOW_USED_SHARE_MIN;
    let is_full = has_room && after.notsent_bytes < after.mss_bytes && s.blocked > rest / 2.0;
    is_full.then(|| send_buffer(s)).map(|v| LimitVerdict { share: rest, ..v })
}

/// The window is mostly unused, and the CPU of one end has no time left for this transfer.
fn saturated_host(s: &Shares<'_>, rest: f64, receiver: Option<&ReceiverEvidence>) -> Option<LimitVerdict> {
    let window = Rate::of(Bytes::new(s.raw.after.cwnd_bytes), Duration::from_nanos(s.raw.after.srtt_ns));
    if s.rate.as_bps() as f64 >= window.as_bps() as f64 * WINDOW_MEAN_SHARE_MIN {
        return None;
    }
    let (own, peer) = (s.cpu, receiver.map_or(0.0, ReceiverEvidence::cpu));
    // A host's CPUs can be busy with other work if these threads mostly sleep.
    let full = |host: Option<f64>, runs: bool| runs && host.is_some_and(|c| c >= HOST_CPU_SATURATED_SHARE);
    let own_full = own >= CPU_SATURATED_SHARE || full(s.raw.busiest_cpu, s.blocked < own.max(0.5));
    let peer_full =
        peer >= CPU_SATURATED_SHARE || full(receiver.and_then(|r| r.busiest_cpu), peer > NEVER_BLOCKED_SHARE_MAX);
    let limit = match (own_full, peer_full) {
        (false, false) => return None,
        (true, true) if peer > own => Limit::ReceiverCpu,
        (true, _) => Limit::SenderCpu,
        (false, true) => Limit::ReceiverCpu,
    };
    let busiest = percent(s.raw.busiest_cpu.unwrap_or(0.0));
    let text = format!(
        "cwnd {} would allow {window}, measured {}; sending thread {} CPU, receiving thread {}, busiest CPU here {busiest}",
        Bytes::new(s.raw.after.cwnd_bytes),
        s.rate,
        percent(own),
        percent(peer),
    );
    Some(verdict(limit, rest, text))
}

/// Description of a window reduction by loss or a mark: in this interval, or earlier with the window not yet recovered.
fn reduced(s: &Shares<'_>) -> Option<String> {
    let (before, after) = (&s.raw.before, &s.raw.after);
    if s.retransmits > 0 || s.marks > 0 {
        return Some(format!("cwnd {} before", Bytes::new(before.cwnd_bytes)));
    }
    if after.ca_state >= CA_STATE_CWR {
        return Some(format!("the window is being reduced (ca_state {})", after.ca_state));
    }
    // HyStart lowers ssthresh without a loss, so a lowered ssthresh counts only after one.
    let ssthresh = after.ssthresh_bytes.filter(|_| after.retransmits > 0 || after.delivered_ce > 0)?;
    let window_at_loss = (ssthresh as f64 / CUBIC_BETA) as u64;
    (after.cwnd_bytes < window_at_loss).then(|| {
        let ssthresh = Bytes::new(ssthresh);
        format!("not yet back at {}, from which loss reduced it (ssthresh {ssthresh})", Bytes::new(window_at_loss))
    })
}

fn growth(s: &Shares<'_>) -> String {
    let before = Bytes::new(s.raw.before.cwnd_bytes);
    match s.raw.after.ssthresh_bytes {
        Some(t) => format!("cwnd {before} before, ssthresh {}", Bytes::new(t)),
        None => format!("cwnd {before} before, in slow start"),
    }
}

fn unknown(s: &Shares<'_>) -> LimitVerdict {
    let text = format!(
        "{} acknowledged in {}, data outstanding {}: too little to tell",
        Bytes::new(s.raw.bytes),
        seconds(s.raw.interval),
        percent(s.busy)
    );
    verdict(Limit::Unknown, 0.0, text)
}

/// Window-limited rate: `RWND x 8 / RTT` (RFC 6349 §3.3.1).
fn window_rate(s: &Shares<'_>, window: Bytes) -> Rate {
    Rate::of(window, Duration::from_nanos(s.raw.after.srtt_ns))
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn seconds(d: Duration) -> String {
    format!("{:.3} s", d.as_secs_f64())
}

pub(super) fn millis(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
