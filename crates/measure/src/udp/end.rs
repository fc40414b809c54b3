//! Totals of a datagram direction over the whole test: the sum of the streams at each end, and the combination of both
//! ends.

use std::time::Duration;

use estimate::OneWayHistogram;
use results::{OneWayDelay, UdpSummary};
use wire::EndSide;

use super::TMAX;
use crate::load::StreamDone;

/// Totals of a datagram stream that TCP streams lack.
#[derive(Debug)]
pub(crate) enum UdpDone {
    Sent(SentTotals),
    Received(Box<ReceivedTotals>),
}

/// Totals of a sending stream.
#[derive(Debug, Default)]
pub(crate) struct SentTotals {
    pub(crate) datagrams: u64,
    /// Datagrams that this host's kernel refused; they do not count as sent.
    pub(crate) errors: u64,
    /// Reason of the first refusal.
    pub(crate) error: Option<String>,
    pub(crate) lag_max: Duration,
    pub(crate) late: u64,
    /// Total shift of the schedule because this host stalled.
    pub(crate) stalled: Duration,
    pub(crate) gap: Duration,
    /// Path MTU in bytes if the datagrams exceed it.
    pub(crate) fragmented: Option<u64>,
}

/// Totals of a receiving stream.
#[derive(Debug)]
pub(crate) struct ReceivedTotals {
    pub(crate) summary: UdpSummary,
    pub(crate) one_way: OneWayHistogram,
    /// Datagrams of other origin.
    pub(crate) foreign: u64,
    /// Datagrams with a sequence number beyond the plan.
    pub(crate) rejected: u64,
    /// Datagrams that arrived too late to distinguish them from copies.
    pub(crate) too_late: u64,
    /// Datagrams lost in this host because the socket's buffer was full.
    pub(crate) dropped: u64,
}

/// Totals of one direction's streams at one end.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) udp: Option<UdpSummary>,
    pub(crate) sent: Option<u64>,
    pub(crate) one_way: Option<OneWayDelay>,
    pub(crate) warnings: Vec<String>,
}

impl Totals {
    /// Sums the streams of a direction; `None` if they are not UDP.
    pub(crate) fn of(done: &[StreamDone]) -> Option<Self> {
        if done.iter().all(|d| d.udp.is_none()) {
            return None;
        }
        let mut totals = Self::default();
        let (mut sum, mut one_way, mut jitter) = (UdpSummary::default(), OneWayHistogram::new(), MeanJitter::default());
        for d in done {
            match &d.udp {
                Some(UdpDone::Sent(sent)) => {
                    *totals.sent.get_or_insert(0) += sent.datagrams;
                    add_sent(&mut sum, sent);
                    totals.warnings.extend(sent.warnings().into_iter().map(|w| format!("stream {}: {w}", d.stream)));
                }
                Some(UdpDone::Received(received)) => {
                    add_received(&mut sum, &received.summary);
                    jitter.add(received.summary.jitter_ns, received.summary.received);
                    one_way.merge(&received.one_way);
                    totals
                        .warnings
                        .extend(received.warnings().into_iter().map(|w| format!("stream {}: {w}", d.stream)));
                }
                None => {}
            }
        }
        sum.jitter_ns = jitter.nanos();
        fill_ratios(&mut sum);
        totals.udp = Some(sum);
        totals.one_way = one_way.summary();
        Some(totals)
    }
}

impl SentTotals {
    /// Effects at the sender that limit what the numbers show about the path.
    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        // More than 1 %: a smaller share is normal scheduling, and does not affect quantiles up to p99.
        if self.late * 100 > self.datagrams {
            all.push(format!(
                "{} of {} datagrams left late, by up to {:.1} ms: the sending host, not the path, shaped the stream; \
                 lower the rate, enlarge the datagrams or free a CPU",
                self.late,
                self.datagrams,
                self.lag_max.as_secs_f64() * 1e3
            ));
        }
        if self.stalled > self.gap && !self.stalled.is_zero() {
            let missing = self.stalled.as_nanos() / self.gap.as_nanos().max(1);
            all.push(format!(
                "the sending host fell behind by {:.1} ms more than may be caught up in a burst; about {missing} datagrams \
                 of the schedule were left out",
                self.stalled.as_secs_f64() * 1e3
            ));
        }
        if let Some(error) = &self.error {
            all.push(format!("the sending host's kernel refused {} datagrams: {error}", self.errors));
        }
        if let Some(mtu) = self.fragmented {
            all.push(format!(
                "the datagrams exceed the path MTU of {mtu} bytes and travel in fragments; the loss of one fragment loses \
                 the datagram"
            ));
        }
        all
    }
}

