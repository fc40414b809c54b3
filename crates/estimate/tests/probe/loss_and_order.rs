//! Available-bandwidth methods on paths that lose and reorder packets.

use estimate::probe::{Igi, Method, Path, PathChirp, Spruce};
use results::estimate::{Caveat, Quantity};
use units::Duration;

use crate::far_end;
use crate::path::{Cross, Hop, VirtualPath, mbps};

fn methods(path: Path) -> [Box<dyn Method>; 4] {
    [
        Box::new(Spruce::new(path, None)),
        Box::new(Spruce::new(path, Some(mbps(10.0)))),
        Box::new(Igi::new(path)),
        Box::new(PathChirp::new(path)),
    ]
}

fn idle() -> VirtualPath {
    VirtualPath::new(1, &[Hop::new(10_000_000, Cross::Idle)])
}

#[test]
fn a_dead_path_ends_soon_and_without_a_value() {
    for mut method in methods(idle().known()) {
        let mut dead = Hop::new(10_000_000, Cross::Idle);
        dead.settings.up = false;
        let mut path = VirtualPath::new(1, &[dead]);
        let outcome = path.run(&mut *method);
        assert!(outcome.interval.is_none() && outcome.quantity == Quantity::AvailableBandwidth);
        assert!(outcome.caveats.contains(&Caveat::TooFewSamples) && outcome.caveats.contains(&Caveat::Loss));
        // Three trains with a wait of 2 s each, and the time in between.
        assert!(path.elapsed() < Duration::from_secs(15), "{:?}", path.elapsed());
    }
}

#[test]
fn a_lost_packet_of_each_train_is_reported_and_the_rest_is_used() {
    for (number, mut method) in methods(idle().known()).into_iter().enumerate() {
        let mut path = idle();
        let outcome = far_end::answer(&mut *method, |number, train| {
            let mut observation = path.send(train);
            // Of every other train, because a chirp must be complete.
            observation.packets.get_mut(3).filter(|_| number % 2 == 0).into_iter().for_each(|p| p.received = None);
            observation
        });
        assert!(outcome.caveats.contains(&Caveat::Loss), "{number}: {outcome:?}");
        // Exact as without loss, except for a chirp's step of 10 %.
        let value = outcome.interval.unwrap().value;
        assert!(value > mbps(9.9) && value < mbps(11.1), "{number}: {outcome:?}");
    }
}

#[test]
fn reordered_packets_are_reported() {
    for mut method in methods(idle().known()) {
        let mut path = idle();
        let outcome = far_end::answer(&mut *method, |_, train| {
            let mut observation = path.send(train);
            let (a, b) = (observation.packets[2].received, observation.packets[3].received);
            (observation.packets[2].received, observation.packets[3].received) = (b, a);
            observation
        });
        assert!(outcome.caveats.contains(&Caveat::Reordering), "{outcome:?}");
    }
}
