//! Final record: the counts of both ends, compared and classified.

use std::collections::BTreeMap;
use std::time::Duration;

use estimate::{Timeline, ramp_up, rfc6349};
use results::{
    Agreement, ClockSummary, DirectionSummary, EndRecord, EndTotals, Limit, OneWayDelay, PathMtu, RampUp, Rfc6349,
    Role, StartRecord, StreamTotals, TcpState, Transport,
};
use units::{Bytes, Rate};
use wire::{EndSide, SideStream};

use super::gathered::Gathered;
use super::{ClientOptions, path_mtu};
use crate::udp;

pub(crate) fn end_record(options: &ClientOptions, start: &StartRecord, got: &Gathered) -> EndRecord {
    let (local, mut warnings) = got.local.clone().unwrap_or_default();
    let remote = got.remote.clone().unwrap_or_default();
    warnings.extend(remote.warnings.iter().map(|w| format!("server: {w}")));
    if got.remote.is_none() {
        warnings.push("the server's view is missing: what it received is not known".to_owned());
    }
    let directions: Vec<DirectionSummary> = start
        .plan
        .directions
        .iter()
        .map(|direction| {
            let side =
                |role| local.iter().chain(&remote.directions).find(|s| s.direction == *direction && s.role == role);
            DirectionReports { options, start, got, sender: side(Role::Sender), receiver: side(Role::Receiver) }
                .summary(*direction)
        })
        .collect();
    warnings.extend(directions.iter().filter_map(|d| d.agreement.explanation.clone()));
    warnings.extend(got.path_mtu.iter().map(|(found, _)| path_mtu::warning(*found)));
    let mut memory = got.memory;
    memory.server_rss_start_bytes = remote.rss_start_bytes;
    memory.server_rss_end_bytes = remote.rss_end_bytes;
    EndRecord {
        test_id: start.test_id.clone(),
        completion: got.completion(),
        load_start: got.load_start,
        directions,
        clock: clock_summary(got),
        memory,
        warnings,
    }
}

fn clock_summary(got: &Gathered) -> Option<ClockSummary> {
    let model = got.clock.model()?;
    Some(ClockSummary {
        offset_ns: model.offset_ns,
        bound_ns: model.bound_ns,
        drift_ppm: model.drift_ppm,
        drift_bound_ppm: model.drift_bound_ppm,
        exchanges_before: got.before.answered,
        exchanges_during: got.during,
        exchanges_after: got.after.answered,
        idle_rtt_before_ns: got.before.rtt.map_or(0, units::nanos),
        idle_rtt_after_ns: got.after.rtt.map(units::nanos),
    })
}

/// Tightens the error bound of a one-way delay with the clock exchanges after the load.
///
/// The test computes delays with the clock model of the moment. Their error is at most the difference between that
/// model and the last one, plus the bound of the last one.
fn tightened(mut delay: OneWayDelay, got: &Gathered) -> OneWayDelay {
    let Some(last) = got.clock.model() else { return delay };
    let now = kernel::now();
    let ends = got.models.iter().skip(1).map(|(t, _)| *t).chain([now]);
    let worst = got
        .models
        .iter()
        .zip(ends)
        .flat_map(|((since, model), until)| [(*since - SAMPLE_AGE_MAX, *model), (until, *model)])
        .map(|(t, model)| model.offset_at(t).abs_diff(last.offset_at(t)) + last.bound_at(t))
        .max();
    delay.bound_ns = delay.bound_ns.min(worst.unwrap_or(u64::MAX));
    delay
}

/// Maximum age of a sample when the end that computes its delay receives it.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(1);

/// One direction with the reports of both ends; the report of a lost end is absent.
struct DirectionReports<'a> {
    options: &'a ClientOptions,
    start: &'a StartRecord,
    got: &'a Gathered,
    sender: Option<&'a EndSide>,
    receiver: Option<&'a EndSide>,
}

