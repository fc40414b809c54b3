//! Rate models by congestion control and policy.

use super::*;

/// The predicted rate of the direct path, with a round trip time of 40 ms and 1 % of loss, for a default of the kernel
/// and the settings.
fn predicted(default: &str, policy: PolicyName, configured: Option<&str>) -> u64 {
    let mut world = World::new(2);
    for index in 0..2 {
        let congestion_control = configured.map(str::to_owned);
        let mut settings = Settings { policy, congestion_control, ..settings(index, 2) };
        settings.fill_in(Some(default.to_owned()));
        world.hosts[index] = Host::new(settings, 5 + index as u64, world.now);
    }
    world.set(0, 1, Some(Wire { delay: Duration::from_millis(20), loss: 0.01, ..WIRE }));
    world.run(5 * SECOND);
    world.hosts[0].core.routes(number(1))[0].predicted.as_bps()
}

#[test]
fn the_kernels_default_congestion_control_is_predicted_unless_configured() {
    use PolicyName::{Default, Safire2008};
    let [cubic, bbr] = ["cubic", "bbr"].map(|name| predicted(name, Default, None));
    assert!(bbr > 10 * cubic, "{bbr} {cubic}");
    assert_eq!(predicted("bbr", Default, Some("cubic")), cubic, "the configured congestion control is ignored");
    assert_eq!(
        predicted("bbr", Safire2008, None),
        predicted("cubic", Safire2008, None),
        "the paper's policy depends on the congestion control"
    );
}

/// Times of changes of the best route to the last member since a time, seconds.
fn route_changes(world: &World, since: Instant) -> Vec<f64> {
    let is_change = |e: &Event| matches!(e, Event::Route(d) if d.destination == number(3) && d.place == 0);
    let found = world.hosts[0].events.iter().filter(|(at, e)| *at >= since && is_change(e));
    found.map(|(at, _)| at.saturating_since(since).as_secs_f64()).collect()
}

#[test]
fn the_papers_policy_reroutes_after_two_of_its_intervals() {
    // The loss is the mean of two intervals of 60 s: 0.1 on both sides one minute after the losses swap sides, and 0.15
    // and 0.05 after two minutes, whose ratio has a square root of more than 1.5.
    for (period, expected) in [(240, 1), (60, 0)] {
        let mut world = World::new(4);
        for index in 0..4 {
            let (policy, sensor) = (PolicyName::Safire2008, LossSensor::new(None, None).ok());
            world.hosts[index] = Host::new(Settings { policy, sensor, ..settings(index, 4) }, index as u64, world.now);
        }
        world.set(0, 3, None);
        world.set(1, 2, None);
        let bridges = |w: &mut World, losses: [f64; 2]| {
            for (bridge, loss) in [1, 2].into_iter().zip(losses) {
                w.set(0, bridge, Some(Wire { loss, ..WIRE }));
            }
        };
        bridges(&mut world, [0.05, 0.15]);
        let run = |w: &mut World, span: u32| {
            (0..span / 10).for_each(|_| {
                w.run(10 * SECOND);
                w.capture.clear();
            });
        };
        run(&mut world, 240);
        for losses in [[0.15, 0.05], [0.05, 0.15]] {
            let since = world.now;
            bridges(&mut world, losses);
            run(&mut world, period);
            let changes = route_changes(&world, since);
            assert_eq!(changes.len(), expected, "every {period} s: {changes:?}");
            assert!(changes.iter().all(|at| (60.0..=190.0).contains(at)), "{changes:?}");
        }
    }
}
