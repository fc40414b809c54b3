//! DSCP and ECN of inner packets on outer packets, and the handling of ECN marks.

use results::lab::Verdict;
use testbed::{undecided, undisturbed};

use crate::common::lab::turn;

/// Two nodes that reach each other over a relay only, which sets ECN CE on every 50th datagram from the first link (RFC
/// 3168). The far end counts the datagrams from the relay.
const MARKED: &str = r#"
duration = "7s"
[nodes]
west = { sysctl = { "net.ipv4.tcp_ecn" = 1 } }
relay = {}
east = { sysctl = { "net.ipv4.tcp_ecn" = 1 } }
[defaults]
rate = "50Mb/s"
delay = "5ms"
[links]
first = { between = ["west", "relay"] }
second = { between = ["relay", "east"] }
straight = { between = ["west", "east"], loss = 1.0 }
[overlay]
members = ["west", "relay", "east"]
single_path = true
capacity = "50Mb/s"
probe_share = 0.002
[programs.marks]
node = "relay"
command = '''exec nft -f - <<'RULES'
table ip marks {
 chain arrived {
  type filter hook prerouting priority -300
  ip dscp ef ip ecn ect0 udp dport 5460 numgen random mod 50 == 0 ip ecn set ce
 }
}
RULES'''
[programs.counted]
node = "east"
start = "100ms"
command = '''nft -f - <<'RULES'
table ip counted {
 chain arrived {
  type filter hook prerouting priority -300
  ip dscp ef udp dport 5460 counter
  ip dscp ef ip ecn ce udp dport 5460 counter
 }
}
RULES
sleep 6
exec nft list table ip counted'''
[flows.bulk]
from = "west"
to = "east"
start = "500ms"
overlay = true
dscp = 46
congestion_control = "cubic"
"#;

#[test]
fn dscp_and_ecn_marks_are_carried_over_relays() {
    let Some(turn) = turn() else { return };
    undisturbed(|| {
        let ended = turn.run(MARKED, &[]).end();
        let flow = ended.end.flows.iter().find(|f| f.flow == "bulk").unwrap();
        let output = std::fs::read_to_string(ended.directory.path().join("out/run-0/counted.out")).unwrap();
        let counts: Vec<u64> = output
            .lines()
            .filter_map(|l| l.split_once("counter packets ")?.1.split_whitespace().next()?.parse().ok())
            .collect();
        println!("{flow:?}\n{output}");
        let [expedited, marked] = counts[..] else { panic!("{output}") };
        if let Verdict::Invalid { reasons } = &ended.end.verdict {
            return undecided(&reasons.join("; "));
        }
        // A datagram has about 1360 bytes of payload; the counter stops one second before the end.
        assert!(expedited > flow.bytes / 1360 * 7 / 10, "{expedited} of {} bytes", flow.bytes);
        let share = marked as f64 / expedited as f64;
        assert!((0.01..0.03).contains(&share), "the share of marks must be about 1/50: {share}");
        // A sender that reacts to the marks has about 12 packets in flight (Mathis: sqrt(3/2 * 50), CUBIC a little
        // more) in an RTT of 20 ms: 6 Mb/s. Without the marks it reaches 45 Mb/s.
        let goodput = flow.bytes as f64 * 8.0 / 6.5;
        assert!((1e6..15e6).contains(&goodput) && flow.retransmits == Some(0), "{goodput} b/s, {flow:?}");
    });
}
