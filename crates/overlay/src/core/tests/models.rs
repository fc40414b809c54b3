//! Whose rate is predicted.

use super::*;

/// Rate predicted for the direct way, 40 ms and 1 % of loss, where this is the kernel's default and the settings say
/// this.
fn predicted(default: &str, policy: PolicyName, named: Option<&str>) -> u64 {
    let mut world = World::new(2);
    for index in 0..2 {
        let congestion_control = named.map(str::to_owned);
        let mut settings = Settings { policy, congestion_control, ..settings(index, 2) };
        settings.fill_in(Some(default.to_owned()));
        world.hosts[index] = Host::new(settings, 5 + index as u64, world.now);
    }
    world.set(0, 1, Some(Wire { delay: Duration::from_millis(20), loss: 0.01, ..WIRE }));
    world.run(5 * SECOND);
    world.hosts[0].core.routes(number(1))[0].predicted.as_bps()
}

#[test]
fn the_kernels_default_is_predicted_where_the_settings_name_none() {
    use PolicyName::{Default, Safire2008};
    let [cubic, bbr] = ["cubic", "bbr"].map(|name| predicted(name, Default, None));
    assert!(bbr > 10 * cubic, "{bbr} {cubic}");
    assert_eq!(predicted("bbr", Default, Some("cubic")), cubic, "what they name counts");
    assert_eq!(predicted("bbr", Safire2008, None), predicted("cubic", Safire2008, None), "the paper has its formula");
}

/// After how many seconds the first way to the last member was changed, since then, where losses over both bridges
/// change sides.
fn changes_of(world: &World, since: Instant) -> Vec<f64> {
    let is_change = |e: &Event| matches!(e, Event::Route(d) if d.destination == number(3) && d.place == 0);
    let found = world.hosts[0].events.iter().filter(|(at, e)| *at >= since && is_change(e));
    found.map(|(at, _)| at.saturating_since(since).as_secs_f64()).collect()
}

#[test]
fn the_papers_policy_follows_two_of_its_intervals_later_and_not_before() {
    // Losses are the mean of two intervals of 60 s: 0.1 on both sides a minute after they change sides, and after two
    // minutes 0.15 and 0.05, the root of whose ratio is more than 1.5.
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
                w.seen.clear();
            });
        };
        run(&mut world, 240);
        for losses in [[0.15, 0.05], [0.05, 0.15]] {
            let since = world.now;
            bridges(&mut world, losses);
            run(&mut world, period);
            let changes = changes_of(&world, since);
            assert_eq!(changes.len(), expected, "each {period} s: {changes:?}");
            assert!(changes.iter().all(|at| (60.0..=190.0).contains(at)), "{changes:?}");
        }
    }
}
