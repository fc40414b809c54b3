use estimate::probe::{Interval, Outcome, Path, Pathload};
use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use crate::path::{Cross, Hop, VirtualPath, error};

mod hostile;

/// A link of this many Mb/s with a Poisson load of 1500-byte packets of this many per cent.
fn loaded(mbps: u64, percent: u64) -> Hop {
    let load = Rate::from_bps(mbps * 10_000 * percent);
    Hop::new(mbps * 1_000_000, if percent == 0 { Cross::Idle } else { Cross::Poisson(load) })
}

/// Runs a method and prints its result and its cost.
#[allow(clippy::print_stdout, reason = "cost of each case; shown on request")]
fn run(case: &str, path: &mut VirtualPath, mut method: Pathload) -> Outcome {
    let before = path.elapsed();
    let outcome = path.run(&mut method);
    let mbps = |rate: Rate| rate.as_bps() as f64 / 1e6;
    let range = outcome.interval.map(|i| (mbps(i.low), mbps(i.value), mbps(i.high)));
    let seconds = (path.elapsed() - before).as_secs_f64();
    println!("{case}: {range:.3?} {} kB {seconds:.1} s {:?}", path.bytes / 1000, outcome.caveats);
    outcome
}

/// Standard deviation of the load that one stream meets, in b/s: the count of n packets of a Poisson process varies by
/// sqrt(n). The stream is as long as one at `available`: packets of 228 bytes or 80 us apart, or of 1500 bytes.
fn spread(capacity: u64, available: u64) -> f64 {
    let (load, available) = ((capacity - available) as f64, available as f64);
    let gap = if available < 150e6 { f64::max(228.0 * 8.0 / available, 80e-6) } else { 12_000.0 / available };
    let packets = load * 100.0 * gap / 12_000.0;
    if packets > 0.0 { load / packets.sqrt() } else { 0.0 }
}

/// The range contains the truth, or its middle is off by at most the variation of the load during a stream, and half of
/// that again: a trend is visible only if it exceeds that variation. A range also has the intended width.
fn assert_near(case: &str, i: Interval, capacity: u64, available: u64, width: f64) {
    let tolerance = 1.5 * spread(capacity, available) + width * capacity as f64;
    let off = i.value.as_bps().abs_diff(available) as f64;
    let holds = i.low.as_bps() <= available && available <= i.high.as_bps();
    assert!(holds || off <= tolerance, "{case}: {i:?} for {available}, {off} off, allowed {tolerance}");
}

#[test]
fn the_available_bandwidth_is_found_at_any_rate_and_load() {
    for mbps in [10, 100, 500] {
        for load in [0, 25, 50, 75] {
            let case = format!("{mbps} Mb/s, load {load} %");
            let mut path = VirtualPath::new(1, &[loaded(mbps, load)]);
            path.one_way = Duration::from_millis(2);
            let method = Pathload::new(path.known());
            let outcome = run(&case, &mut path, method);
            assert_eq!(outcome.quantity, Quantity::AvailableBandwidth);
            assert!(outcome.caveats.is_empty(), "{case}: {:?}", outcome.caveats);
            let available = mbps * 10_000 * (100 - load);
            assert_near(&case, outcome.interval.unwrap(), mbps * 1_000_000, available, 0.02);
            let [(quantity, dispersion)] = outcome.also[..] else { panic!("{case}: {:?}", outcome.also) };
            // 50 packets from a sender 20 to 1000 times as fast meet few packets of cross traffic.
            assert_eq!(quantity, Quantity::AsymptoticDispersion);
            assert!(error(dispersion.value, mbps * 1_000_000).abs() < 0.1, "{case}: {dispersion:?}");
        }
    }
}

#[test]
fn the_tool_of_the_thesis_takes_four_to_eight_rates_of_1200_packets() {
    let cases = [(10, 0), (10, 25), (10, 50), (10, 75), (100, 0), (100, 50), (100, 75)];
    let mut usual = 0;
    for (mbps, load) in cases {
        let case = format!("2002: {mbps} Mb/s, load {load} %");
        let mut path = VirtualPath::new(2, &[loaded(mbps, load)]);
        path.one_way = Duration::from_millis(2);
        let method = Pathload::faithful(path.known());
        let outcome = run(&case, &mut path, method);
        assert_near(&case, outcome.interval.unwrap(), mbps * 1_000_000, mbps * 10_000 * (100 - load), 0.2);
        // Each rate is 1200 packets of 200 bytes of payload at least; and the 51 of the start.
        let fleets = (path.packets - 51) / 1200;
        println!("{case}: {fleets} rates");
        assert_eq!(path.packets, 51 + fleets * 1200, "{case}");
        assert!(path.bytes >= fleets * 1200 * 228 + 51 * 1500, "{case}: {} bytes", path.bytes);
        assert!((4..=12).contains(&fleets), "{case}: {fleets} rates");
        usual += usize::from(fleets <= 8);
    }
    // §4.1.4: "between 4 and 8 different rates in most cases".
    assert!(usual * 2 > cases.len(), "{usual}");
}

#[test]
fn the_tight_link_need_not_be_the_narrow_one() {
    // 100 Mb/s without load, then 60 of 200 available.
    let mut path = VirtualPath::new(1, &[loaded(100, 0), loaded(200, 70)]);
    path.one_way = Duration::from_millis(2);
    let method = Pathload::new(path.known());
    let outcome = run("narrow is not tight", &mut path, method);
    assert_near("narrow is not tight", outcome.interval.unwrap(), 200_000_000, 60_000_000, 0.02);
    // The start measures the narrow link at best.
    assert!(outcome.also[0].1.value > outcome.interval.unwrap().high);
}

