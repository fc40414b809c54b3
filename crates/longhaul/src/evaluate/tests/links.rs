//! Reference values from link counters.

use super::super::truth::{Path, Sent, Window};
use super::{chain, usage, used};

const SECOND: Window = Window { start_s: 5.0, end_s: 6.0 };

fn path(access: &str, narrow: &str, rest: &str) -> Path {
    Path::of(&chain(access, narrow, rest), 0, 2).unwrap()
}

fn near(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    // Rounding of sums of a few numbers.
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn capacity_is_of_ip_bits_in_full_packets_over_the_narrowest_link() {
    let ethernet = path("delay = \"4ms\"", "rate = \"100Mb/s\"", "");
    near(ethernet.capacity(SECOND), 100e6 * 1500.0 / 1538.0);
    near(Some(ethernet.round_trip_s()), 0.008);
    near(Some(ethernet.payload_share()), 1448.0 / 1500.0);
    // 100 Mb/s of Ethernet are 97.5 Mb/s of IP packets, less than 98 Mb/s.
    let two = path("rate = \"98Mb/s\", overhead = \"ip\"", "rate = \"100Mb/s\"", "");
    near(two.capacity(SECOND), 100e6 * 1500.0 / 1538.0);
    assert_eq!(path("cost = 1", "cost = 1", "").capacity(SECOND), None, "no rate limit, no capacity");
}

#[test]
fn capacity_is_that_of_the_time_of_the_method() {
    let falling = "[[schedule]]\nat = \"10s\"\nlink = \"path\"\nrate = \"2Mb/s\"\n";
    let path = path("cost = 1", "rate = \"8Mb/s\", overhead = \"ip\"", falling);
    near(path.capacity(SECOND), 8e6);
    near(path.capacity(Window { start_s: 10.0, end_s: 11.0 }), 2e6);
}

#[test]
fn available_bandwidth_excludes_cross_traffic() {
    let path = path("cost = 1", "rate = \"10Mb/s\", overhead = \"ip\"", "");
    let all = usage([used("path", "router", [4.0, 5.0], 1.0), used("path", "router", [5.0, 6.0], 0.6)]);
    near(path.available(SECOND, &all, &[]), 4e6);
    // 1 Mb of the 6 Mb in that second are probes of the method, so cross traffic is 5 Mb.
    let own = Sent { window: SECOND, bytes: 125_000.0, packets: 100.0 };
    near(path.available(SECOND, &all, &[own]), 5e6);
    assert_eq!(path.available(Window { start_s: 9.0, end_s: 10.0 }, &all, &[]), None, "no counters of that time");
}

#[test]
fn own_packets_carry_the_overhead_of_the_link() {
    let path = path("cost = 1", "rate = \"10Mb/s\"", "");
    // A hundred packets of 1500 bytes take 100 * 1538 * 8 b of 10 Mb: 0.12304 of the second.
    let own = Sent { window: SECOND, bytes: 150_000.0, packets: 100.0 };
    let all = usage([used("path", "router", [5.0, 6.0], 0.5 + 0.12304)]);
    near(path.available(SECOND, &all, &[own]), 5e6 * 1500.0 / 1538.0);
}

#[test]
fn the_tight_link_need_not_be_the_narrow_one() {
    let path = path("rate = \"100Mb/s\", overhead = \"ip\"", "rate = \"20Mb/s\", overhead = \"ip\"", "");
    let all = usage([used("access", "sender", [5.0, 6.0], 0.95), used("path", "router", [5.0, 6.0], 0.0)]);
    near(path.capacity(SECOND), 20e6);
    near(path.available(SECOND, &all, &[]), 5e6);
}

#[test]
fn load_is_averaged_over_a_second_at_least() {
    let path = path("cost = 1", "rate = \"10Mb/s\", overhead = \"ip\"", "");
    let tenth = |n: u32| [f64::from(n) / 10.0, f64::from(n + 1) / 10.0];
    // Every second tenth is full.
    let all = usage((0..200).map(|n| used("path", "router", tenth(n), f64::from(n % 2))));
    near(path.available(Window { start_s: 5.0, end_s: 5.1 }, &all, &[]), 5e6);
}

#[test]
fn a_port_of_a_lan_is_a_link() {
    let text = "duration = \"9s\"\nnodes = [\"a\", \"b\"]\n[lans.office]\nmembers = [\"a\", \"b\"]\nrate = \"10Mb/s\"\noverhead = \"ip\"\n";
    let read =
        scenario::read(std::path::Path::new("x.toml"), text, &scenario::Options::default(), &|_| Err(String::new()));
    let path = Path::of(&read.unwrap().scenarios[0], 0, 1).unwrap();
    let all = usage([used("office/a", "a", [5.0, 6.0], 0.2), used("office/b", "switch", [5.0, 6.0], 0.7)]);
    near(path.available(SECOND, &all, &[]), 3e6);
}
