//! What the kernel does beside a congestion control, it does for FAST TCP and H-TCP as for its own: a window that the
//! application does not use, the restart after a silence, pacing.

use std::time::{Duration, Instant};

use results::lab::LabRecord;
use testbed::undisturbed;

use crate::beside::{Beside, CONTROLS, Connection, Lane, OWN, threshold, window};
use crate::experiments::{flow, run};

/// The initial window in packets (RFC 6928), which is the least that the kernel leaves of a window that was not used.
const INITIAL: u64 = 10;

/// Each control twice: where the kernel takes back a window that was not used, and where it does not.
fn lanes() -> Vec<Lane> {
    let with = |sysctl| CONTROLS.into_iter().map(move |control| Lane { control, sysctl });
    let restarts = with("\"net.ipv4.tcp_slow_start_after_idle\" = 1");
    restarts.chain(with("\"net.ipv4.tcp_slow_start_after_idle\" = 0")).collect()
}

#[test]
fn an_idle_connection_restarts_with_the_initial_window_unless_the_host_is_configured_otherwise() {
    undisturbed(|| {
        let Some(beside) = Beside::begin(8, &lanes(), "", "") else { return };
        let timed = |c: &Connection| {
            let begin = Instant::now();
            (c.deliver(300_000), begin.elapsed())
        };
        let seen = beside.each(|c| {
            let (before, first) = timed(c);
            // Half for each timeout of silence: five of at most 400 ms leave no more than the initial window of 320
            // packets.
            kernel::sleep_for(Duration::from_secs(2));
            c.send(1);
            let after = c.state();
            (before, first, after, timed(c).1)
        });
        if beside.end().is_none() {
            return;
        }
        let slowest = seen[..OWN].iter().map(|(.., again)| *again).max().unwrap();
        for (lane, (before, first, after, again)) in lanes().iter().zip(&seen) {
            let (w, kept) = (window(before), window(after));
            println!("{lane:?}: {w} packets, then {kept}, threshold {:?}, {first:?} and {again:?}", threshold(after));
            assert!((20..=320).contains(&w), "{lane:?}: {w}");
            let restarts = lane.sysctl.ends_with('1');
            assert_eq!(kept, if restarts { INITIAL } else { w }, "{lane:?}");
            // tcp_current_ssthresh: at least three quarters of the window that was, each quarter rounded down.
            let quarters = (w >> 1) + (w >> 2);
            let expected = threshold(before).map(|t| if restarts { t.max(quarters) } else { t });
            assert_eq!(threshold(after), expected, "{lane:?}");
            // It continues like a new connection: at most one round trip slower.
            assert!(*again < *first + Duration::from_millis(45), "{lane:?}: {again:?}, and {first:?} as a new one");
            if lane.control == "htcp" {
                // Its slow start is the kernel's; FAST leaves its own at the first queue, wherever the threshold is.
                assert!(*again < slowest + Duration::from_millis(45), "{again:?}, the kernel's own {slowest:?}");
            }
        }
    });
}

#[test]
fn a_window_that_the_application_does_not_use_stays_as_it_is() {
    undisturbed(|| {
        let Some(beside) = Beside::begin(6, &lanes()[..CONTROLS.len()], "", "") else { return };
        let seen = beside.each(|c| {
            let before = window(&c.deliver(300_000));
            // One packet in 10 ms: four in a round trip. As long as acknowledgements come the kernel does not take the
            // window back either.
            let windows: Vec<u64> = (0..300)
                .map(|_| {
                    c.send(1448);
                    kernel::sleep_for(Duration::from_millis(10));
                    window(&c.state())
                })
                .collect();
            (before, windows)
        });
        if beside.end().is_none() {
            return;
        }
        for (control, (before, windows)) in CONTROLS.iter().zip(&seen) {
            println!("{control}: {before} packets, then {:?}", windows.last());
            assert!(*before >= 20, "{control}: {before}");
            assert!(windows.iter().all(|w| w == before), "{control}: {before} packets, then {windows:?}");
        }
    });
}

/// Each control with a path of its own of 10 Mb/s, held to 4 Mb/s by its socket.
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
fn the_ceiling_of_a_socket_holds_and_spreads_the_packets_as_with_the_kernels_own() {
    undisturbed(|| {
        let directory = tempfile::tempdir().unwrap();
        let Some((ends, records)) = run("small", &crate::file(directory.path(), &paced()), &[]) else { return };
        let rates = CONTROLS.map(|control| flow(&ends[0], control).steady_bps.unwrap() as f64);
        // The most that ever waited at the link, in packets, once the flows had begun.
        let queues = [0, 1, 2, 3].map(|n| {
            let own = records.iter().filter_map(|r| match r {
                LabRecord::Link(l) if l.from == format!("a{n}") && l.start_s > 0.9 => Some(l.queue.max_bytes),
                _ => None,
            });
            own.max().unwrap() as f64 / 1500.0
        });
        println!("{CONTROLS:?}: {rates:?} b/s, at most {queues:?} packets queued");
        for (n, control) in CONTROLS.iter().enumerate().skip(OWN) {
            assert!((rates[n] / rates[0] - 1.0).abs() < 0.01, "{control}: {} b/s, Reno {}", rates[n], rates[0]);
            // A window at once would be 16 packets and more.
            let most = queues[..OWN].iter().copied().fold(0.0, f64::max);
            assert!(queues[n] <= most + 2.0, "{control}: {} packets, the kernel's own {most}", queues[n]);
        }
        // The kernel paces the bytes of the application.
        assert!((3.8e6..4.05e6).contains(&rates[0]), "{rates:?}");
    });
}
