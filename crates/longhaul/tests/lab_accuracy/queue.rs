//! The queue compared with arithmetic.

use std::time::Duration;

use testbed::{undecided, undisturbed};

use crate::common::lab::turn_of_root;
use crate::common::udp::{Burst, over_path};

#[test]
fn a_full_queue_in_bytes_drops_the_rest_of_a_burst() {
    undisturbed(|| {
        // 1000 + 38 bytes at 200 kb/s take 41.52 ms. The burst ends long before the first packet has left.
        const PACKET_NS: u64 = 41_520_000;
        let Some(turn) = turn_of_root() else { return };
        let lab = turn.path(&["--rate", "200kb/s", "--rtt", "20ms", "--queue", "20000B"]);
        let burst = Burst { packets: 100, gap: Duration::ZERO, length: 1000 };
        let arrivals = over_path(&lab, burst, Duration::from_millis(500));
        let ended = lab.end();
        // One packet is on the wire, 20 are in the queue.
        let numbers: Vec<u64> = arrivals.iter().map(|a| a.number).collect();
        assert_eq!(numbers, (0..21).collect::<Vec<_>>());
        let truth = ended.forward();
        assert_eq!((truth.dropped.queue, truth.dropped.total()), (79, 79));
        assert_eq!(truth.queue.max_bytes, 20_000);
        if !ended.valid() {
            return undecided(&format!("{:?}", ended.end.verdict));
        }
        for (number, arrival) in (1..).zip(&arrivals) {
            let expected = number * PACKET_NS + 10_000_000;
            // The tolerance covers 100 system calls on a busy machine.
            assert!(arrival.delay_ns.abs_diff(expected) < 5_000_000, "{number}: {} ns", arrival.delay_ns);
        }
    });
}

#[test]
fn a_queue_in_packets_has_the_configured_length() {
    undisturbed(|| {
        let Some(turn) = turn_of_root() else { return };
        let lab = turn.path(&["--rate", "200kb/s", "--rtt", "20ms", "--queue", "7 packets"]);
        let burst = Burst { packets: 50, gap: Duration::ZERO, length: 1000 };
        let arrivals = over_path(&lab, burst, Duration::from_millis(500));
        let ended = lab.end();
        assert_eq!(arrivals.len(), 8, "one on the wire, 7 in the queue");
        assert_eq!(ended.forward().dropped.queue, 42);
    });
}
