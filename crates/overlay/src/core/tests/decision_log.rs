//! A decision log replays to the same decisions.

use super::*;
use route::{Begin, Record, Replay};

/// Replays a log. Returns the numbers of equal and of different decisions.
fn replayed(begin: &str, lines: &[String]) -> (u64, u64) {
    let mut replay = Replay::new(Begin::parse(begin).unwrap()).unwrap();
    for line in lines {
        replay.handle(&serde_json::from_str(line).unwrap());
    }
    if let Some(first) = replay.first() {
        println!("{first:?}");
    }
    (replay.same(), replay.different())
}

#[test]
fn a_decision_log_holds_the_decisions_and_their_inputs() {
    let mut world = World::new(4);
    let settings = Settings { record: Some("decisions".into()), single_path: false, ..settings(0, 4) };
    world.hosts[0] = Host::new(settings, 4711, world.now);
    let begin = serde_json::to_string(&world.hosts[0].core.record_begin()).unwrap();
    world.run(3 * SECOND);
    for (loss, failed) in [(0.15, 2), (0.02, 3), (0.12, 2)] {
        world.set(0, 1, Some(Wire { loss, ..WIRE }));
        world.set(0, failed, None);
        world.flow(0, 1, 4 * SECOND);
        let now = world.now;
        let elephant = world.hosts[0].core.routes(number(1))[0].path;
        world.hosts[0].core.handle_flows(now, &[(elephant, 3)]);
        world.set(0, failed, Some(WIRE));
        world.flow(0, 1, 8 * SECOND);
    }
    world.hosts[1].core.announce_departure(world.now);
    world.process_outputs(1);
    world.hosts[1].is_dead = true;
    world.run(SECOND);

    let lines: Vec<String> =
        world.hosts[0].records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    let decisions = route_changes(&world.hosts[0]) as u64;
    assert!(decisions >= 8, "{decisions}");
    assert_eq!(replayed(&begin, &lines), (decisions, 0));
    let loads = world.hosts[0].records.iter().filter(|r| matches!(r, Record::Input(route::Event::Load { .. })));
    assert_eq!(loads.count(), 3);
    // In 36 s, five links of others at 3 records/s and six own links at ten: some thousand lines, not one for each
    // call.
    assert!(lines.len() < 8000, "{}", lines.len());
    assert!(world.hosts[1].records.is_empty(), "records without a configured decision log");
}
