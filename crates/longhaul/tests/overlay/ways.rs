//! Several ways to a member at once.

use results::lab::{LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::turn;

/// West and east reach each other over either of two relays, each way of 20 Mb/s, and four connections want all that they can get.
const TWO_BRIDGES: &str = r#"
duration = "20s"
nodes = ["west", "north", "south", "east"]
[defaults]
rate = "20Mb/s"
delay = "5ms"
[links]
west-north = { between = ["west", "north"] }
north-east = { between = ["north", "east"] }
west-south = { between = ["west", "south"] }
south-east = { between = ["south", "east"] }
[overlay]
members = ["west", "north", "south", "east"]
links = [["west", "north"], ["north", "east"], ["west", "south"], ["south", "east"]]
capacity = "20Mb/s"
congestion_control = "cubic"
[record]
interval = "100ms"
[flows.bulk]
count = 4
from = "west"
to = "east"
overlay = true
congestion_control = "cubic"
"#;

#[test]
fn connections_get_more_than_one_way_carries_and_share_it() {
    let Some(turn) = turn() else { return };
    undisturbed(|| {
        let ended = turn.run(TWO_BRIDGES, &[]).end();
        if let Verdict::Invalid { because } = &ended.end.verdict {
            return undecided(&because.join("; "));
        }
        // Wherever the hash put them, elephants are moved one at a time, each five seconds.
        let late = |r: &LabRecord| match r {
            LabRecord::Flow(f) if (13.0..19.0).contains(&f.begin_s) => f.bytes,
            _ => 0,
        };
        let bytes = ended.records.iter().map(late).sum::<u64>();
        let mbps = bytes as f64 * 8.0 / 6.0 / 1e6;
        // Of 1500 bytes a frame over a relay carries 1324 of payload: 17.6 Mb/s on each way, less what is lost in the queues and for probes.
        println!("{mbps:.1} Mb/s");
        assert!((1.5 * 17.6..2.0 * 17.6).contains(&mbps), "{mbps} Mb/s");
        let [north, south] =
            ["north", "south"].map(|relay| ended.link(&format!("west-{relay}"), "west").delivered.bytes);
        assert!(north.min(south) * 3 > north.max(south), "{north} and {south} bytes");
        let flows: Vec<f64> = ended.end.flows.iter().map(|f| f.bytes as f64).collect();
        let (sum, squares) = (flows.iter().sum::<f64>(), flows.iter().map(|b| b * b).sum::<f64>());
        // Jain's index: 1 for four that get the same, 0.75 for two on each way if one of each gets three times what the other does.
        let fairness = sum * sum / (4.0 * squares);
        assert!(fairness > 0.75, "{flows:?}");
    });
}
