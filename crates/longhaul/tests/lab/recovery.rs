//! Recovery from real and spurious losses, which the kernel handles for FAST TCP and H-TCP as for its own controls.

use std::time::{Duration, Instant};

use kernel::DataOptions;
use results::lab::Drops;
use results::trace::{TraceCause, TraceSample, TraceState};
use socket2::SockRef;
use testbed::undisturbed;
use units::Rate;

use crate::comparison::{CONTROLS, Comparison, Connection, ControlledPath};

fn controlled_paths() -> [ControlledPath; 4] {
    CONTROLS.map(|control| ControlledPath { control, sysctl: "" })
}

/// Time from the entry into a TCP state until a packet is processed in another state.
struct Episode<'a> {
    /// State at the last packet before the entry.
    before: &'a TraceSample,
    entry: &'a TraceSample,
    /// State at each packet of the episode.
    within: Vec<&'a TraceSample>,
    after: &'a TraceSample,
}

/// Returns the only episode of a state; panics if there is none or more than one.
fn episode(samples: &[TraceSample], state: TraceState) -> Episode<'_> {
    let enters = |s: &&TraceSample| s.cause == TraceCause::State && s.state == state;
    assert_eq!(samples.iter().filter(enters).count(), 1, "{state:?}");
    let at = samples.iter().position(|s| enters(&s)).unwrap();
    let is_ack = |s: &&TraceSample| s.cause == TraceCause::Ack;
    let later = || samples[at..].iter().filter(is_ack);
    let within: Vec<_> = later().take_while(|s| s.state == state).collect();
    let after = later().nth(within.len()).unwrap();
    Episode { before: samples[..at].iter().rfind(is_ack).unwrap(), entry: &samples[at], within, after }
}

/// Returns the window after a loss, in packets.
fn reduced(control: &str, window: u32) -> u32 {
    match control {
        // 717 / 1024 (net/ipv4/tcp_cubic.c).
        "cubic" => window * 717 / 1024,
        // H-TCP halves the window at its first loss.
        _ => window / 2,
    }
}

#[test]
fn after_one_loss_the_packets_in_flight_fall_evenly_to_the_new_window() {
    undisturbed(|| {
        // The loss is in one of the first round trips, before any of the four controls has a queue of ten packets.
        let Some(comparison) = Comparison::start(5, &controlled_paths(), ", forward = { loss_list = [110] }", "")
        else {
            return;
        };
        comparison.each(|c| c.deliver(800_000));
        let Some((ended, samples)) = comparison.end() else { return };
        for (n, control) in CONTROLS.into_iter().enumerate() {
            assert_eq!(ended.link(&format!("l{n}"), &format!("a{n}")).dropped.listed, 1);
            assert!(samples[n].iter().all(|s| s.state != TraceState::Loss), "{control}: a timeout");
            assert_eq!(samples[n].last().unwrap().retransmitted_segments, 1, "{control}");
            let e = episode(&samples[n], TraceState::Recovery);
            let (window, new_window) = (e.entry.cwnd_segments, e.entry.ssthresh_segments.unwrap());
            let flights: Vec<i64> = e.within.iter().map(|s| i64::from(s.in_flight_segments)).collect();
            println!("{control}: {window} to {new_window} packets, then {}; {flights:?}", e.after.cwnd_segments);
            assert_eq!(new_window, reduced(control, window), "{control}");
            // RFC 6937: the ratio of sent to delivered packets is the ratio of the new window to the old one, and never
            // above 1.
            let rise = flights.windows(2).map(|w| w[1] - w[0]).max().unwrap();
            assert!(rise <= 1, "{control}: {rise} packets at once");
            assert!(flights.iter().all(|f| *f >= i64::from(new_window) - 3), "{control}: the path runs empty");
            let half = (f64::from(window) + f64::from(new_window)) / 2.0;
            let middle = flights[flights.len() / 2] as f64;
            assert!(
                (middle - half).abs() < 0.15 * half,
                "{control}: {middle} packets in flight in the middle, expected {half}"
            );
            assert!((new_window..=new_window + 2).contains(&e.after.cwnd_segments), "{control}: {:?}", e.after);
        }
    });
}

