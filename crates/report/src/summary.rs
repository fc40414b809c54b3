//! Formatting of numbers and names, shared by all front ends.
//!
//! Pure functions from values to text. ASCII only: micro is written `us`.

use results::{
    Decomposition, DelaySummary, Direction, DirectionSummary, End, Limit, OneWayDelay, StartRecord, Transport,
    UdpSummary,
};
use units::{Bytes, Rate};

/// A time span with three or four significant digits and its unit: `850 ns`, `8.41 ms`, `187.2 ms`, `12.3 s`.
pub fn nanos(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let mut scaled = ns as f64;
    let mut unit = "ns";
    for next in ["us", "ms", "s"] {
        // 999.95 would print as "1000.0"; step up before rounding does.
        if scaled < 999.95 {
            break;
        }
        scaled /= 1e3;
        unit = next;
    }
    let decimals = if scaled < 9.995 { 2 } else { 1 };
    format!("{scaled:.decimals$} {unit}")
}

/// Like [`nanos`], with a sign where it is negative.
pub fn signed_nanos(ns: i64) -> String {
    let text = nanos(ns.unsigned_abs());
    if ns < 0 { format!("-{text}") } else { text }
}

/// A value with its maximum error: `12.3 ms +/- 85.0 us`.
pub fn plus_minus(ns: i64, bound_ns: u64) -> String {
    format!("{} +/- {}", signed_nanos(ns), nanos(bound_ns))
}

/// Median and 95th percentile of a one-way delay, with the error bound of the clocks.
pub fn one_way(delay: &OneWayDelay) -> String {
    let median = plus_minus(delay.p50_ns, delay.bound_ns);
    format!("median {median}, 95 % {}, {} samples", signed_nanos(delay.p95_ns), delay.count)
}

/// Whether the median of a one-way delay exceeds the error bound of the clocks; otherwise it has no meaning.
pub fn one_way_is_meaningful(delay: &OneWayDelay) -> bool {
    delay.bound_ns < delay.p50_ns.unsigned_abs()
}

/// A rate with four significant digits: `941.5 Mb/s`.
pub fn rate(bps: u64) -> String {
    Rate::from_bps(bps).to_string()
}

/// A volume with four significant digits: `1.250 GB`.
pub fn bytes(n: u64) -> String {
    Bytes::new(n).to_string()
}

/// A share 0..=1 in whole per cent; `<1 %` and `>99 %` for values that would round to 0 % or 100 %, and a dash for a
/// value that is not a number or too large for one.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        p if !p.is_finite() => "-".to_owned(),
        p if p > 0.0 && p < 0.5 => "<1 %".to_owned(),
        p if p > 99.5 && p < 100.0 => ">99 %".to_owned(),
        p => format!("{p:.0} %"),
    }
}

/// A small ratio from 0 to 1, such as a loss ratio, with a suitable number of digits: `0 %`, `0.0012 %`, `1.50 %`. A
/// value that is not a number, or too large for one, is a dash.
pub fn ratio(value: f64) -> String {
    let p = value * 100.0;
    if !p.is_finite() {
        "-".to_owned()
    } else if p == 0.0 {
        "0 %".to_owned()
    } else if p.abs() < 0.01 {
        format!("{p:.4} %")
    } else {
        format!("{p:.2} %")
    }
}

/// Seconds with two decimals and the unit.
pub fn seconds(s: f64) -> String {
    format!("{:.2} s", finite(s))
}

/// `value`, or zero if it is not finite, as after a division by zero at the other end.
pub fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// A jitter; a dash if it was not measured.
pub(crate) fn jitter(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), nanos)
}

/// Buffer delay of RFC 6349, if it can be measured.
pub(crate) fn buffer_delay(r: &results::Rfc6349) -> String {
    r.buffer_delay_percent.map_or_else(|| "not measurable here".to_owned(), |p| format!("{:.1} %", finite(p)))
}

/// Volumes of a direction of a failed test, which are not goodput; a missing count is not shown as zero.
pub(crate) fn moved(d: &DirectionSummary) -> String {
    let sent = format!("{} sent in {}", bytes(d.agreement.sent_bytes), seconds(d.sender.duration_s));
    let received = format!("{} received in {}", bytes(d.receiver.bytes), seconds(d.receiver.duration_s));
    match (d.sender.duration_s > 0.0, d.receiver.duration_s > 0.0) {
        (true, true) => format!("{sent}, {received}"),
        (false, true) => received,
        (true, false) => format!("{sent}; received volume unknown"),
        (false, false) => "transferred volume unknown".to_owned(),
    }
}

