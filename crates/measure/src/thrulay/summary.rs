//! Records of a test without the server's counts.

use std::time::Duration;

use results::{BufferGrant, Direction, EndRecord, EndTotals, Role, StartRecord, StreamStart, TestPlan, UdpSummary};
use units::{Bytes, Rate};
use wire::thrulay::{ReadReport, Reported};
use wire::{EndSide, SideStream};

use super::PROTOCOL;
use crate::client::ClientOptions;
use crate::{MeasureError, VERSION, random, utc};

/// The first record of a test with a thrulay server.
pub(super) fn start_record(
    options: &ClientOptions,
    plan: TestPlan,
    notes: Vec<String>,
    streams: Vec<StreamStart>,
    baseline: Option<Duration>,
) -> Result<StartRecord, MeasureError> {
    let local = streams.first().and_then(|s| s.client.parse::<std::net::SocketAddr>().ok()).map(|a| a.ip());
    Ok(StartRecord {
        schema: results::SCHEMA.to_owned(),
        test_id: random::bytes::<8>()?.iter().map(|b| format!("{b:02x}")).collect(),
        version: VERSION.to_owned(),
        time_utc: utc::now(),
        target: options.host.clone(),
        title: options.title.clone(),
        protocol: PROTOCOL.to_owned(),
        plan,
        notes,
        streams,
        baseline_rtt_ns: baseline.map(nanos),
        quantile_relative_error: results::RELATIVE_ERROR,
        client: kernel::host_report(VERSION, local),
        server: None,
    })
}

/// Notes of every test with a thrulay server.
pub(super) fn common_notes() -> Vec<String> {
    vec![
        "the server speaks thrulay version 2: its settings, CPU and memory are not known".to_owned(),
        "thrulay has no clock exchanges: the clocks are not compared, there is no one-way delay".to_owned(),
    ]
}

/// Totals of an end without data.
pub(super) fn empty_side(role: Role) -> EndSide {
    EndSide {
        direction: Direction::Up,
        role,
        totals: EndTotals::default(),
        streams: Vec::new(),
        timeline: serde_json::Value::Null,
        decomposition: None,
        one_way: None,
        one_way_return: None,
        block_rtt: None,
        kernel_srtt: None,
        loss_episodes: Vec::new(),
        loss_episode_count: 0,
        limits: std::collections::BTreeMap::new(),
        udp: None,
        udp_sent: None,
    }
}

/// Totals of the bytes that an end counted.
pub(super) fn totals(bytes: u64, duration: Duration, cpu: Duration) -> EndTotals {
    EndTotals {
        bytes,
        duration_s: duration.as_secs_f64(),
        throughput_bps: Rate::of(Bytes::new(bytes), duration).as_bps(),
        drain_bytes: None,
        drain_s: None,
        cpu_s: cpu.as_secs_f64(),
        cpu_s_per_gb: if bytes == 0 { 0.0 } else { cpu.as_secs_f64() / (bytes as f64 / 1e9) },
    }
}

/// Receiver totals derived from the echoes: an echoed block counts as received (the goodput of thrulay).
pub(super) fn echoed(sender: &EndSide, block: Bytes) -> EndSide {
    let streams: Vec<SideStream> = sender
        .streams
        .iter()
        .map(|s| SideStream {
            stream: s.stream,
            // The last block of a stream may be shorter.
            bytes: s.blocks.saturating_mul(block.as_u64()).min(s.bytes),
            blocks: s.blocks,
            ..SideStream::default()
        })
        .collect();
    let bytes = streams.iter().map(|s| s.bytes).sum();
    let duration = Duration::from_secs_f64(sender.totals.duration_s.clamp(0.0, 1e9));
    EndSide { totals: totals(bytes, duration, Duration::ZERO), streams, ..empty_side(Role::Receiver) }
}

/// Replaces the agreement of the counts in each direction, which native counts would determine.
///
/// `mismatch` is the reason why the counts of the ends differ or cannot be compared; `None` if they agree.
pub(super) fn set_agreement(end: &mut EndRecord, mismatch: Option<String>) {
    for direction in &mut end.directions {
        direction.agreement.agree = mismatch.is_none();
        if let Some(before) = std::mem::replace(&mut direction.agreement.explanation, mismatch.clone()) {
            end.warnings.retain(|w| *w != before);
        }
    }
    end.warnings.extend(mismatch);
}

