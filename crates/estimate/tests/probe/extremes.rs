//! Paths that are slower, faster or worse than those for which the methods were designed: all methods within the bounds
//! of the driver.

use std::time::Duration;

use estimate::model::{Reno, pftk};
use estimate::probe::{
    Adr, Igi, Interval, Method, Outcome, Path, PathChirp, Pathload, Pathrate, RonProbes, Spruce, SqueezedPairs,
    TwoRates,
};
use link::{Loss, QueueLimit};
use results::estimate::{Caveat, Quantity};
use units::{Bytes, Rate};

use crate::path::{Cross, Hop, VirtualPath};

/// Default budget of `longhaul estimate` for a method.
const BYTES: u64 = 50_000_000;
const TIME: Duration = Duration::from_secs(120);

/// Maximum time of the last train beyond the limit: its packets wait in a queue of a second, and lost packets are
/// waited for two seconds.
const LAST_TRAIN: Duration = Duration::from_secs(4);

const KBPS: u64 = 1_000;
const GBPS: u64 = 1_000_000_000;

/// A method with the maximum number of bytes that it sends.
struct Entry {
    name: &'static str,
    method: Box<dyn Method>,
    bytes_max: u64,
}

fn methods(path: Path, capacity: u64) -> Vec<Entry> {
    let rate = Rate::from_bps(capacity);
    let entry = |name, method: Box<dyn Method>, bytes_max| Entry { name, method, bytes_max };
    // 40 gaps of three trains of 60 packets, and those that are sent at once.
    let igi = 41 * 3 * 60 * 1500;
    vec![
        entry("adr", Box::new(Adr::full(path)), 2 * 30 * 1428),
        entry("short-adr", Box::new(Adr::short(path)), 2 * 15 * 1428),
        // 200 trains of 17 packets, a burst of 10 for each three of them, 80 packets of 64 bytes, two trains of 256 kB.
        entry("two-rates", Box::new(TwoRates::new(path)), (200 * 17 + 67 * 10) * 1500 + 80 * 64 + 2 * 256_000),
        entry("spruce", Box::new(Spruce::new(path, None)), (200 + 36) * 1500 + 100 * 64),
        entry("spruce of a capacity", Box::new(Spruce::new(path, Some(rate))), 200 * 1500 + 100 * 64),
        entry("igi", Box::new(Igi::new(path)), igi),
        entry("igi of 2003", Box::new(Igi::faithful(path)), igi),
        // 60 chirps of 33 or fewer packets.
        entry("pathchirp", Box::new(PathChirp::new(path)), 60 * 33 * 1500),
        entry("pathchirp of 2003", Box::new(PathChirp::faithful(path)), 60 * 18 * 1000),
        entry("pathload", Box::new(Pathload::new(path)), 20_000_000),
        entry("pathload of 2002", Box::new(Pathload::faithful(path)), 40_000_000),
        entry("pathrate", Box::new(Pathrate::new(path)), 1_100_000),
        entry("pathrate of 2004", Box::new(Pathrate::faithful(path)), 42_000_000),
        entry("squeezed pairs", Box::new(SqueezedPairs::new(path, rate)), 200_000),
        entry("loss", Box::new(RonProbes::quick(path)), 100 * 32),
        entry("loss-only", Box::new(RonProbes::quick(path).loss_only()), 100 * 32),
    ]
}