impl ReceivedTotals {
    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.dropped > 0 {
            all.push(format!(
                "{} datagrams were lost in the receiving host, not on the path: its socket buffer was full; raise \
                 net.core.rmem_max there or ask for a larger window",
                self.dropped
            ));
        }
        if self.too_late > 0 {
            all.push(format!("{} datagrams arrived more than 65536 behind and count as lost", self.too_late));
        }
        if self.foreign + self.rejected > 0 {
            all.push(format!("{} datagrams that are not of this test were ignored", self.foreign + self.rejected));
        }
        all
    }
}

fn add_sent(sum: &mut UdpSummary, sent: &SentTotals) {
    sum.sent += sent.datagrams;
    sum.send_errors += sent.errors;
    sum.sender_late += sent.late;
    sum.sender_lag_max_ns = sum.sender_lag_max_ns.max(units::nanos(sent.lag_max));
}

fn add_received(sum: &mut UdpSummary, one: &UdpSummary) {
    sum.sent += one.sent;
    sum.received += one.received;
    sum.lost += one.lost;
    sum.duplicates += one.duplicates;
    sum.reordered += one.reordered;
    sum.tmax_ns = units::nanos(TMAX);
    add_each(&mut sum.n_reordering, &one.n_reordering);
    add_each(&mut sum.lost_by_interval, &one.lost_by_interval);
    for (length, runs) in &one.loss_runs {
        *sum.loss_runs.entry(*length).or_default() += runs;
    }
}

fn add_each(sum: &mut Vec<u64>, one: &[u64]) {
    sum.resize(sum.len().max(one.len()), 0);
    for (all, n) in sum.iter_mut().zip(one) {
        *all += n;
    }
}

fn fill_ratios(sum: &mut UdpSummary) {
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    sum.loss_ratio = ratio(sum.lost, sum.sent);
    sum.duplicate_ratio = ratio(sum.duplicates, sum.sent);
    sum.reordered_ratio = ratio(sum.reordered, sum.received);
}

/// Combines the counts of both ends. Without the sender the result is the receiver's estimate, which excludes losses
/// after the last arrival; without the receiver there is no result.
pub(crate) fn both_ends(sender: Option<&EndSide>, receiver: Option<&EndSide>) -> Option<UdpSummary> {
    let mut sum = receiver?.udp.clone()?;
    let Some((sender, sent)) = sender.and_then(|s| Some((s.udp.as_ref()?, s.udp_sent?))) else { return Some(sum) };
    let lost = sent.saturating_sub(sum.received);
    if let Some(unseen) = lost.checked_sub(sum.lost).filter(|n| *n > 0) {
        // The receiver did not know the number of datagrams: the missing ones are the end of a stream, one run.
        *sum.loss_runs.entry(unseen).or_default() += 1;
    }
    (sum.sent, sum.lost) = (sent, lost);
    sum.send_errors = sender.send_errors;
    sum.sender_lag_max_ns = sender.sender_lag_max_ns;
    sum.sender_late = sender.sender_late;
    fill_ratios(&mut sum);
    Some(sum)
}

/// Reason why the counts of the two ends contradict each other: every datagram is received or lost, and the lost ones
/// are exactly the gaps that the receiver reports.
pub(crate) fn contradiction(udp: &UdpSummary) -> Option<String> {
    let in_runs: u64 =
        udp.loss_runs.iter().map(|(length, runs)| length.saturating_mul(*runs)).fold(0, u64::saturating_add);
    // A thrulay server reports the number of missing datagrams without their positions.
    let runs_fit = udp.loss_runs.is_empty() || in_runs == udp.lost;
    let agree = udp.sent == udp.received.saturating_add(udp.lost) && runs_fit;
    (!agree).then(|| {
        format!(
            "{} datagrams sent, {} received, {} lost, {in_runs} missing between those received",
            udp.sent, udp.received, udp.lost
        )
    })
}

/// Jitter is defined for one stream; the value of several streams is the mean weighted by their received datagrams.
#[derive(Debug, Default)]
pub(super) struct MeanJitter {
    weighted: u128,
    count: u64,
}

