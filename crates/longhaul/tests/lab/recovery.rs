//! Recovery from real and spurious losses, which the kernel handles for FAST TCP and H-TCP as for its own controls.

use std::time::{Duration, Instant};

use kernel::DataOptions;
use results::lab::Drops;
use results::trace::{TraceCause, TraceSample, TraceState};
use socket2::SockRef;
use testbed::undisturbed;
use units::Rate;

use crate::beside::{Beside, CONTROLS, Connection, Lane};

fn lanes() -> [Lane; 4] {
    CONTROLS.map(|control| Lane { control, sysctl: "" })
}

/// From the entry into a state until a packet finds the connection in another one.
struct Episode<'a> {
    /// State at the last packet before the entry.
    before: &'a TraceSample,
    entry: &'a TraceSample,
    /// State at each packet of the episode.
    within: Vec<&'a TraceSample>,
    after: &'a TraceSample,
}

/// The only episode of a state.
fn episode(samples: &[TraceSample], state: TraceState) -> Episode<'_> {
    let enters = |s: &&TraceSample| s.cause == TraceCause::State && s.state == state;
    assert_eq!(samples.iter().filter(enters).count(), 1, "{state:?}");
    let at = samples.iter().position(|s| enters(&s)).unwrap();
    let found = |s: &&TraceSample| s.cause == TraceCause::Ack;
    let later = || samples[at..].iter().filter(found);
    let within: Vec<_> = later().take_while(|s| s.state == state).collect();
    let after = later().nth(within.len()).unwrap();
    Episode { before: samples[..at].iter().rfind(found).unwrap(), entry: &samples[at], within, after }
}

/// Window after a loss, in packets.
fn reduced(control: &str, window: u32) -> u32 {
    match control {
        // 717 / 1024 (net/ipv4/tcp_cubic.c).
        "cubic" => window * 717 / 1024,
        // H-TCP's first is a half.
        _ => window / 2,
    }
}

#[test]
fn after_one_loss_the_packets_in_flight_fall_evenly_to_what_the_control_wants() {
    undisturbed(|| {
        // One of the first round trips: none of the four has a queue of some ten packets by then.
        let Some(beside) = Beside::begin(5, &lanes(), ", forward = { loss_list = [110] }", "") else { return };
        beside.each(|c| c.deliver(800_000));
        let Some((ended, samples)) = beside.end() else { return };
        for (n, control) in CONTROLS.into_iter().enumerate() {
            assert_eq!(ended.link(&format!("l{n}"), &format!("a{n}")).dropped.listed, 1);
            assert!(samples[n].iter().all(|s| s.state != TraceState::Loss), "{control}: a timeout");
            assert_eq!(samples[n].last().unwrap().retransmitted_segments, 1, "{control}");
            let e = episode(&samples[n], TraceState::Recovery);
            let (window, wanted) = (e.entry.cwnd_segments, e.entry.ssthresh_segments.unwrap());
            let flights: Vec<i64> = e.within.iter().map(|s| i64::from(s.in_flight_segments)).collect();
            println!("{control}: {window} to {wanted} packets, then {}; {flights:?}", e.after.cwnd_segments);
            assert_eq!(wanted, reduced(control, window), "{control}");
            // RFC 6937: as many are sent, of those that arrive, as the new window is of the old one; never more than
            // arrive.
            let rise = flights.windows(2).map(|w| w[1] - w[0]).max().unwrap();
            assert!(rise <= 1, "{control}: {rise} packets at once");
            assert!(flights.iter().all(|f| *f >= i64::from(wanted) - 3), "{control}: the path runs empty");
            let half = (f64::from(window) + f64::from(wanted)) / 2.0;
            let middle = flights[flights.len() / 2] as f64;
            assert!((middle - half).abs() < 0.15 * half, "{control}: {middle} of {half} in the middle");
            assert!((wanted..=wanted + 2).contains(&e.after.cwnd_segments), "{control}: {:?}", e.after);
        }
    });
}

/// Sends for 4 s: two packets every 2.6 ms, so that nothing waits and something is sent at any time.
fn stream(c: &Connection) {
    let pacing = DataOptions { pacing: Some(Rate::from_bps(9_000_000)), ..DataOptions::default() };
    kernel::apply_data_options(&c.stream, &pacing).unwrap();
    SockRef::from(&c.stream).set_send_buffer_size(60_000).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        c.send(8_192);
    }
}

/// Whether FAST's goal at a packet is within the window, or was set while the window was in use: one that ran ahead of
/// a window that was not would be made up for at once when it is.
fn goal_is_no_debt(samples: &[TraceSample], at: &TraceSample) -> bool {
    let Some(goal) = at.fast.as_ref().map(|f| f.target_segments) else { return true };
    let mut earlier = samples.iter().rev().filter(|s| s.cause == TraceCause::Ack && s.at_s < at.at_s);
    let set_by = earlier.find(|s| s.fast.as_ref().is_none_or(|f| f.target_segments != goal));
    goal <= at.cwnd_segments || set_by.is_some_and(|s| s.window_limited == Some(true))
}

/// A spurious event makes a connection enter a state at 3 s; afterwards the state must be as before.
fn is_undone(state: TraceState, schedule: &str) {
    let Some(beside) = Beside::begin(7, &lanes(), "", schedule) else { return };
    beside.each(stream);
    let Some((ended, samples)) = beside.end() else { return };
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
        // The application holds back before: nothing is saved up that would come at once afterwards.
        assert!(e.after.cwnd_segments <= e.before.cwnd_segments + 2, "{control}: {:?}", e.after);
        assert!(goal_is_no_debt(&samples[n], e.before), "{:?}", e.before);
        assert!(e.after.retransmitted_segments > e.before.retransmitted_segments, "{control}: nothing was sent again");
        assert!(e.entry.ssthresh_segments.unwrap() < e.before.cwnd_segments, "{control}: nothing was reduced");
        assert!(e.after.cwnd_segments >= e.before.cwnd_segments, "{control}: {:?}", e.after);
        let threshold = |s: &TraceSample| s.ssthresh_segments.unwrap_or(u32::MAX);
        assert!(threshold(e.after) >= threshold(e.before), "{control}: {:?}", e.after);
    }
}

#[test]
fn a_timeout_that_was_only_a_delay_is_undone() {
    undisturbed(|| {
        // What is sent within a tenth of a second comes 700 ms later, and nothing overtakes it: longer than any timeout
        // here. The acknowledgements come back on their own way.
        is_undone(
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
fn a_loss_that_was_only_a_packet_overtaken_is_undone() {
    undisturbed(|| {
        // The packets that are sent within 6 ms, some five, are overtaken by those of 30 ms, two dozen. What is sent
        // again needs 40 ms.
        is_undone(
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
