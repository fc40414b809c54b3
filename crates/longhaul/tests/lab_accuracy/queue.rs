//! The queue compared with arithmetic.

use std::time::Duration;

use testbed::{undecided, undisturbed};

use crate::common::lab::turn_of_root;
use crate::common::udp::{Burst, over_path};

#[test]
fn a_burst_fills_a_queue_of_bytes_and_what_finds_it_full_is_dropped() {
    undisturbed(|| {
        // 1000 + 38 bytes at 200 kb/s: 41.52 ms each. The burst is over long before the first has left.
        const EACH_NS: u64 = 41_520_000;
        let Some(turn) = turn_of_root() else { return };
        let lab = turn.path(&["--rate", "200kb/s", "--rtt", "20ms", "--queue", "20000B"]);
        let burst = Burst { packets: 100, gap: Duration::ZERO, length: 1000 };
        let arrivals = over_path(&lab, burst, Duration::from_millis(500));
        let ended = lab.end();
        // One on the wire, 20 in the queue.
        let numbers: Vec<u64> = arrivals.iter().map(|a| a.number).collect();
        assert_eq!(numbers, (0..21).collect::<Vec<_>>());
        let truth = ended.there();
        assert_eq!((truth.dropped.queue, truth.dropped.total()), (79, 79));
        assert_eq!(truth.queue.max_bytes, 20_000);
        if !ended.valid() {
            return undecided(&format!("{:?}", ended.end.verdict));
        }
        for (number, arrival) in (1..).zip(&arrivals) {
            let expected = number * EACH_NS + 10_000_000;
            // A burst of 100 system calls and a busy machine.
            assert!(arrival.delay_ns.abs_diff(expected) < 5_000_000, "{number}: {} ns", arrival.delay_ns);
        }
    });
}

#[test]
fn a_queue_in_packets_holds_as_many() {
    undisturbed(|| {
        let Some(turn) = turn_of_root() else { return };
        let lab = turn.path(&["--rate", "200kb/s", "--rtt", "20ms", "--queue", "7 packets"]);
        let burst = Burst { packets: 50, gap: Duration::ZERO, length: 1000 };
        let arrivals = over_path(&lab, burst, Duration::from_millis(500));
        let ended = lab.end();
        assert_eq!(arrivals.len(), 8, "one on the wire, 7 in the queue");
        assert_eq!(ended.there().dropped.queue, 42);
    });
}
