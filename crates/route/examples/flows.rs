//! What the flow table costs a packet.
//!
//! ```sh
//! cargo run --release -p route --example flows
//! ```
//!
//! Packets of 10,000 flows in random order through a table of 65,536; then packets that are each of a new flow, as in a flood.
#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_methods, reason = "the time that the pure crate takes is read outside it")]

use std::net::IpAddr;
use std::time::Instant as Clock;

use route::flows::{FlowKey, Settings, Table, spread};
use route::{Member, Path, Weighted};
use units::{Bytes, Duration, Instant, Rate};

const PACKETS: u32 = 4_000_000;
const FLOWS: u32 = 10_000;
const SECRET: [u64; 2] = [0x5afe, 0x2008];

fn key(n: u32) -> FlowKey {
    let [a, b, c, d] = n.to_be_bytes();
    let source = IpAddr::from([10, b, c, d]);
    FlowKey::new((source, 40_000 + u16::from(a)), (IpAddr::from([10, 0, 0, 1]), 443), 6, 0)
}

/// All numbers in an order of which a cache knows nothing (Knuth's multiplicative hash).
fn scattered(n: u32) -> u32 {
    n.wrapping_mul(2_654_435_769)
}

fn per_packet(name: &str, mut each: impl FnMut(u32)) {
    let begin = Clock::now();
    (0..PACKETS).for_each(&mut each);
    println!("{name:28} {:6.1} ns a packet", begin.elapsed().as_secs_f64() * 1e9 / f64::from(PACKETS));
}

fn main() {
    let mut table = Table::new(Settings::default());
    let destination = Member(9);
    let Some(relayed) = Path::via(&[Member(1)], destination) else { return };
    let paths = [Path::direct(destination), relayed];
    let weigh = |path, place| Weighted {
        path,
        place,
        weight: 0.5,
        predicted: Rate::from_bps(1_000_000),
        assumed: false,
        capacity: Rate::from_bps(1_000_000),
        carried: Rate::ZERO,
    };
    let weighted = [weigh(paths[0], 0), weigh(paths[1], 1)];
    let routes = paths.map(|path| table.add_route(path));
    let bytes = Bytes::new(1400);
    let mut packet = |key: FlowKey| {
        let hash = key.hash(SECRET);
        if table.lookup(hash, &key, bytes).is_some() {
            return;
        }
        let place = spread(&weighted, hash).map_or(0, |w| w.place);
        if let Some(route) = routes[place] {
            table.assign(hash, key, bytes, route);
        }
    };
    let mut sum = 0;
    per_packet("hash alone", |n| sum ^= key(scattered(n) % FLOWS).hash(SECRET));
    per_packet("known flows", |n| packet(key(scattered(n) % FLOWS)));
    per_packet("new flows", |n| packet(key(FLOWS + n)));
    let mut now = Instant::ZERO;
    let begin = Clock::now();
    for _ in 0..1600 {
        now = now + Duration::from_millis(10);
        table.maintain(now);
    }
    println!("{:28} {:6.1} us a second", "maintenance", begin.elapsed().as_secs_f64() * 1e6 / 16.0);
    println!("{} packets not remembered, check {sum:x}", table.unremembered());
}