/// Runs each of these methods over a new path of its own; all must end within their bounds.
#[allow(clippy::print_stdout, reason = "result of each case; shown on request")]
fn each(
    case: &str,
    capacity: u64,
    path: impl Fn() -> VirtualPath,
    selects: impl Fn(&str) -> bool,
) -> Vec<(String, Outcome)> {
    let names = methods(path().known(), capacity).into_iter().enumerate().filter(|(_, e)| selects(e.name));
    let run = |(number, _): (usize, Entry)| {
        let mut path = path();
        let Entry { name, mut method, bytes_max } = methods(path.known(), capacity).swap_remove(number);
        let start = path.elapsed();
        let outcome = path.run_bounded(&mut *method, BYTES, TIME);
        let elapsed = path.elapsed() - start;
        let of = |r: Rate| r.as_bps() as f64 / capacity as f64;
        let shares = outcome.interval.map(|i| (of(i.low), of(i.value), of(i.high)));
        println!("{case}, {name}: {shares:.3?} {:?} {elapsed:.1?} {} kB", outcome.caveats, path.bytes / 1000);
        assert!(path.bytes <= bytes_max, "{case}, {name}: {} bytes", path.bytes);
        assert!(elapsed <= TIME + LAST_TRAIN, "{case}, {name}: {elapsed:?}");
        (format!("{case}, {name}"), outcome)
    };
    names.map(run).collect()
}

/// A result without a caveat is right: its interval comes within a factor of two of the truth. A lower bound is one,
/// with a tolerance of a tenth, a step of the coarsest method.
fn assert_honest(case: &str, outcome: &Outcome, capacity: u64, available: u64) {
    let all = outcome.interval.map(|i| (outcome.quantity, i)).into_iter().chain(outcome.also.iter().copied());
    for (quantity, Interval { low, high, .. }) in all {
        let (low, high) = (low.as_bps() as f64, high.as_bps() as f64);
        let (min, max) = match quantity {
            Quantity::Capacity => (capacity, capacity),
            Quantity::AvailableBandwidth => (available, available),
            // Between the two, depending on the speed of the sender.
            Quantity::AsymptoticDispersion => (available, capacity),
            // A Reno transfer gets a part of the available bandwidth.
            Quantity::BulkTransferCapacity => (0, available),
            // No packet is lost.
            Quantity::LossLimit => (0, u64::MAX),
        };
        let near = low <= 2.0 * max as f64 && 2.0 * high >= min as f64;
        assert!(near || !outcome.caveats.is_empty(), "{case}: {outcome:?}");
        if outcome.caveats.contains(&Caveat::LowerBound) {
            assert!(low <= 1.1 * max as f64, "{case}: {outcome:?}");
        }
    }
}

/// A link of 64 kb/s with a queue of a second, which holds five large packets.
fn modem(load: Cross) -> VirtualPath {
    let mut hop = Hop::new(64 * KBPS, load);
    hop.settings.queue.limit = QueueLimit::Time(Duration::from_secs(1));
    VirtualPath::new(1, &[hop])
}

#[test]
fn the_whole_rate_of_an_idle_modem_is_available() {
    let mut answers = 0;
    for (case, outcome) in each("64 kb/s", 64 * KBPS, || modem(Cross::Idle), |_| true) {
        assert_honest(&case, &outcome, 64 * KBPS, 64 * KBPS);
        let Some(interval) = outcome.interval.filter(|_| !of_loss(outcome.quantity)) else {
            continue;
        };
        answers += 1;
        // The coarsest: a range of 25 % above the truth (Pathload 2002), a step of 20 % (pathChirp 2003).
        let value = interval.value.as_bps() as f64 / 64e3;
        assert!((0.99..1.2).contains(&value), "{case}: {outcome:?}");
    }
    // A chirp of 33 large packets does not fit into the queue, and pairs need two minutes and more.
    assert!(answers >= 12, "{answers}");
}

#[test]
fn a_half_loaded_modem_gives_no_wrong_result() {
    let half = Cross::Poisson(Rate::from_bps(32 * KBPS));
    for (case, outcome) in each("64 kb/s, half", 64 * KBPS, || modem(half), |_| true) {
        assert_honest(&case, &outcome, 64 * KBPS, 32 * KBPS);
        // Five packets of cross traffic per second: two minutes of them vary by a tenth, and trains see a part of that.
        if case.ends_with("two-rates") {
            let available = outcome.interval.unwrap().value.as_bps() as f64 / 32e3;
            assert!((0.7..1.3).contains(&available), "{case}: {outcome:?}");
        }
    }
}

