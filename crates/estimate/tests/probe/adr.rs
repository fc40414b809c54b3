use estimate::probe::Adr;
use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use crate::path::{Cross, Hop, VirtualPath, error};

#[test]
fn trains_of_a_fast_sender_arrive_at_the_capacity_with_any_load() {
    for cross in [Cross::Idle, Cross::Constant(Rate::from_bps(50_000_000))] {
        let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, cross)]);
        let mut method = Adr::full(path.known());
        let outcome = path.run(&mut method);
        assert_eq!(outcome.quantity, Quantity::AsymptoticDispersion);
        // A train of 3.4 ms on the link meets a fraction of a packet of cross traffic per own packet. At 50 Mb/s the
        // sender of 10 Gb/s needs 36 us for the train, in which 225 bytes arrive.
        let value = outcome.interval.unwrap().value;
        assert!(error(value, 100_000_000).abs() < 0.02, "{cross:?}: {value}");
        assert_eq!((path.packets, path.bytes), (60, 60 * 1428), "83 kB, as in the thesis");
    }
}

#[test]
fn a_sender_of_the_links_own_rate_sees_the_load() {
    // Host interface 100 Mb/s, narrow link 100 Mb/s with 50 Mb/s on it: in a fluid, C Ri/(Ri + lambda) = 66.7 Mb/s.
    let half = Cross::Constant(Rate::from_bps(50_000_000));
    let mut path = VirtualPath::new(1, &[Hop::new(100_000_000, Cross::Idle), Hop::new(100_000_000, half)]);
    let outcome = path.run(&mut Adr::full(path.known()));
    // Gaps are 114 us, or longer by a whole packet of 120 us; without two at each end the mean of 25 is 2 % off.
    let value = outcome.interval.unwrap().value;
    assert!(error(value, 66_700_000).abs() < 0.05, "{value}");
}

#[test]
fn the_short_form_sends_half_as_much() {
    let mut path = VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)]);
    let outcome = path.run(&mut Adr::short(path.known()));
    assert!(error(outcome.interval.unwrap().value, 10_000_000).abs() < 0.001);
    assert_eq!(path.bytes, 2 * 15 * 1428, "the 41 kB of the thesis");
}

#[test]
fn a_path_that_loses_everything_gives_no_value() {
    let mut dead = Hop::new(10_000_000, Cross::Idle);
    dead.settings.up = false;
    let mut path = VirtualPath::new(1, &[dead]);
    let outcome = path.run(&mut Adr::full(path.known()));
    assert!(outcome.interval.is_none());
    assert!(outcome.caveats.contains(&Caveat::TooFewSamples) && outcome.caveats.contains(&Caveat::Loss));
    assert!(path.elapsed() < Duration::from_secs(10));
}
