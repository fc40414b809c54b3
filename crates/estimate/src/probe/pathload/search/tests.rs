use super::*;

const MODERN: Resolution = Resolution::OfDispersion;
const OLD: Resolution = Resolution::Ratio(0.2);

/// Runs fleets on a path with this available bandwidth and this width of the grey region, until the end.
fn run(mut search: Search, available: f64, grey: f64, fastest: f64) -> (Vec<f64>, Next, Range) {
    let (mut requested, mut tried) = (search.first(), Vec::new());
    loop {
        let sent = requested.min(fastest);
        tried.push(requested);
        let verdict = match sent {
            r if r > available + grey => Verdict::Increasing,
            r if r <= available - grey => Verdict::NoTrend,
            _ => Verdict::Grey,
        };
        match search.add(requested, sent, verdict) {
            Next::Try(rate) => requested = rate,
            end @ (Next::Found | Next::Edge | Next::Stuck) => return (tried, end, search.range()),
        }
    }
}

const LIMITS: (f64, f64) = (9120.0, 10e9);

#[test]
fn an_idle_path_of_the_thesis_takes_four_rates() {
    let (tried, end, range) = run(Search::new(LIMITS, Some(100e6), OLD), 100e6, 0.0, 10e9);
    assert_eq!((tried, end), (vec![100e6, 200e6, 150e6, 125e6], Next::Found));
    let (low, high) = (Rate::from_bps(100_000_000), Rate::from_bps(125_000_000));
    assert_eq!(range, Range::Both(Interval::between(low, high)));
}

#[test]
fn the_range_of_1_3_2_is_two_percent_of_the_dispersion() {
    let (tried, end, range) = run(Search::new(LIMITS, Some(100e6), MODERN), 33e6, 0.0, 10e9);
    // 100 / 2^6 = 1.6 Mb/s: the first fleet and six halves.
    assert_eq!((tried.len(), end), (7, Next::Found));
    let Range::Both(i) = range else { panic!("{range:?}") };
    assert!(i.low.as_bps() <= 33_000_000 && i.high.as_bps() >= 33_000_000, "{i:?}");
    assert!(i.high.as_bps() - i.low.as_bps() <= 2_000_000, "{i:?}");
}

#[test]
fn a_grey_region_is_found_from_both_sides() {
    let (_, end, range) = run(Search::new(LIMITS, Some(100e6), MODERN), 50e6, 10e6, 10e9);
    let Range::Both(i) = range else { panic!("{range:?}") };
    // 40 to 60, each end to 5 % of 100 Mb/s.
    assert_eq!(end, Next::Found);
    assert!((40..=45).contains(&(i.low.as_bps() / 1_000_000)), "{i:?}");
    assert!((55..=60).contains(&(i.high.as_bps() / 1_000_000)), "{i:?}");
}

#[test]
fn a_search_that_starts_in_the_grey_region_goes_upwards() {
    let (tried, _, range) = run(Search::new(LIMITS, Some(50e6), MODERN), 50e6, 1e6, 10e9);
    assert_eq!(&tried[..2], [50e6, 75e6]);
    assert!(matches!(range, Range::Both(_)), "{range:?}");
}

#[test]
fn a_slow_sender_gives_a_lower_bound() {
    let (tried, end, range) = run(Search::new(LIMITS, Some(100e6), MODERN), 500e6, 0.0, 130e6);
    assert_eq!((tried, end), (vec![100e6, 200e6, 260e6], Next::Stuck));
    let rate = Rate::from_bps(130_000_000);
    assert_eq!(range, Range::AtLeast(Interval::between(rate, rate)));
}

#[test]
fn a_sender_that_is_one_percent_off_ends_the_search_with_the_range_so_far() {
    let mut search = Search::new(LIMITS, Some(100e6), MODERN);
    assert_eq!(search.add(100e6, 100e6, Verdict::Increasing), Next::Try(50e6));
    assert_eq!(search.add(50e6, 96e6, Verdict::NoTrend), Next::Try(98e6));
    assert_eq!(search.clone().add(98e6, 95e6, Verdict::NoTrend), Next::Stuck);
    assert_eq!(search.add(97e6, 96e6, Verdict::NoTrend), Next::Found);
}

#[test]
fn the_search_ends_at_the_limits_of_the_sender() {
    let (tried, end, range) = run(Search::new(LIMITS, Some(4e9), MODERN), 1e12, 0.0, 1e12);
    assert_eq!((tried, end), (vec![4e9, 8e9, 10e9], Next::Edge));
    assert!(matches!(range, Range::AtLeast(_)));
    let (tried, end, range) = run(Search::new(LIMITS, Some(1e6), OLD), 0.0, 0.0, 1e12);
    // 2^-6 Mb/s are 15.6 kb/s; the next is the lowest.
    assert_eq!((tried.len(), end), (8, Next::Edge));
    assert_eq!(range, Range::AtMost(Rate::from_bps(9120)));
}