#[test]
fn ten_idle_gigabits_are_measured_or_bounded() {
    let path = || VirtualPath::new(1, &[Hop::new(10 * GBPS, Cross::Idle)]);
    for (case, outcome) in each("10 Gb/s", 10 * GBPS, path, |_| true) {
        assert_honest(&case, &outcome, 10 * GBPS, 10 * GBPS);
    }
}

#[test]
fn ten_half_loaded_gigabits_are_measured_or_bounded() {
    let path = || {
        let mut hop = Hop::new(10 * GBPS, Cross::Poisson(Rate::from_bps(5 * GBPS)));
        // A quarter of the events to simulate; a large packet still takes only 5 us.
        hop.cross_bytes = 6000;
        VirtualPath::new(1, &[hop])
    };
    // Methods that take no more than seconds, each of which is 100 000 packets of cross traffic.
    let short = |name: &str| ["adr", "short-adr", "two-rates", "igi", "pathload"].contains(&name);
    for (case, outcome) in each("10 Gb/s, half", 10 * GBPS, path, short) {
        assert_honest(&case, &outcome, 10 * GBPS, 5 * GBPS);
    }
}

#[test]
fn a_sender_far_slower_than_the_path_gives_a_lower_bound() {
    let path = || {
        let mut path = VirtualPath::new(1, &[Hop::new(10 * GBPS, Cross::Idle)]);
        // 1500 bytes in 10 us: 1.2 Gb/s.
        path.gap_min = Duration::from_micros(10);
        path
    };
    for (case, outcome) in each("10 Gb/s from 1.2", 10 * GBPS, path, |name| !name.starts_with("loss")) {
        assert_honest(&case, &outcome, 10 * GBPS, 10 * GBPS);
        let bounded = outcome.caveats.contains(&Caveat::LowerBound);
        assert!(outcome.interval.is_none() || bounded, "{case}: {outcome:?}");
    }
}

#[test]
fn a_loss_of_half_of_the_packets_is_reported_and_gives_no_wrong_result() {
    const CAPACITY: u64 = 10_000_000;
    let path = || {
        let mut hop = Hop::new(CAPACITY, Cross::Idle);
        hop.settings.loss = Loss::Independent(0.5);
        VirtualPath::new(1, &[hop])
    };
    for (case, outcome) in each("half lost", CAPACITY, path, |_| true) {
        if let Some(loss) = outcome.loss {
            // Binomial: a standard deviation of 5, four of them.
            assert!(loss.lost.abs_diff(50) <= 20, "{case}: {loss:?}");
            // A transfer that loses half waits for timeouts; its score, which ignores timeouts, is far above and
            // carries that caveat.
            let reno = Reno {
                mss: Bytes::new(1500),
                rtt: Duration::from_millis(20),
                loss: 0.5,
                timeout: Duration::from_millis(220),
                segments_per_ack: 1.0,
                window: None,
            };
            assert!(outcome.interval.unwrap().low > pftk(reno).unwrap(), "{case}: {outcome:?}");
            assert!(outcome.caveats.contains(&Caveat::UpperBound), "{case}: {outcome:?}");
            continue;
        }
        assert!(outcome.caveats.contains(&Caveat::Loss), "{case}: {outcome:?}");
        assert_eq!(outcome.queue, None, "{case}: random losses fill no queue");
        // Pathload takes so much loss for a rate that is too fast, whatever the delays, as its authors define it: it
        // ends at its lowest rates, and only the reported loss indicates that.
        if let Some(i) = outcome.interval.filter(|_| !case.contains("pathload")) {
            // A gap in which two of three packets are missing has a third of the rate.
            let value = i.value.as_bps() as f64 / CAPACITY as f64;
            assert!((0.3..1.1).contains(&value), "{case}: {outcome:?}");
        }
    }
}

const fn of_loss(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::BulkTransferCapacity | Quantity::LossLimit)
}