impl MeanJitter {
    /// Adds the jitter of a stream that received `count` datagrams, if it was measured.
    pub(super) fn add(&mut self, jitter_ns: Option<u64>, count: u64) {
        if let Some(ns) = jitter_ns {
            self.weighted += u128::from(ns) * u128::from(count);
            self.count = self.count.saturating_add(count);
        }
    }

    /// Mean jitter in nanoseconds; absent if no stream has one.
    pub(super) fn nanos(&self) -> Option<u64> {
        self.weighted.checked_div(u128::from(self.count)).and_then(|m| u64::try_from(m).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Direction, EndTotals, Role};
    use std::collections::BTreeMap;
    use units::Instant;

    fn done(stream: u32, udp: UdpDone) -> StreamDone {
        StreamDone { udp: Some(udp), ..StreamDone::empty(stream, Instant::ZERO) }
    }

    fn sent(datagrams: u64) -> SentTotals {
        SentTotals { datagrams, gap: Duration::from_millis(1), ..SentTotals::default() }
    }

    fn received(sent: u64, lost: u64, jitter_ns: u64) -> UdpDone {
        let loss_runs = BTreeMap::from_iter((lost > 0).then_some((lost, 1)));
        let jitter_ns = Some(jitter_ns);
        let summary = UdpSummary { sent, received: sent - lost, lost, jitter_ns, loss_runs, ..UdpSummary::default() };
        let (one_way, foreign, rejected, too_late, dropped) = (OneWayHistogram::new(), 0, 0, 0, 0);
        UdpDone::Received(Box::new(ReceivedTotals { summary, one_way, foreign, rejected, too_late, dropped }))
    }

    fn side(role: Role, done: &[StreamDone]) -> EndSide {
        let t = Totals::of(done).unwrap();
        EndSide {
            direction: Direction::Up,
            role,
            totals: EndTotals::default(),
            streams: vec![],
            timeline: serde_json::Value::Null,
            decomposition: None,
            one_way: None,
            one_way_return: None,
            block_rtt: None,
            kernel_srtt: None,
            loss_episodes: vec![],
            loss_episode_count: 0,
            limits: BTreeMap::new(),
            udp: t.udp,
            udp_sent: t.sent,
        }
    }

    #[test]
    fn streams_are_summed_and_both_ends_agree() {
        let late = SentTotals { late: 7, lag_max: Duration::from_millis(3), errors: 2, ..sent(100) };
        let sender = side(Role::Sender, &[done(0, UdpDone::Sent(late)), done(1, UdpDone::Sent(sent(300)))]);
        let receiver = side(Role::Receiver, &[done(0, received(100, 0, 10)), done(1, received(300, 100, 40))]);
        let udp = both_ends(Some(&sender), Some(&receiver)).unwrap();
        assert_eq!((udp.sent, udp.received, udp.lost, udp.loss_ratio), (400, 300, 100, 0.25));
        assert_eq!((udp.sender_late, udp.sender_lag_max_ns, udp.send_errors), (7, 3_000_000, 2));
        assert_eq!((udp.jitter_ns, udp.tmax_ns), (Some(30), 2_000_000_000), "jitter weighted 100 : 200");
        assert_eq!(contradiction(&udp), None);
    }

    #[test]
    fn losses_after_the_last_arrival_follow_from_the_senders_count() {
        let sender = side(Role::Sender, &[done(0, UdpDone::Sent(sent(50)))]);
        let receiver = side(Role::Receiver, &[done(0, received(40, 4, 0))]);
        let udp = both_ends(Some(&sender), Some(&receiver)).unwrap();
        assert_eq!((udp.lost, udp.loss_runs), (14, BTreeMap::from([(4, 1), (10, 1)])));
        assert!(both_ends(Some(&sender), None).is_none());
        assert_eq!(both_ends(None, Some(&receiver)).unwrap().lost, 4);
    }

    #[test]
    fn more_received_than_sent_is_a_contradiction() {
        let sender = side(Role::Sender, &[done(0, UdpDone::Sent(sent(50)))]);
        let receiver = side(Role::Receiver, &[done(0, received(60, 0, 0))]);
        assert!(contradiction(&both_ends(Some(&sender), Some(&receiver)).unwrap()).is_some());
    }

    #[test]
    fn a_delayed_sender_causes_warnings() {
        let stalled = SentTotals { late: 2, stalled: Duration::from_millis(50), ..sent(100) };
        let warnings = stalled.warnings();
        assert!(warnings.len() == 2 && warnings[1].contains("about 50 datagrams"), "{warnings:?}");
        assert!(sent(100).warnings().is_empty());
    }
}