#[test]
fn batches_of_the_receiver_do_not_distort_the_result() {
    for micros in [250, 1000] {
        let case = format!("batches of {micros} us");
        let mut path = VirtualPath::new(1, &[loaded(100, 50)]);
        path.one_way = Duration::from_millis(2);
        path.batch = Duration::from_micros(micros);
        let method = Pathload::new(path.known());
        let outcome = run(&case, &mut path, method);
        assert!(outcome.caveats.contains(&Caveat::Batching), "{case}");
        // 5 % of the dispersion is the resolution there.
        assert_near(&case, outcome.interval.unwrap(), 100_000_000, 50_000_000, 0.05);
    }
}

#[test]
fn batches_as_long_as_a_stream_give_no_value_instead_of_a_wrong_one() {
    // 300 packets of 1500 bytes at 500 Mb/s take 7.2 ms.
    let mut path = VirtualPath::new(1, &[loaded(500, 50)]);
    path.batch = Duration::from_millis(10);
    let method = Pathload::new(path.known());
    let outcome = run("batches of 10 ms", &mut path, method);
    assert!(outcome.interval.is_none(), "{outcome:?}");
    assert!(outcome.caveats.contains(&Caveat::Batching) && outcome.caveats.contains(&Caveat::TooFewSamples));
}

#[test]
fn a_sender_that_cannot_reach_the_rate_gives_a_lower_bound() {
    // 1500 bytes every 400 us are 30 Mb/s, whatever minimum gap the sender reports.
    let mut path = VirtualPath::new(1, &[loaded(100, 0)]);
    path.gap_min = Duration::from_micros(400);
    let known = Path { gap_min: Duration::from_micros(10), ..path.known() };
    let outcome = run("slow sender", &mut path, Pathload::new(known));
    let interval = outcome.interval.unwrap();
    assert!(error(interval.value, 30_000_000).abs() < 0.02, "{interval:?}");
    assert!([Caveat::SenderTooSlow, Caveat::LowerBound].iter().all(|t| outcome.caveats.contains(t)), "{outcome:?}");
}

#[test]
fn a_slow_path_takes_one_stream_for_each_rate() {
    for (name, faithful) in [("new", false), ("2002", true)] {
        // A queue of 2 s, as modems had: one of 200 ms holds a single large packet.
        let mut slow = Hop::new(64_000, Cross::Idle);
        slow.settings.queue.limit = link::QueueLimit::Time(Duration::from_secs(2));
        let mut path = VirtualPath::new(1, &[slow]);
        let method = if faithful { Pathload::faithful(path.known()) } else { Pathload::new(path.known()) };
        let outcome = run(&format!("64 kb/s, {name}"), &mut path, method);
        let interval = outcome.interval.unwrap();
        // The ranges are 2 % of the dispersion or 20 % of the upper end wide, and the truth is one of their ends.
        let width = if faithful { 0.25 } else { 0.02 };
        assert!((-0.001..width).contains(&error(interval.value, 64_000)), "{name}: {interval:?}");
        // A dozen rates at most, each of 100 packets of 228 bytes, and the trains of the start.
        assert!(path.bytes < 12 * 22_800 + 118 * 1500, "{name}: {}", path.bytes);
    }
}

#[test]
fn a_path_that_loses_everything_gives_no_value() {
    for faithful in [false, true] {
        let mut dead = loaded(10, 0);
        dead.settings.up = false;
        let mut path = VirtualPath::new(1, &[dead]);
        let method = if faithful { Pathload::faithful(path.known()) } else { Pathload::new(path.known()) };
        let outcome = run("dead", &mut path, method);
        assert!(outcome.interval.is_none() && outcome.also.is_empty());
        let seen = [Caveat::Loss, Caveat::NoAnswer, Caveat::TooFewSamples];
        assert!(seen.iter().all(|t| outcome.caveats.contains(t)), "{outcome:?}");
        assert_eq!(path.packets, 51 + 36 + 21 + 6 + 4, "the trains of the start");
    }
}

#[test]
fn the_queue_that_it_fills_is_reported() {
    for ms in [1, 3, 5] {
        let mut hop = loaded(100, 0);
        hop.settings.queue.limit = link::QueueLimit::Time(Duration::from_millis(ms));
        let mut path = VirtualPath::new(1, &[hop]);
        let method = Pathload::new(path.known());
        let queue = run(&format!("a queue of {ms} ms"), &mut path, method).queue.unwrap().as_secs_f64() * 1e3;
        // A packet of 0.12 ms fits or does not.
        assert!((queue - ms as f64).abs() <= 0.12, "{queue} of {ms}");
    }
    // 200 ms are more than its trains fill at 100 Mb/s.
    let mut path = VirtualPath::new(1, &[loaded(100, 50)]);
    let method = Pathload::new(path.known());
    assert_eq!(run("a long queue", &mut path, method).queue, None);
}

#[test]
fn a_budget_ends_the_search_with_the_range_so_far() {
    let mut path = VirtualPath::new(1, &[loaded(100, 50)]);
    path.one_way = Duration::from_millis(2);
    let method = Pathload::new(path.known()).at_most(1_000_000);
    let outcome = run("1 MB", &mut path, method);
    assert!(path.bytes <= 1_000_000 && outcome.caveats.contains(&Caveat::BudgetSpent), "{outcome:?}");
    // The first fleet, at the capacity, is above 50 Mb/s, which bounds the result.
    assert!(outcome.interval.unwrap().high.as_bps() >= 50_000_000, "{outcome:?}");
}
