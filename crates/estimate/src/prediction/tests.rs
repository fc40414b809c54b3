use super::*;
use crate::history::Predictor;

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

fn path(capacity: u64, left: u64) -> PathState {
    let exactly = |n| Interval { value: mbps(n), low: mbps(n), high: mbps(n) };
    PathState {
        capacity: Some(exactly(capacity)),
        available: exactly(left),
        round_trip: Duration::from_millis(100),
        queue: None,
        loss: None,
        window: None,
        earlier: None,
        mss: Bytes::new(1448),
        packet: Bytes::new(1500),
    }
}

#[test]
fn an_idle_link_gives_its_payload() {
    let got = predict(&path(100, 100), Control::Cubic, Some(Bytes::new(1_000_000_000)));
    // 100 Mb/s x 1448/1500.
    assert_eq!((got.goodput_bps, got.bound), (96_533_333, PredictionBound::Link));
    // 8 Gb at that rate take 82.9 s; handshake and slow start add less than a second.
    let seconds = got.completion_ns.unwrap() as f64 / 1e9;
    assert!((82.9..83.9).contains(&seconds), "{seconds}");
}

#[test]
fn a_window_bounds_the_goodput() {
    // 1 MB over 100 ms is 80 Mb/s: the limit of the thesis' transfers across the Atlantic.
    let state = PathState { window: Some(Bytes::new(1_000_000)), ..path(1000, 1000) };
    let got = predict(&state, Control::Reno, None);
    assert_eq!((got.goodput_bps, got.bound, got.completion_ns), (80_000_000, PredictionBound::Window, None));
}

/// CUBIC over 100 ms: 12.74 segments per round trip with random losses, and of a hundred losses 18 that cost a series
/// of timeouts of 0.306 s (PFTK): 118.9 segments per second, computed independently.
const AT_ONE_PER_CENT: f64 = 118.9 * 1448.0 * 8.0;

#[test]
fn loss_slows_reno_and_cubic_down_and_bbr_hardly() {
    let state = PathState { loss: Some(LossCount { lost: 4, sent: 400, over: LossScope::OneWay }), ..path(100, 100) };
    let goodput = |control| predict(&state, control, None);
    let cubic = goodput(Control::Cubic);
    assert!((cubic.goodput_bps as f64 / AT_ONE_PER_CENT - 1.0).abs() < 0.005, "{cubic:?}");
    assert_eq!(cubic.bound, PredictionBound::Loss);
    assert!(cubic.low_bps < cubic.goodput_bps && cubic.goodput_bps < cubic.high_bps);
    assert!(goodput(Control::Reno).goodput_bps < cubic.goodput_bps);
    assert!(goodput(Control::Bbr).goodput_bps > 95_000_000);
}

#[test]
fn loss_over_the_round_trip_is_split_over_both_directions_with_an_interval_from_none_to_all() {
    let goodput = |lost, sent, over| {
        let state = PathState { loss: Some(LossCount { lost, sent, over }), ..path(100, 100) };
        predict(&state, Control::Cubic, None)
    };
    // Of 10 000 probes 9801 return: 0.99 x 0.99. So each direction loses 1 %.
    let echoed = goodput(199, 10_000, LossScope::RoundTrip);
    assert!((echoed.goodput_bps as f64 / AT_ONE_PER_CENT - 1.0).abs() < 0.005, "{echoed:?}");
    // Counted in the direction of the data it is twice as much loss, which is the lower end of the above.
    let counted = goodput(199, 10_000, LossScope::OneWay);
    assert!(counted.goodput_bps < echoed.goodput_bps && counted.low_bps == echoed.low_bps, "{counted:?}");
    // All of it can be on the return path, which leaves the link: 100 Mb/s x 1448/1500.
    assert_eq!((echoed.high_bps, echoed.bound), (96_533_333, PredictionBound::Loss));
    // 75 of 100 lost are half of each direction; if all are lost, no direction carries anything.
    assert_eq!(LossCount { lost: 75, sent: 100, over: LossScope::RoundTrip }.shares()[0], 0.5);
    assert_eq!(LossCount { lost: 100, sent: 100, over: LossScope::RoundTrip }.shares(), [1.0, 1.0, 0.0]);
}

