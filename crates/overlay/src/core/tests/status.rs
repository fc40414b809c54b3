//! What people are told of a member.

use std::collections::BTreeSet;

use super::*;
use crate::gauges::Gauges;
use crate::status::{Counted, Question, Status};
use route::flows::Active;
use serde_json::Value;

pub(super) fn status(host: &Host, gauges: Vec<Arc<Gauges>>) -> Status {
    Status::new(Arc::clone(&host.core.net.settings), Counted { gauges, ..Counted::default() }, Instant::ZERO)
}

/// All keys of an answer: those of what is in it behind a dot, behind `[]` for what a list holds.
fn keys(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(of) => {
            of.iter().for_each(|(key, v)| keys(v, format!("{path}.{key}").trim_start_matches('.'), all))
        }
        Value::Array(of) if of.iter().any(Value::is_object) => {
            of.iter().for_each(|v| keys(v, &format!("{path}[]"), all))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            all.insert(path.to_owned());
        }
    }
}

#[test]
fn the_reference_has_all_keys_of_the_status_and_no_others() {
    let mut world = World::new(3);
    world.run(30 * SECOND);
    let path = (Path::direct(number(1)), Active { flows: 1, elephants: 0 });
    let models = [route::Model::Safire { k: 1.0 }, route::Model::RATE_AWARE_2008];
    let mut told = BTreeSet::new();
    for model in models {
        let settings = Settings { model: Some(model), ..settings(0, 3) };
        let gauges = vec![Arc::new(Gauges { by_path: vec![path].into(), ..Gauges::default() })];
        let status = Status::new(Arc::new(settings), Counted { gauges, ..Counted::default() }, Instant::ZERO);
        keys(&status.answer(&Question::Status, &world.hosts[0].core, world.now), "", &mut told);
    }
    let reference = include_str!("../../../../../docs/reference/overlay.md");
    let (_, section) = reference.split_once("## The status as JSON").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let first = section.lines().filter(|l| l.starts_with("| `")).filter_map(|l| l.split('|').nth(1));
    let listed: Vec<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let each: BTreeSet<String> = listed.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(each.len(), listed.len(), "one of them stands there twice");
    assert_eq!(told, each);
    // A number has its unit beside it.
    for row in section.lines().filter(|l| l.starts_with("| `")) {
        assert!(row.split('|').nth(2).is_some_and(|unit| !unit.trim().is_empty()), "{row}");
    }
}

#[test]
fn why_calls_members_by_their_names() {
    let mut world = World::new(3);
    world.set(0, 1, Some(Wire { loss: 0.3, ..WIRE }));
    world.run(5 * SECOND);
    let host = &world.hosts[0];
    assert_eq!(host.paths(1), [format!("via {}", number(2))]);
    let status = status(host, Vec::new());
    let answer = status.answer(&Question::Why { destination: "m1".to_owned() }, &host.core, world.now);
    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("m1\n  uses via m2 for"), "{text}");
    let numbers = [number(1).to_string(), number(2).to_string()];
    assert!(numbers.iter().all(|n| !text.contains(n)), "{text}");
    let used = &answer["explanation"]["used"][0];
    assert_eq!((&used["relays"], &used["path"]["relays"]), (&Value::from(vec!["m2"]), &Value::from(vec![number(2).0])));
}

#[test]
fn flows_are_told_path_by_path() {
    let world = World::new(3);
    let over = Path::via(&[number(2)], number(1)).unwrap();
    let active = |flows, elephants| Active { flows, elephants };
    let queue = |flows: Vec<(Path, Active)>| Arc::new(Gauges { by_path: flows.into(), ..Gauges::default() });
    let gauges = vec![
        queue(vec![(over, active(2, 1)), (Path::direct(number(1)), active(7, 0))]),
        queue(vec![(over, active(1, 1))]),
    ];
    let status = status(&world.hosts[0], gauges);
    let answer = status.answer(&Question::Flows, &world.hosts[0].core, world.now);
    let second = &answer["paths"][1];
    assert_eq!(
        (&answer["paths"][0]["flows"], &second["flows"], &second["elephants"]),
        (&7.into(), &3.into(), &2.into())
    );
    assert_eq!((&second["name"], &second["relays"]), (&"m1".into(), &Value::from(vec!["m2"])));
    assert_eq!(status.elephants(), [(Path::direct(number(1)), 0), (over, 2)], "what route control is told");
}

