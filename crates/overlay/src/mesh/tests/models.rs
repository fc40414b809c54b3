//! Whose rate is predicted.

use super::*;

/// Rate predicted for the direct way, 40 ms and 1 % of loss, where this is the kernel's default and the settings say this.
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
    world.hosts[0].mesh.ways(number(1))[0].predicted.as_bps()
}

#[test]
fn the_kernels_default_is_predicted_where_the_settings_name_none() {
    use PolicyName::{Default, Safire2008};
    let [cubic, bbr] = ["cubic", "bbr"].map(|name| predicted(name, Default, None));
    assert!(bbr > 10 * cubic, "{bbr} {cubic}");
    assert_eq!(predicted("bbr", Default, Some("cubic")), cubic, "what they name counts");
    assert_eq!(predicted("bbr", Safire2008, None), predicted("cubic", Safire2008, None), "the paper has its formula");
}