#[test]
fn earlier_transfers_are_weighted_by_their_certainty_unless_they_contradict() {
    let earlier = |mbps: f64, spread: f64| {
        let rate_bps = mbps * 1e6;
        let (low_bps, high_bps) = (rate_bps / spread, rate_bps * spread);
        Some(Prediction { rate_bps, low_bps, high_bps, samples: 7, since_shift_s: None, predictor: Predictor::Last })
    };
    let some = |n| Interval { value: mbps(n), low: mbps(n / 2), high: mbps(n * 2) };
    let probed = PathState { available: some(100), ..path(100, 100) };
    let with = |earlier| predict(&PathState { earlier, ..probed }, Control::Cubic, None);
    // Payload of 96.5 Mb/s by a factor of two at 95 %, and 60 Mb/s by a factor of equal width at 95 % (1.96/1.28). Both
    // are equally certain, so that the result is the geometric mean with an interval narrower by the root of two.
    let same = 2_f64.powf(1.28 / 1.96);
    let got = with(earlier(60.0, same));
    assert!((got.goodput_bps as f64 / (96.533_f64 * 60.0).sqrt() / 1e6 - 1.0).abs() < 0.01, "{got:?}");
    let half = (got.high_bps as f64 / got.goodput_bps as f64).ln();
    assert!((half / (2_f64.ln() / 2_f64.sqrt()) - 1.0).abs() < 0.01, "{got:?}");
    assert_eq!(got.earlier_transfers, Some(7));
    // 5 Mb/s within a tenth: the path has changed since.
    assert_eq!(with(earlier(5.0, 1.1)), predict(&probed, Control::Cubic, None));
}

#[test]
fn a_full_link_may_be_full_of_tcp() {
    let got = predict(&path(100, 10), Control::Cubic, None);
    // Between the available bandwidth and the half that one other flow would leave, in payload.
    assert_eq!((got.low_bps, got.high_bps), (9_653_333, 48_266_667));
    assert!(got.low_bps < got.goodput_bps && got.goodput_bps < got.high_bps);
    assert!(predict(&path(100, 0), Control::Cubic, None).goodput_bps > 0);
}

/// A link of 100 Mb/s whose queue holds this many ms.
fn with_queue(ms: u64) -> PathState {
    PathState { queue: Some(Duration::from_millis(ms)), ..path(100, 100) }
}

#[test]
fn a_short_queue_leaves_the_link_idle_in_part_except_with_bbr() {
    // Payload of the whole link: 100 Mb/s x 1448/1500.
    let whole = 96_533_333.0;
    let goodput = |control, ms| predict(&with_queue(ms), control, None).goodput_bps as f64 / whole;
    // No queue: the mean of half and all of the window; of 0.7 and all of it on CUBIC's curve.
    assert!((goodput(Control::Reno, 0) - 0.75).abs() < 1e-6);
    assert!((goodput(Control::Cubic, 0) - 0.925).abs() < 1e-6);
    // A queue of a round trip (Reno), of 3/7 of one (CUBIC).
    assert!((goodput(Control::Reno, 100) - 1.0).abs() < 1e-6 && (goodput(Control::Cubic, 43) - 1.0).abs() < 1e-6);
    assert_eq!(predict(&with_queue(0), Control::Bbr, None), predict(&path(100, 100), Control::Bbr, None));
    for control in Control::ALL {
        let all: Vec<f64> = (0..=20).map(|n| goodput(control, n * 5)).collect();
        assert!(all.is_sorted(), "{control:?}: {all:?}");
    }
}

#[test]
fn beside_other_transfers_a_short_queue_can_suffice() {
    let got = predict(&with_queue(0), Control::Reno, None);
    assert_eq!((got.low_bps, got.goodput_bps, got.high_bps), (72_400_000, 72_400_000, 96_533_333));
    assert_eq!(got.bound, PredictionBound::Link);
}

#[test]
fn a_window_that_never_fills_the_queue_leaves_the_link_full() {
    // 96.5 Mb/s of payload over 100 ms are 1.21 MB, and 0.30 MB more wait in 25 ms: 1.3 MB fill the link and not the
    // queue.
    let goodput = |bytes| {
        let state = PathState { window: Some(Bytes::new(bytes)), ..with_queue(25) };
        predict(&state, Control::Reno, None).goodput_bps
    };
    assert_eq!(goodput(1_300_000), 96_533_333);
    // A window of 0.625 to 1.25 of what fills the link: (1.5625 - 0.390625) / (0.75 + 0.5625) = 0.892857.
    assert_eq!(goodput(1_600_000), 86_190_476);
}