impl DirectionReports<'_> {
    fn summary(&self, direction: results::Direction) -> DirectionSummary {
        let totals = |s: Option<&EndSide>| s.map(|s| s.totals.clone()).unwrap_or_default();
        let (sender, receiver) = (totals(self.sender), totals(self.receiver));
        let baseline = self.got.before.rtt;
        let tcp = self.start.plan.transport == Transport::Tcp;
        let path_mtu =
            self.got.path_mtu.as_ref().filter(|(_, affected)| affected.contains(&direction)).map(|(found, _)| *found);
        let mut loss_episodes = self.sender.map(|s| s.loss_episodes.clone()).unwrap_or_default();
        if let Some(rtt) = baseline.filter(|b| !b.is_zero()) {
            for e in &mut loss_episodes {
                e.recovery_rtts = e.recovery_s.map(|s| s / rtt.as_secs_f64());
            }
        }
        DirectionSummary {
            direction,
            omitted_s: None,
            measured_bytes: None,
            measured_s: None,
            throughput_bps: receiver.throughput_bps,
            agreement: self.agreement(&sender, &receiver),
            block_rtt: self.sender.and_then(|s| s.block_rtt.clone()),
            kernel_min_rtt_ns: self
                .sender
                .and_then(|s| s.streams.iter().filter_map(|t| t.tcp.as_ref()?.min_rtt_ns).min()),
            kernel_srtt: self.sender.and_then(|s| s.kernel_srtt.clone()),
            decomposition: self.sender.and_then(|s| s.decomposition.clone()),
            one_way: self
                .receiver
                .and_then(|s| s.one_way.clone())
                .or_else(|| self.sender?.one_way.clone())
                .map(|d| tightened(d, self.got)),
            one_way_return: self.sender.and_then(|s| s.one_way_return.clone()).map(|d| tightened(d, self.got)),
            path_mtu,
            limits: self.limits(direction, path_mtu),
            rfc6349: self.rfc6349(direction, &receiver).filter(|_| tcp && self.receiver.is_some()),
            ramp_up: self.ramp_up(&receiver).filter(|_| tcp),
            loss_episodes,
            loss_episode_count: self.sender.map_or(0, |s| s.loss_episode_count),
            udp: udp::both_ends(self.sender, self.receiver),
            streams: self.streams(&receiver),
            sender,
            receiver,
        }
    }

    fn agreement(&self, sender: &EndTotals, receiver: &EndTotals) -> Agreement {
        let (sent, received) = (sender.bytes, receiver.bytes);
        let echoed_blocks = self.sender.map_or(0, |s| s.streams.iter().map(|t| t.blocks).sum());
        let known = self.sender.is_some() && self.receiver.is_some();
        let (agree, explanation) = if !known {
            (false, Some(Agreement::MISSING.to_owned()))
        } else if let Some(counts) = udp::both_ends(self.sender, self.receiver) {
            let contradiction = udp::contradiction(&counts);
            (contradiction.is_none(), contradiction)
        } else if sent == received {
            (true, None)
        } else {
            let left = Bytes::new(sent.abs_diff(received));
            let mut text = format!(
                "{sent} bytes were sent and {received} received: {} bytes were still under way or unread when the connection \
                 ended",
                left.as_u64()
            );
            if let Some(needs) = Rate::from_bps(receiver.throughput_bps).time_for(left).filter(|_| sent > received) {
                let grace = self.options.grace.as_secs_f64();
                text += &format!(
                    "; at the rate of this test they need about {:.0} s more, and {grace:.0} s were given (--grace)",
                    needs.as_secs_f64().max(1.0)
                );
            }
            (false, Some(text))
        };
        Agreement { sent_bytes: sent, received_bytes: received, echoed_blocks, agree, explanation }
    }

    fn limits(&self, direction: results::Direction, path_mtu: Option<PathMtu>) -> BTreeMap<Limit, f64> {
        // The intervals recorded only retransmissions, which look like loss.
        if path_mtu.is_some() && self.receiver.is_some_and(|r| r.totals.bytes == 0) {
            return [(Limit::PathMtu, 1.0)].into();
        }
        let judged = self.got.limits.get(&direction).cloned();
        let times = judged.or_else(|| Some(self.sender?.limits.clone())).unwrap_or_default();
        let total: f64 = times.values().sum();
        times.into_iter().filter(|_| total > 0.0).map(|(l, t)| (l, t / total)).collect()
    }

    fn ramp_up(&self, receiver: &EndTotals) -> Option<RampUp> {
        let timeline: Timeline = serde_json::from_value(self.receiver?.timeline.clone()).ok()?;
        let length = Duration::from_secs_f64(receiver.duration_s.clamp(0.0, 1e9));
        ramp_up(&timeline, self.got.before.rtt, length)
    }

    fn rfc6349(&self, direction: results::Direction, receiver: &EndTotals) -> Option<Rfc6349> {
        let sender = self.sender?;
        let states: Vec<_> = sender.streams.iter().filter_map(|s| s.tcp.as_ref()).collect();
        let first = states.first()?;
        let stream = self.start.streams.iter().find(|s| s.direction == direction)?;
        let smallest = states.iter().filter_map(|t| t.min_rtt_ns).min().map(Duration::from_nanos);
        let baseline_rtt = smallest.or(self.got.before.rtt).unwrap_or_default();
        let mean_rtt = Duration::from_nanos(sender.kernel_srtt.as_ref().map_or(0, |s| s.mean_ns));
        let actual_duration = Duration::from_secs_f64(receiver.duration_s.clamp(0.0, 1e9));
        // At least several round trips and two intervals: data that waited behind one lost segment is read at once.
        let interval = Duration::from_nanos(self.start.plan.interval_ns);
        let window = (interval * 2).max(mean_rtt.max(baseline_rtt) * 4);
        let timeline = self.receiver.and_then(|r| serde_json::from_value::<Timeline>(r.timeline.clone()).ok());
        let highest = timeline.and_then(|t| t.highest_rate(window, actual_duration));
        Some(rfc6349::report(rfc6349::Inputs {
            link_rate: self.options.link_rate,
            // A thrulay server has no timeline; the sender's best interval replaces it.
            highest_rate: highest.or_else(|| self.got.best.get(&direction).copied()).unwrap_or_default(),
            mtu: Bytes::new(first.pmtu_bytes),
            mss: Bytes::new(first.mss_bytes),
            timestamps: stream.options.iter().any(|o| o == "timestamps"),
            mtu_verified: states.iter().any(|t| proves_mtu(t)),
            bytes_transferred: Bytes::new(receiver.load_bytes()),
            actual_duration,
            bytes_sent: Bytes::new(states.iter().map(|t| t.bytes_sent).sum()),
            bytes_retransmitted: Bytes::new(states.iter().map(|t| t.bytes_retransmitted).sum()),
            baseline_rtt,
            mean_rtt,
            window: self.start.plan.window_bytes.map(Bytes::new),
        }))
    }

    fn streams(&self, receiver: &EndTotals) -> Vec<StreamTotals> {
        let of =
            |side: Option<&EndSide>, n| -> Option<SideStream> { side?.streams.iter().find(|s| s.stream == n).cloned() };
        let mut numbers: Vec<u32> =
            self.sender.iter().chain(&self.receiver).flat_map(|s| s.streams.iter().map(|t| t.stream)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let duration = Duration::from_secs_f64(receiver.duration_s.clamp(0.0, 1e9));
        numbers
            .into_iter()
            .map(|n| {
                let (sent, received) = (of(self.sender, n), of(self.receiver, n));
                let bytes = received.as_ref().map_or(0, |r| r.bytes);
                let in_load = received.as_ref().map_or(0, |r| r.bytes.saturating_sub(r.drain_bytes));
                StreamTotals {
                    stream: n,
                    sent_bytes: sent.as_ref().map_or(0, |s| s.bytes),
                    received_bytes: bytes,
                    throughput_bps: Rate::of(Bytes::new(in_load), duration).as_bps(),
                    retransmits: sent.as_ref().map_or(0, |s| s.retransmits),
                    block_rtt: sent.as_ref().and_then(|s| s.block_rtt.clone()),
                    sender_tcp: sent.and_then(|s| s.tcp),
                    receiver_tcp: received.and_then(|r| r.tcp),
                }
            })
            .collect()
    }
}