/// Sends two packets every 2.6 ms for 4 s, so that the queue is empty and data is always in flight.
fn stream(c: &Connection) {
    let pacing = DataOptions { pacing: Some(Rate::from_bps(9_000_000)), ..DataOptions::default() };
    kernel::apply_data_options(&c.stream, &pacing).unwrap();
    SockRef::from(&c.stream).set_send_buffer_size(60_000).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        c.send(8_192);
    }
}

/// Returns whether FAST's target window at a packet is at most the window, or was set while the window limited the
/// sender. A target above an unused window would be used at once by a later burst.
fn target_allows_no_burst(samples: &[TraceSample], at: &TraceSample) -> bool {
    let Some(target) = at.fast.as_ref().map(|f| f.target_segments) else { return true };
    let mut earlier = samples.iter().rev().filter(|s| s.cause == TraceCause::Ack && s.at_s < at.at_s);
    let set_by = earlier.find(|s| s.fast.as_ref().is_none_or(|f| f.target_segments != target));
    target <= at.cwnd_segments || set_by.is_some_and(|s| s.window_limited == Some(true))
}

/// Checks a spurious event, scheduled at 3 s, that makes a connection enter a state: afterwards window and threshold
/// must be as before.
fn assert_undone(state: TraceState, schedule: &str) {
    let Some(comparison) = Comparison::start(7, &controlled_paths(), "", schedule) else { return };
    comparison.each(stream);
    let Some((ended, samples)) = comparison.end() else { return };
    for (n, control) in CONTROLS.into_iter().enumerate() {
        assert_eq!(ended.link(&format!("l{n}"), &format!("a{n}")).dropped, Drops::default());
        let e = episode(&samples[n], state);
        println!(
            "{control}: {} packets, threshold {:?}; meanwhile {}, {:?}; then {}, {:?}",
            e.before.cwnd_segments,
            e.before.ssthresh_segments,
            e.entry.cwnd_segments,
            e.entry.ssthresh_segments,
            e.after.cwnd_segments,
            e.after.ssthresh_segments
        );
        // The application limits the sender before the event, so the window afterwards must allow no burst.
        assert!(e.after.cwnd_segments <= e.before.cwnd_segments + 2, "{control}: {:?}", e.after);
        assert!(target_allows_no_burst(&samples[n], e.before), "{:?}", e.before);
        assert!(e.after.retransmitted_segments > e.before.retransmitted_segments, "{control}: no retransmission");
        assert!(
            e.entry.ssthresh_segments.unwrap() < e.before.cwnd_segments,
            "{control}: the threshold was not reduced"
        );
        assert!(e.after.cwnd_segments >= e.before.cwnd_segments, "{control}: {:?}", e.after);
        let threshold = |s: &TraceSample| s.ssthresh_segments.unwrap_or(u32::MAX);
        assert!(threshold(e.after) >= threshold(e.before), "{control}: {:?}", e.after);
    }
}

#[test]
fn a_spurious_timeout_is_undone() {
    undisturbed(|| {
        // Packets sent within 0.1 s are delayed by 700 ms, longer than any timeout here, and not overtaken. The reverse
        // direction is not delayed.
        assert_undone(
            TraceState::Loss,
            r#"
[[schedule]]
at = "3s"
links = "all"
direction = "forward"
delay = "700ms"
[[schedule]]
at = "3.1s"
links = "all"
direction = "forward"
delay = "20ms"
"#,
        );
    });
}

#[test]
fn a_spurious_loss_by_reordering_is_undone() {
    undisturbed(|| {
        // About five packets, sent within 6 ms, are overtaken by the two dozen packets of the next 30 ms. A
        // retransmission needs 40 ms.
        assert_undone(
            TraceState::Recovery,
            r#"
[[schedule]]
at = "3s"
links = "all"
direction = "forward"
reorder = { probability = 1, by = "30ms" }
[[schedule]]
at = "3.006s"
links = "all"
direction = "forward"
reorder = { probability = 0, by = "30ms" }
"#,
        );
    });
}