#[test]
fn status_tells_what_probes_take_and_how_far_metrics_can_be_relied_on() {
    let mut world = World::new(2);
    world.without_gossip = true;
    let status = status(&world.hosts[0], Vec::new());
    let link = |world: &World| {
        let answer = status.answer(&Question::Status, &world.hosts[0].core, world.now);
        answer["members"][0]["link"].clone()
    };
    world.run(30 * SECOND);
    let now = link(&world);
    let bytes = |d: &(usize, usize, Vec<u8>)| (d.2.len() + 28) as f64;
    let all = world.seen.iter().filter(|(from, to, _)| (*from, *to) == (0, 1)).map(bytes).sum::<f64>();
    let all = 8.0 * all / 30.0;
    let rate_meter = now["probe_bps"].as_f64().unwrap();
    // Reports and their likes are in the other number.
    assert!(rate_meter > 0.95 * all && rate_meter < all, "{rate_meter} of {all}");
    assert!(rate_meter > 8.0 * 69.0 * 500.0, "probes alone: {rate_meter}");
    assert_eq!(now["probe_budget_bps"], 1_000_000, "1 % of 100 Mb/s");
    assert!(rate_meter < 1_000_000.0, "{rate_meter}");
    assert_eq!((now["tx_confidence"].as_f64(), now["rx_confidence"].as_f64()), (Some(1.0), Some(1.0)));
    assert!(now["tx_age_s"].as_f64().unwrap() < 0.5 && now["rx_age_s"].as_f64().unwrap() < 0.5, "{now}");
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let dark = link(&world);
    assert!(dark["tx_age_s"].as_f64().unwrap() > 2.0, "{dark}");
}

#[test]
fn a_queue_on_the_way_is_told_as_long_as_it_is() {
    let mut world = World::new(2);
    world.without_gossip = true;
    world.wires.insert((0, 1), Wire { rate: Some(5_000_000), ..WIRE });
    world.run(5 * SECOND);
    // 1300 bytes and 68 of headers are on the wire for 2.189 ms: the last of fifty waits for 49 others.
    (0..50).for_each(|_| assert!(world.send_packet(0, 1, inner(0), 1300)));
    let mut most = [0; 2];
    for _ in 0..50 {
        world.run(Duration::from_millis(10));
        for (host, most) in most.iter_mut().enumerate() {
            let view = world.hosts[host].core.link_view(number(1 - host), world.now).unwrap();
            *most = view.queueing_delay_us.unwrap().max(*most);
        }
    }
    assert!((100_000..115_000).contains(&most[0]) && most[1] < 5_000, "{most:?} us");
}

#[test]
fn what_few_frames_tell_is_relied_on_less() {
    let mut world = World::new(2);
    (world.without_gossip, world.late) = (true, Duration::ZERO);
    let status = status(&world.hosts[0], Vec::new());
    let mut told = Vec::new();
    for _ in 0..200 {
        world.run(Duration::from_millis(1));
        let answer = status.answer(&Question::Status, &world.hosts[0].core, world.now);
        told.extend(answer["members"][0]["link"]["rx_confidence"].as_f64());
    }
    let grows = told.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9);
    assert!(grows && told.iter().any(|c| (0.05..0.9).contains(c)), "{told:?}");
}

#[test]
fn what_trains_told_ages_until_the_next_one_and_frames_make_it_no_younger() {
    let mut world = World::new(2);
    // Ten packets take longer than a train must.
    world.set(0, 1, Some(Wire { rate: Some(20_000_000), ..WIRE }));
    let status = status(&world.hosts[0], Vec::new());
    let ages = |world: &World, keys: [&str; 2]| {
        let answer = status.answer(&Question::Status, &world.hosts[0].core, world.now);
        keys.map(|key| answer["members"][0]["link"][key].as_f64())
    };
    let trains = ["tx_capacity_age_s", "rx_capacity_age_s"];
    assert_eq!(ages(&world, trains), [None, None], "no train told anything");
    world.run(10 * SECOND);
    let mut told = Vec::new();
    for _ in 0..120 {
        world.run(SECOND);
        assert!(ages(&world, ["tx_age_s", "rx_age_s"]).iter().all(|age| age.unwrap() < 0.5));
        told.push(ages(&world, trains).map(Option::unwrap));
    }
    for direction in [0, 1] {
        let ages: Vec<f64> = told.iter().map(|t| t[direction]).collect();
        // Trains that agree come each 15 to 45 s.
        assert!(ages.windows(2).any(|pair| pair[0] > 5.0 && pair[1] < 1.0), "{ages:?}");
        assert!(ages.windows(2).all(|pair| pair[1] < 1.0 || (pair[1] - pair[0] - 1.0).abs() < 0.01), "{ages:?}");
    }
}

#[test]
fn the_constants_of_the_settings_are_those_that_rates_are_predicted_by() {
    let model = |alpha| Some(route::Model::RateAware { alpha, beta: 0.0 });
    let predicted = [0.0, 100.0].map(|alpha| {
        let mut world = World::new(2);
        world.hosts[0] = Host::new(Settings { model: model(alpha), ..settings(0, 2) }, 4711, world.now);
        world.set(0, 1, Some(Wire { loss: 0.1, ..WIRE }));
        world.run(20 * SECOND);
        world.hosts[0].core.routes(number(1))[0].predicted.as_bps() as f64
    });
    assert!((predicted[0] / 95e6 - 1.0).abs() < 0.01, "0.95 of what it carries: {predicted:?}");
    let ratio = predicted[0] / predicted[1];
    // Of some thousand probes: three deviations of the loss are a tenth of it.
    assert!((10.0..12.0).contains(&ratio), "1 + 100 * 0.1: {predicted:?}");
}
