//! What changes is followed, what does not change is left alone.

use route::{Model, Policy};

use crate::net::{Bridge, Domestic, NORTH, SOUTH, seconds, via};

/// Packets a second of a flow at some ten Mb/s, and of probes on an idle path: 320 kb/s at 100 B.
const BUSY: f64 = 2000.0;
const IDLE: f64 = 400.0;

/// Both bridges, with packets where the traffic is.
fn bridges(net: &Domestic, losses: [f64; 2]) -> [Bridge; 2] {
    let of = |relay, loss| {
        let packets = if net.first() == Some(via(relay)) { BUSY } else { IDLE };
        Bridge { loss, rtt_ms: 40.0, mbps: 100.0, packets }
    };
    [of(NORTH, losses[0]), of(SOUTH, losses[1])]
}

fn run(net: &mut Domestic, until: f64, losses: [f64; 2]) {
    while net.now < until - 1e-9 {
        net.step(bridges(net, losses));
    }
}

/// The paper's schedule (figure 4): 0.05 and 0.15 change places.
#[test]
fn the_papers_change_of_loss_is_followed_within_two_seconds() {
    for model in [Model::Cubic, Model::Pftk, Model::Safire { k: 1.0 }] {
        for seed in 0..20 {
            let mut net = Domestic::new(Policy { model, ..Policy::default() }.single_path(), seed);
            let mut expected = Vec::new();
            for period in 0..5 {
                let begin = 60.0 * f64::from(period);
                let losses = if period % 2 == 0 { [0.05, 0.15] } else { [0.15, 0.05] };
                run(&mut net, begin + 60.0, losses);
                expected.push(via(if period % 2 == 0 { NORTH } else { SOUTH }));
                assert_eq!(net.first(), expected.last().copied(), "{model:?}, seed {seed}, period {period}");
            }
            let changes: Vec<_> = net.changes().into_iter().filter(|d| seconds(d.at) > 30.0).collect();
            let taken: Vec<_> = changes.iter().filter_map(|d| d.to).collect();
            assert_eq!(taken, expected[1..], "{model:?}, seed {seed}");
            for (i, change) in changes.iter().enumerate() {
                let after = seconds(change.at) - 60.0 * (i + 1) as f64;
                assert!((0.0..2.0).contains(&after), "{model:?}, seed {seed}: {after} s, {change}");
            }
        }
    }
}

/// Ten minutes on a network that does not change, with losses that are only counted.
#[test]
fn on_a_steady_network_nothing_changes() {
    for (losses, most) in
        [([0.05, 0.05], 0), ([0.001, 0.001], 0), ([0.0, 0.0], 0), ([0.01, 0.015], 1), ([0.05, 0.15], 1)]
    {
        for seed in 0..10 {
            let mut net = Domestic::new(Policy::default().single_path(), seed);
            run(&mut net, 600.0, losses);
            let changes = net.changes();
            // Where one path is the better one, a first choice from few packets may be put right.
            assert!(
                changes.len() <= most,
                "{losses:?}, seed {seed}: {:?}",
                changes.iter().map(ToString::to_string).collect::<Vec<_>>()
            );
            assert!(changes.iter().all(|d| d.to == Some(via(NORTH))), "{losses:?}, seed {seed}");
        }
    }
}

/// The margin alone does not do it: losses that are taken as they are counted change the path of the paper's rule.
#[test]
fn without_certainty_noise_changes_paths() {
    let mut flaps = 0;
    for seed in 0..10 {
        let policy = Policy { ci_scale: 0.0, confirm: units::Duration::ZERO, ..Policy::default() };
        let mut net = Domestic::new(policy.single_path(), seed);
        run(&mut net, 600.0, [0.01, 0.01]);
        flaps += net.changes().len();
    }
    assert!(flaps > 10, "{flaps}");
}