/// Whether the socket's counters prove that packets of the path MTU's size passed.
///
/// The segment size must leave exactly the header bytes, and at least 90 % of the bytes must fill segments. Small
/// writes, or segments that a middlebox reduced, prove nothing about packets of the path MTU's size.
fn proves_mtu(tcp: &TcpState) -> bool {
    let is_whole = HEADER_BYTES.contains(&tcp.pmtu_bytes.saturating_sub(tcp.mss_bytes));
    let full = tcp.data_segments_sent.is_some_and(|n| tcp.bytes_sent >= n.saturating_mul(tcp.mss_bytes) / 10 * 9);
    is_whole && full && tcp.bytes_acked > 10 * tcp.mss_bytes
}

/// Header bytes of TCP over IPv4 and IPv6, without and with timestamps.
const HEADER_BYTES: [u64; 4] = [40, 52, 60, 72];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_segments_of_exactly_the_path_mtu_verify_it() {
        let proven = TcpState {
            pmtu_bytes: 1500,
            mss_bytes: 1448,
            bytes_acked: 1_448_000,
            bytes_sent: 1_450_000,
            data_segments_sent: Some(1002),
            ..TcpState::default()
        };
        assert!(proves_mtu(&proven));
        for (reason, state) in [
            ("a middlebox lowered the segment size", TcpState { mss_bytes: 1380, ..proven.clone() }),
            ("small writes", TcpState { data_segments_sent: Some(10_000), ..proven.clone() }),
            ("hardly anything was acknowledged", TcpState { bytes_acked: 2896, ..proven.clone() }),
            ("the kernel does not count segments", TcpState { data_segments_sent: None, ..proven }),
        ] {
            assert!(!proves_mtu(&state), "{reason}");
        }
    }
}
