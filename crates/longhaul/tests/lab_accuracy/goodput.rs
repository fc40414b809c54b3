//! What TCP gets of a link, beside the arithmetic of its overhead.

use std::net::IpAddr;
use std::time::Duration;

use crate::common::lab::turn_of_root;
use crate::common::udp::FAR;
use crate::tcp;

/// Ethernet around a packet: frame 14 + 4, preamble and delimiter 8, gap 12 (IEEE 802.3).
const ETHERNET: f64 = 38.0;
/// IPv4 and TCP with timestamps (RFC 9293 §3.1, RFC 7323 appendix A).
const HEADERS: f64 = 52.0;

/// Share of the arithmetic that one CUBIC flow gets of 100 Mb/s once it has filled the link.
fn share(mtu: f64, overhead: f64, arguments: &[&str]) -> Option<f64> {
    let turn = turn_of_root()?;
    let lab = turn.path(&[&["--rate", "100Mb/s", "--rtt", "20ms"], arguments].concat());
    let reads = tcp::fill(lab.node("near"), lab.node("far"), IpAddr::from(FAR), Duration::from_secs(7));
    let ended = lab.end();
    // A machine that was too busy says so; its goodput is no fault of the lab.
    assert!(ended.status.success() || !ended.valid(), "{}", ended.said);
    for s in 0..6 {
        println!("{s}: {}", 8.0 * tcp::rate(&reads, Duration::from_secs(s), Duration::from_secs(s + 1)));
    }
    println!("{:?}", ended.there());
    let bits = 8.0 * tcp::rate(&reads, Duration::from_secs(2), Duration::from_secs(6));
    let arithmetic = 100e6 * (mtu - HEADERS) / (mtu + overhead);
    println!("{bits:.0} b/s of {arithmetic:.0}, {}", if ended.valid() { "valid" } else { &ended.said });
    Some(bits / arithmetic)
}

#[test]
fn one_cubic_flow_gets_what_ethernet_leaves_of_100_mbps_within_0_3_per_cent() {
    // 100 Mb/s x 1448 / 1538 = 94.15 Mb/s.
    let Some(share) = share(1500.0, ETHERNET, &[]) else { return };
    assert!((share - 1.0).abs() < 0.003, "{share}");
}

#[test]
fn the_same_holds_with_jumbo_frames_and_with_a_rate_that_counts_ip_bytes() {
    // 100 Mb/s x 8948 / 9000 = 99.42 Mb/s.
    let Some(share) = share(9000.0, 0.0, &["--mtu", "9000", "--overhead", "ip"]) else { return };
    assert!((share - 1.0).abs() < 0.003, "{share}");
}