/// Volume and time from which the goodput is calculated, such as `47.06 MB in 4.00 s`.
pub(crate) fn measured(d: &DirectionSummary) -> String {
    let counted = match d.omitted_s {
        None => Some((d.receiver.load_bytes(), d.receiver.duration_s)),
        Some(_) => d.measured_bytes.zip(d.measured_s),
    };
    match (counted, d.omitted_s) {
        (Some((n, s)), _) => format!("{} in {}", bytes(n), seconds(s)),
        // Records of earlier versions do not have the volume without the omitted part.
        (None, omitted) => format!("after the first {}", seconds(omitted.unwrap_or(0.0))),
    }
}

/// Describes a full path: its throughput, the link rate if known, and its queueing delay.
pub(crate) fn path_full(d: &DirectionSummary) -> String {
    let given = d.rfc6349.as_ref().filter(|r| r.bottleneck_given);
    let of = given.map_or_else(String::new, |r| format!(" of {}", rate(r.ideal_throughput_bps)));
    let trips = d.kernel_srtt.as_ref().zip(d.kernel_min_rtt_ns);
    let queue =
        trips.map_or_else(String::new, |(srtt, min)| format!(", {} of queue", nanos(srtt.p50_ns.saturating_sub(min))));
    let lost = d.streams.iter().any(|s| s.retransmits > 0);
    let losses = if lost { "; losses are drops at its queue" } else { "" };
    // The slow start does not belong to the rate of the full path.
    let steady = d.ramp_up.as_ref().map_or(d.throughput_bps, |r| r.steady_bps.max(d.throughput_bps));
    format!("path full: {}{of}{queue}{losses}", rate(steady))
}

/// Note on a row in which at least a tenth of the bytes waited for a retransmission, so that its rate exceeds the
/// path's.
pub(crate) fn waited(row: &crate::pairing::Row) -> Option<String> {
    let waited = row.receiver.as_ref()?.waited_bytes?;
    let counts = waited.saturating_mul(10) >= row.bytes().max(1);
    counts.then(|| format!("includes about {} that waited behind a lost segment", bytes(waited.min(row.bytes()))))
}

/// Periods in which at least half of the datagrams were lost, one sentence each.
pub(crate) fn outages(d: &DirectionSummary, u: &UdpSummary, interval_ns: u64) -> Vec<String> {
    let interval_s = interval_ns as f64 / 1e9;
    let sent_in_interval = u.sent as f64 * interval_s / d.sender.duration_s.max(interval_s);
    let is_out = |n: &u64| *n > 0 && *n as f64 >= sent_in_interval / 2.0;
    let mut outages: Vec<(usize, usize)> = Vec::new();
    for (index, _) in u.lost_by_interval.iter().enumerate().filter(|(_, n)| is_out(n)) {
        match outages.last_mut() {
            Some((_, end)) if *end == index => *end = index + 1,
            _ => outages.push((index, index + 1)),
        }
    }
    let time = |index: usize| seconds(index as f64 * interval_s);
    let text = |(start, end)| format!("most datagrams sent between {} and {} were lost", time(start), time(end));
    outages.into_iter().take(OUTAGES_LISTED_MAX).map(text).collect()
}

/// Maximum number of outages that are listed.
const OUTAGES_LISTED_MAX: usize = 8;

/// `1 datagram`, `2 datagrams`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Name of a limit.
pub const fn limit_name(limit: Limit) -> &'static str {
    limit.name()
}

/// Advice on a limit, a text that follows "limited by ...".
pub const fn limit_remedy(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::ReceiveWindow => Some("a larger receive buffer (net.ipv4.tcp_rmem, -w) would raise the rate"),
        Limit::SendBuffer => Some("a larger send buffer (net.ipv4.tcp_wmem, -w) would raise the rate"),
        Limit::Application => Some("the sender did not keep its socket full"),
        Limit::ReceiverApplication => Some("the receiver did not read as fast as data came"),
        Limit::SenderCpu => Some("the sending host is the bottleneck, not the path"),
        Limit::ReceiverCpu => Some("the receiving host is the bottleneck, not the path"),
        Limit::Disk => Some("the disk is slower than the path"),
        Limit::Pacing => Some("the configured rate is the limit"),
        Limit::PathMtu => Some("full-size packets are lost; use a smaller segment size (-M) or MTU"),
        Limit::Bottleneck => Some("the path is full; losses are drops at its queue"),
        Limit::Loss => Some("loss keeps the rate below the capacity of the path"),
        Limit::CongestionWindow | Limit::Unknown => None,
    }
}

/// `up` or `down`.
pub const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// Both ends of a direction by name: `alpha -> beta.example.net`.
pub fn route(start: &StartRecord, direction: Direction) -> String {
    let client = client_name(start);
    let server = &start.target;
    match direction.sender() {
        End::Client => format!("{client} -> {server}"),
        End::Server => format!("{server} -> {client}"),
    }
}

/// The client by its host name.
pub fn client_name(start: &StartRecord) -> &str {
    if start.client.hostname.is_empty() { "client" } else { &start.client.hostname }
}