/// Datagram summary for `sent` datagrams from the server's report: its counts if present, else counts derived from its
/// shares.
pub(super) fn datagrams(report: &ReadReport, sent: u64) -> UdpSummary {
    let ratio = |r: Option<Reported>| match r {
        Some(Reported::Value(percent)) => (percent / 100.0).clamp(0.0, 1.0),
        Some(Reported::Infinite | Reported::Undefined) | None => 0.0,
    };
    // `as` saturates; the shares are between 0 and 1.
    let part = |share: f64, whole: u64| (share * whole as f64).round() as u64;
    let loss = ratio(report.loss_percent);
    let received = report.unique.unwrap_or_else(|| sent - part(loss, sent)).min(sent);
    let lost = sent - received;
    let copies = ratio(report.duplication_percent);
    let duplicates = match (report.received, report.unique) {
        (Some(all), Some(unique)) => all.saturating_sub(unique),
        // The share refers to all arrivals, copies included.
        _ if copies < 1.0 => (received as f64 * copies / (1.0 - copies)).round() as u64,
        _ => 0,
    };
    let reordered = part(ratio(report.reordering_percent), received);
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
    UdpSummary {
        sent,
        received,
        lost,
        loss_ratio: share(lost, sent),
        duplicates,
        duplicate_ratio: share(duplicates, sent),
        reordered,
        reordered_ratio: share(reordered, received),
        n_reordering: report
            .n_reordering_percent
            .iter()
            .map(|p| part(ratio(Some(Reported::Value(*p))), received))
            .collect(),
        ..UdpSummary::default()
    }
}

/// Note on the delay that the server reports, with its limits; `None` if the server reports none.
pub(super) fn delay_note(report: &ReadReport) -> Option<String> {
    let (delay, jitter) = (report.delay_ms?, report.jitter_ms?);
    Some(format!(
        "the server reports a median one-way delay of {}, which contains the unknown offset of the two clocks, and a \
         spread of its quartiles of {}, which does not (jitter in thrulay's sense, not that of RFC 3550)",
        format_reported(delay),
        format_reported(jitter)
    ))
}

fn format_reported(reported: Reported) -> String {
    match reported {
        Reported::Value(ms) => format!("{ms:.3} ms"),
        Reported::Infinite => "infinity (too many packets were lost)".to_owned(),
        Reported::Undefined => "no defined value".to_owned(),
    }
}

pub(super) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Buffer sizes of a socket as granted by the kernel.
pub(super) fn buffers(socket: &impl std::os::fd::AsFd, requested: Option<u64>) -> Result<BufferGrant, MeasureError> {
    let b = kernel::buffers(socket)?;
    Ok(BufferGrant { requested_bytes: requested, send_bytes: b.send.as_u64(), receive_bytes: b.receive.as_u64() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::thrulay::read_report;

    #[test]
    fn counts_are_derived_from_shares_without_reported_counts() {
        let text = b"Delay:\t\t 5.250ms\nLoss:\t\t 10.000%\nJitter:\t\t 0.125ms\nDuplication:\t 10.000%\nReordering:\t 5.000%\n";
        let u = datagrams(&read_report(text), 1000);
        assert_eq!((u.sent, u.received, u.lost, u.duplicates, u.reordered), (1000, 900, 100, 100, 45));
        assert_eq!((u.loss_ratio, u.reordered_ratio), (0.1, 0.05));
        let note = delay_note(&read_report(text)).unwrap();
        assert!(note.contains("5.250 ms") && note.contains("0.125 ms") && note.contains("offset"), "{note}");
    }

    #[test]
    fn an_inconsistent_report_is_limited_to_the_sent_datagrams() {
        for text in [
            "Server received 99 total packets\nServer received 98 unique packets\nLoss: -50%\n",
            "Loss:\t inf%\nDuplication:\t 100.000%\nReordering: nan%\n",
            "Loss: 1e300%\nDuplication: -1%\n",
            "",
        ] {
            let u = datagrams(&read_report(text.as_bytes()), 10);
            assert_eq!(u.received + u.lost, 10, "{text}");
            assert!((0.0..=1.0).contains(&u.loss_ratio) && (0.0..=1.0).contains(&u.reordered_ratio), "{text}");
        }
        assert_eq!(datagrams(&ReadReport::default(), 0), UdpSummary::default());
    }
}
