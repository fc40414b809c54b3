//! Changes during a run, measured by arrival times.

use std::time::Duration;

use testbed::undisturbed;

use crate::common::lab::turn_of_root;
use crate::common::udp::{Arrival, Burst, FAR, receive, send};

const NODES: &str = "duration = \"4s\"\nnodes = [\"near\", \"far\"]\n";
const PATH: &str = "between = [\"near\", \"far\"]\ndelay = \"5ms\"\n";

/// Sends over the first link of an experiment, from before its start to after its end.
fn arrivals(links: &str, burst: Burst) -> Option<(Vec<Arrival>, crate::common::lab::Ended)> {
    let turn = turn_of_root()?;
    let lab = turn.run(&format!("{NODES}{links}"), &[]);
    let receiver = receive(lab.node("far"), Duration::from_millis(1500));
    send(lab.node("near"), FAR, burst);
    let arrivals = receiver.finish();
    Some((arrivals, lab.end()))
}

#[test]
fn an_outage_has_its_configured_length_and_drops_packets_meanwhile() {
    undisturbed(|| {
        let links = format!("[links.path]\n{PATH}[[schedule]]\nlink = \"path\"\nat = \"1s\"\noutage = \"800ms\"\n");
        let burst = Burst { packets: 3000, gap: Duration::from_millis(1), length: 100 };
        let Some((arrivals, ended)) = arrivals(&links, burst) else { return };
        let gap = arrivals.windows(2).map(|w| w[1].at_ns - w[0].at_ns).max().unwrap();
        assert!(gap.abs_diff(800_000_000) < 20_000_000, "silence of {gap} ns");
        let lost = 3000 - arrivals.len() as u64;
        assert_eq!(ended.link("path", "near").dropped.outage, lost);
        assert!(lost.abs_diff(800) < 20, "{lost}");
    });
}

#[test]
fn a_rate_change_alters_the_spacing_of_packets() {
    undisturbed(|| {
        // 462 + 38 bytes take 4 ms at 1 Mb/s and 2 ms at 2 Mb/s. The sender is faster, so the queue is never empty.
        let links = format!(
            "[links.path]\n{PATH}rate = \"1Mb/s\"\nqueue = \"unlimited\"\n[[schedule]]\nlink = \"path\"\nat = \"1s\"\nrate = \"2Mb/s\"\n"
        );
        let burst = Burst { packets: 1000, gap: Duration::from_millis(1), length: 462 };
        let Some((arrivals, _)) = arrivals(&links, burst) else { return };
        assert_eq!(arrivals.len(), 1000);
        let mean =
            |part: &[Arrival]| (part[part.len() - 1].at_ns - part[0].at_ns) as f64 / (part.len() - 1) as f64 / 1e6;
        // The first 200 leave in 0.8 s, before the change; the last 500 leave after it.
        let (before, after) = (mean(&arrivals[..200]), mean(&arrivals[500..]));
        assert!((before - 4.0).abs() < 0.05, "{before} ms");
        assert!((after - 2.0).abs() < 0.05, "{after} ms");
        // The spacing changes between these two groups.
        let faster = arrivals.windows(9).position(|w| w[8].at_ns - w[0].at_ns < 8 * 3_000_000).unwrap();
        assert!((200..500).contains(&faster), "{faster}");
    });
}
