//! Functions of the kernel's TCP that must work with FAST TCP and H-TCP as with its own controls: validation of an
//! unused window, restart after idle, pacing.

use std::time::{Duration, Instant};

use results::lab::LabRecord;
use testbed::undisturbed;

use crate::comparison::{CONTROLS, Comparison, Connection, ControlledPath, KERNEL_CONTROLS, threshold, window};
use crate::experiments::{flow, run};

/// Initial window in packets (RFC 6928), the lower bound to which the kernel reduces an unused window.
const INITIAL_WINDOW_PACKETS: u64 = 10;

/// Returns each control twice: with and without the kernel's slow start after idle.
fn controlled_paths() -> Vec<ControlledPath> {
    let with = |sysctl| CONTROLS.into_iter().map(move |control| ControlledPath { control, sysctl });
    let restarts = with("\"net.ipv4.tcp_slow_start_after_idle\" = 1");
    restarts.chain(with("\"net.ipv4.tcp_slow_start_after_idle\" = 0")).collect()
}

#[test]
fn an_idle_connection_restarts_with_the_initial_window_unless_disabled() {
    undisturbed(|| {
        let Some(comparison) = Comparison::start(8, &controlled_paths(), "", "") else { return };
        let timed = |c: &Connection| {
            let start = Instant::now();
            (c.deliver(300_000), start.elapsed())
        };
        let results = comparison.each(|c| {
            let (before, first) = timed(c);
            // The kernel halves the window for each idle timeout: five of at most 400 ms reduce 320 packets to the
            // initial window.
            kernel::sleep_for(Duration::from_secs(2));
            c.send(1);
            let after = c.state();
            (before, first, after, timed(c).1)
        });
        if comparison.end().is_none() {
            return;
        }
        let slowest = results[..KERNEL_CONTROLS].iter().map(|(.., second)| *second).max().unwrap();
        for (path, (before, first, after, second)) in controlled_paths().iter().zip(&results) {
            let (w, reduced) = (window(before), window(after));
            println!(
                "{path:?}: {w} packets, then {reduced}, threshold {:?}, {first:?} and {second:?}",
                threshold(after)
            );
            assert!((20..=320).contains(&w), "{path:?}: {w}");
            let restarts = path.sysctl.ends_with('1');
            assert_eq!(reduced, if restarts { INITIAL_WINDOW_PACKETS } else { w }, "{path:?}");
            // tcp_current_ssthresh: at least three quarters of the window that was, each quarter rounded down.
            let quarters = (w >> 1) + (w >> 2);
            let expected = threshold(before).map(|t| if restarts { t.max(quarters) } else { t });
            assert_eq!(threshold(after), expected, "{path:?}");
            // It continues like a new connection: at most one round trip slower.
            assert!(*second < *first + Duration::from_millis(45), "{path:?}: {second:?}, and {first:?} at the start");
            if path.control == "htcp" {
                // H-TCP uses the kernel's slow start; FAST ends its own at the first queue, whatever the threshold.
                assert!(*second < slowest + Duration::from_millis(45), "{second:?}, the kernel's own {slowest:?}");
            }
        }
    });
}

#[test]
fn an_unused_window_does_not_change() {
    undisturbed(|| {
        let Some(comparison) = Comparison::start(6, &controlled_paths()[..CONTROLS.len()], "", "") else { return };
        let results = comparison.each(|c| {
            let before = window(&c.deliver(300_000));
            // One packet every 10 ms is four per round trip. While acknowledgements arrive, the kernel does not reduce
            // the window either.
            let windows: Vec<u64> = (0..300)
                .map(|_| {
                    c.send(1448);
                    kernel::sleep_for(Duration::from_millis(10));
                    window(&c.state())
                })
                .collect();
            (before, windows)
        });
        if comparison.end().is_none() {
            return;
        }
        for (control, (before, windows)) in CONTROLS.iter().zip(&results) {
            println!("{control}: {before} packets, then {:?}", windows.last());
            assert!(*before >= 20, "{control}: {before}");
            assert!(windows.iter().all(|w| w == before), "{control}: {before} packets, then {windows:?}");
        }
    });
}

/// Experiment with one path of 10 Mb/s per control, paced to 4 Mb/s by the socket.
fn paced() -> String {
    let nodes = |n: usize| format!("\"a{n}\", \"b{n}\"");
    let all: Vec<String> = (0..CONTROLS.len()).map(nodes).collect();
    let mut toml = format!("duration = \"5s\"\nnodes = [{}]\n", all.join(", "));
    for (n, control) in CONTROLS.iter().enumerate() {
        toml += &format!(
            "[links.l{n}]\nbetween = [{}]\nrate = \"10Mb/s\"\ndelay = \"20ms\"\n[flows.{control}]\nfrom = \"a{n}\"\nto = \"b{n}\"\n\
             congestion_control = \"{control}\"\npacing = \"4Mb/s\"\n",
            nodes(n)
        );
    }
    toml
}

#[test]
fn pacing_limits_rate_and_bursts_as_with_the_kernels_own_controls() {
    undisturbed(|| {
        let directory = tempfile::tempdir().unwrap();
        let Some((ends, records)) = run("small", &crate::file(directory.path(), &paced()), &[]) else { return };
        let rates = CONTROLS.map(|control| flow(&ends[0], control).steady_bps.unwrap() as f64);
        // Maximum queue length of each link in packets, after the start of the flows.
        let queues = [0, 1, 2, 3].map(|n| {
            let own = records.iter().filter_map(|r| match r {
                LabRecord::Link(l) if l.statistics.from == format!("a{n}") && l.start_s > 0.9 => {
                    Some(l.statistics.queue.max_bytes)
                }
                _ => None,
            });
            own.max().unwrap() as f64 / 1500.0
        });
        println!("{CONTROLS:?}: {rates:?} b/s, at most {queues:?} packets queued");
        for (n, control) in CONTROLS.iter().enumerate().skip(KERNEL_CONTROLS) {
            assert!((rates[n] / rates[0] - 1.0).abs() < 0.01, "{control}: {} b/s, Reno {}", rates[n], rates[0]);
            // A whole window without pacing would be a burst of 16 packets or more.
            let max = queues[..KERNEL_CONTROLS].iter().copied().fold(0.0, f64::max);
            assert!(queues[n] <= max + 2.0, "{control}: {} packets, the kernel's own {max}", queues[n]);
        }
        // The kernel paces the bytes of the application.
        assert!((3.8e6..4.05e6).contains(&rates[0]), "{rates:?}");
    });
}
