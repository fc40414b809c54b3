//! Share of intervals that contain the truth, over an ensemble of paths.

use std::time::Duration;

use estimate::probe::{Igi, Interval, Method, Outcome, Path, PathChirp, Pathload, Pathrate, Spruce, TwoRates};
use results::estimate::Quantity;
use units::Rate;

use crate::path::{Cross, Hop, VirtualPath, mbps};

/// Capacity in Mb/s, share of the load in per cent, and round trip in ms, of each path of the ensemble.
const PATHS: [(u64, u64, u64); 12] = [
    (5, 0, 20),
    (5, 50, 100),
    (20, 25, 20),
    (20, 50, 5),
    (20, 75, 50),
    (50, 0, 30),
    (50, 50, 20),
    (100, 25, 100),
    (100, 50, 20),
    (100, 75, 20),
    (200, 0, 5),
    (200, 50, 20),
];

/// Creates a method for a path.
type Make<'a> = dyn Fn(Path) -> Box<dyn Method> + 'a;

/// Counts of one method's intervals: all, those that contained the truth, and the bounds.
#[derive(Debug, Default, Clone, Copy)]
struct Coverage {
    reported: u32,
    held: u32,
    bounds: u32,
}

impl Coverage {
    fn add(&mut self, interval: Option<Interval>, truth: Rate) {
        let Some(interval) = interval else { return };
        self.reported += 1;
        self.bounds += u32::from(interval.bound().is_some());
        // Timestamps of the virtual path are accurate to a nanosecond, which is less than a millionth of a packet's
        // time.
        let near = |r: Rate, by: f64| Rate::from_bps((r.as_bps() as f64 * by) as u64);
        self.held += u32::from(
            interval.contains(truth) || interval.low <= near(truth, 1.001) && interval.high >= near(truth, 0.999),
        );
    }

    fn text(self) -> String {
        format!("{:.1} % of {}, {} bounds", self.share() * 100.0, self.reported, self.bounds)
    }

    fn share(self) -> f64 {
        f64::from(self.held) / f64::from(self.reported.max(1))
    }
}

/// Runs a method over each path with this many seeds; returns the coverage of available bandwidth and capacity.
fn cover(seeds: u64, make: &Make<'_>, budget: u64) -> (Coverage, Coverage) {
    let (mut available, mut capacity) = (Coverage::default(), Coverage::default());
    for (number, (bps, load, rtt)) in PATHS.into_iter().enumerate() {
        let bps = bps * 1_000_000;
        for seed in 0..seeds {
            let cross = if load == 0 { Cross::Idle } else { Cross::Poisson(mbps((bps * load / 100) as f64 / 1e6)) };
            let mut path = VirtualPath::new(seed * 97 + number as u64, &[Hop::new(bps, cross)]);
            path.one_way = Duration::from_millis(rtt) / 2;
            let outcome: Outcome = path.run_within(&mut *make(path.known()), budget).concluded();
            let reported = outcome.interval.filter(|_| outcome.quantity == Quantity::AvailableBandwidth);
            available.add(reported, Rate::from_bps(bps * (100 - load) / 100));
            let own = outcome.interval.filter(|_| outcome.quantity == Quantity::Capacity);
            let also = outcome.also.iter().find(|(q, _)| *q == Quantity::Capacity).map(|(_, i)| *i);
            capacity.add(own.or(also), Rate::from_bps(bps));
        }
    }
    (available, capacity)
}

#[test]
fn intervals_of_95_percent_contain_the_truth_in_90_percent_of_runs() {
    let two_rates = |budget: u64| move |path| -> Box<dyn Method> { Box::new(TwoRates::new(path).for_budget(budget)) };
    for (name, budget) in [("auto", 100_000), ("two-rates", 6_000_000)] {
        let (available, capacity) = cover(20, &two_rates(budget), budget);
        println!("{name}: available {}, capacity {}", available.text(), capacity.text());
        assert!(available.share() >= 0.9 && capacity.share() >= 0.9, "{name}: {available:?} {capacity:?}");
        assert!(available.bounds * 5 < available.reported, "{name}: {available:?}");
    }
}

#[test]
fn intervals_of_the_other_methods_contain_the_truth_in_90_percent_of_runs() {
    let methods: [(&str, &Make<'_>); 5] = [
        ("spruce", &|p| Box::new(Spruce::new(p, None))),
        ("igi", &|p| Box::new(Igi::new(p))),
        ("pathchirp", &|p| Box::new(PathChirp::new(p))),
        ("pathload", &|p| Box::new(Pathload::new(p))),
        ("pathrate", &|p| Box::new(Pathrate::new(p))),
    ];
    for (name, make) in methods {
        let (available, capacity) = cover(4, make, 50_000_000);
        println!("{name}: available {}, capacity {}", available.text(), capacity.text());
        // At a nominal 95 %, 45.6 of 48 intervals contain the truth; two standard deviations below that are 43.
        for of in [available, capacity].into_iter().filter(|of| of.reported > 0) {
            assert!(of.share() >= 0.9, "{name}: {available:?} {capacity:?}");
        }
    }
}