/// Description of the transport.
pub const fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::UdpConstant => "UDP at a constant interval",
        Transport::UdpPoisson => "UDP as a Poisson process",
        Transport::Probe => "packet trains",
    }
}

/// Planned duration or volume: `for 30.0 s` or `10.00 GB`.
pub fn amount(start: &StartRecord) -> String {
    match (start.plan.duration_ns, start.plan.bytes) {
        (_, Some(n)) => format!("{} each way", bytes(n)),
        (Some(ns), None) => format!("for {}", nanos(ns)),
        (None, None) => "until stopped".to_owned(),
    }
}

/// Stage of the path of a block.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// Name of the stage.
    pub name: &'static str,
    /// Delay of the stage; absent without kernel timestamps for it.
    pub delay: Option<&'a DelaySummary>,
}

/// Stages of a decomposition in the order of a block's path.
pub const fn stages(d: &Decomposition) -> [Stage<'_>; 4] {
    [
        Stage { name: "socket buffer", delay: d.socket_buffer.as_ref() },
        Stage { name: "qdisc", delay: d.qdisc.as_ref() },
        Stage { name: "network", delay: d.network.as_ref() },
        Stage { name: "receiver app", delay: d.receiver_app.as_ref() },
    ]
}

/// Quantile of the stages' delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageQuantile {
    /// The median.
    Median,
    /// The 95th percentile.
    P95,
}

/// Delay of each stage in nanoseconds; zero if it was not measured.
///
/// Quantiles of stages do not add up to the quantile of the sum, but their shares show where the delay occurs.
pub fn stage_nanos(d: &Decomposition, quantile: StageQuantile) -> [u64; 4] {
    stages(d).map(|s| {
        s.delay.map_or(0, |d| match quantile {
            StageQuantile::Median => d.p50_ns,
            StageQuantile::P95 => d.p95_ns,
        })
    })
}

/// Stage with the largest median and its share of all stages; `None` if no stage was measured.
pub fn largest_stage(d: &Decomposition) -> Option<(&'static str, u64, f64)> {
    let nanos = stage_nanos(d, StageQuantile::Median);
    let total: u64 = nanos.iter().fold(0, |a, b| a.saturating_add(*b));
    let (stage, ns) = stages(d).into_iter().zip(nanos).max_by_key(|(_, ns)| *ns)?;
    (total > 0).then(|| (stage.name, ns, ns as f64 / total as f64))
}

/// Limits with a share above zero, in descending order.
pub fn limits_by_share(d: &DirectionSummary) -> Vec<(Limit, f64)> {
    let mut shares: Vec<_> = d.limits.iter().map(|(l, s)| (*l, finite(*s))).filter(|(_, s)| *s > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Text on one line without characters that would move a terminal's cursor or change its state.
///
/// Host names and notes come from the peer; an escape sequence in them must stay text.
pub fn printable(text: &str) -> String {
    printable_lines(text).replace('\n', " ")
}

/// Text as of [`printable`] that keeps its line breaks, such as an error with an excerpt of a file.
pub fn printable_lines(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => c,
            '\t' | '\r' => ' ',
            c if c.is_control() || units::is_deceptive(c) => '?',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_keep_three_digits_and_never_print_a_thousand() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (1_234, "1.23 us"),
            (9_996, "10.0 us"),
            (41_210_000, "41.2 ms"),
            (187_240_000, "187.2 ms"),
            (999_960_000, "1.00 s"),
            (75_000_000_000, "75.0 s"),
            (3_600_000_000_000, "3600.0 s"),
        ] {
            assert_eq!(nanos(ns), text, "{ns}");
        }
        assert_eq!(signed_nanos(-1_500), "-1.50 us");
        assert_eq!(signed_nanos(i64::MIN), "-9223372036.9 s");
        assert_eq!(plus_minus(12_300_000, 85_000), "12.3 ms +/- 85.0 us");
    }

    #[test]
    fn shares_near_0_and_100_per_cent_are_not_rounded_to_them() {
        for (share, text) in [(0.0, "0 %"), (0.001, "<1 %"), (0.83, "83 %"), (0.999, ">99 %"), (1.0, "100 %")] {
            assert_eq!(percent(share), text);
        }
        for extreme in [f64::NAN, f64::INFINITY, 1e308, -1e308] {
            assert_eq!((percent(extreme).as_str(), ratio(extreme).as_str()), ("-", "-"), "{extreme}");
        }
        assert_eq!(ratio(0.000_012), "0.0012 %");
        assert_eq!(ratio(0.015), "1.50 %");
    }

    #[test]
    fn escape_sequences_of_a_hostile_peer_stay_text() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\td\ne\u{200b}"), "a?[2Jb?c d e?");
        assert_eq!(printable_lines("a\u{9b}1m\r\n  ^^"), "a?1m \n  ^^");
    }
}
