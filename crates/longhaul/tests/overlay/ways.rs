//! Several concurrent routes to a peer.

use results::lab::{LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::turn;

/// West and east reach each other over either of two relays; all four connections together would fit one of the ways.
const TWO_BRIDGES: &str = r#"
duration = "30s"
nodes = ["west", "north", "south", "east"]
[defaults]
rate = "8Mb/s"
delay = "5ms"
[links]
west-north = { between = ["west", "north"] }
north-east = { between = ["north", "east"] }
west-south = { between = ["west", "south"] }
south-east = { between = ["south", "east"] }
[overlay]
members = ["west", "north", "south", "east"]
links = [["west", "north"], ["north", "east"], ["west", "south"], ["south", "east"]]
capacity = "8Mb/s"
congestion_control = "cubic"
[record]
interval = "100ms"
[flows.bulk]
count = 4
from = "west"
to = "east"
overlay = true
congestion_control = "cubic"
pacing = "1.5Mb/s"
"#;

#[test]
fn connections_are_spread_over_two_ways_and_none_loses_by_it() {
    let Some(turn) = turn() else { return };
    undisturbed(|| {
        let ended = turn.run(TWO_BRIDGES, &[]).end();
        if let Verdict::Invalid { reasons } = &ended.end.verdict {
            return undecided(&reasons.join("; "));
        }
        // A second way is looked for each ten seconds, and wherever the hash put them, connections are moved there, one
        // each five seconds, as long as their share is more than 1.5 times as large. So at 16 s no way is empty, and of
        // 30 s at 6 Mb/s the lesser one has a connection's 14 s, a ninth.
        let carried = |relay: &str| ended.link(&format!("west-{relay}"), "west").delivered.bytes;
        let (north, south) = (carried("north"), carried("south"));
        println!("{north} and {south} bytes");
        assert!(north.min(south) * 13 > north + south, "{north} and {south} bytes");
        let mut late = std::collections::BTreeMap::<_, u64>::new();
        for record in &ended.records {
            if let LabRecord::Flow(f) = record
                && (20.0..29.0).contains(&f.start_s)
            {
                *late.entry(f.flow.clone()).or_default() += f.bytes;
            }
        }
        // Of 1.5 Mb/s, 52 of 1324 bytes are headers, which pacing counts.
        let least = (9.0 * 1.5e6 / 8.0 * 0.9) as u64;
        assert!(late.len() == 4 && late.values().all(|bytes| *bytes > least), "{late:?} bytes in 9 s");
    });
}
