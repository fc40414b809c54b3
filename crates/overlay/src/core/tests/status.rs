//! Answers of the status interface.

use std::collections::BTreeSet;

use super::*;
use crate::gauges::Gauges;
use crate::status::{Question, Statistics, Status};
use route::flows::Active;
use serde_json::Value;

pub(super) fn status(host: &Host, gauges: Vec<Arc<Gauges>>) -> Status {
    Status::new(Arc::clone(&host.core.net.settings), Statistics { gauges, ..Statistics::default() }, Instant::ZERO)
}

/// Collects all keys of an answer: nested keys follow a dot, keys of list elements `[]`.
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
fn the_reference_lists_exactly_the_keys_of_the_status() {
    let mut world = World::new(3);
    world.run(30 * SECOND);
    let path = (Path::direct(number(1)), Active { flows: 1, elephants: 0 });
    let models = [route::Model::Safire { k: 1.0 }, route::Model::RATE_AWARE_2008];
    let mut reported = BTreeSet::new();
    for model in models {
        let settings = Settings { model: Some(model), ..settings(0, 3) };
        let gauges = vec![Arc::new(Gauges { by_path: vec![path].into(), ..Gauges::default() })];
        let status = Status::new(Arc::new(settings), Statistics { gauges, ..Statistics::default() }, Instant::ZERO);
        keys(&status.answer(&Question::Status, &world.hosts[0].core, world.now), "", &mut reported);
    }
    let reference = include_str!("../../../../../docs/reference/overlay.md");
    let (_, section) = reference.split_once("## The status as JSON").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let first = section.lines().filter(|l| l.starts_with("| `")).filter_map(|l| l.split('|').nth(1));
    let listed: Vec<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let each: BTreeSet<String> = listed.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(each.len(), listed.len(), "a key is listed twice");
    assert_eq!(reported, each);
    // Each row has a unit.
    for row in section.lines().filter(|l| l.starts_with("| `")) {
        assert!(row.split('|').nth(2).is_some_and(|unit| !unit.trim().is_empty()), "{row}");
    }
}

#[test]
fn explanations_use_member_names() {
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
fn flows_are_reported_by_path() {
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
    assert_eq!(status.elephants(), [(Path::direct(number(1)), 0), (over, 2)], "the input of route control");
}

#[test]
fn the_status_reports_the_probe_rate_and_the_confidence_of_metrics() {
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
    let all = world.capture.iter().filter(|(from, to, _)| (*from, *to) == (0, 1)).map(bytes).sum::<f64>();
    let all = 8.0 * all / 30.0;
    let probe_bps = now["probe_bps"].as_f64().unwrap();
    // Reports and other control traffic are not included.
    assert!(probe_bps > 0.95 * all && probe_bps < all, "{probe_bps} of {all}");
    assert!(probe_bps > 8.0 * 69.0 * 500.0, "probes alone: {probe_bps}");
    assert_eq!(now["probe_budget_bps"], 1_000_000, "1 % of 100 Mb/s");
    assert!(probe_bps < 1_000_000.0, "{probe_bps}");
    assert_eq!((now["tx_confidence"].as_f64(), now["rx_confidence"].as_f64()), (Some(1.0), Some(1.0)));
    assert!(now["tx_age_s"].as_f64().unwrap() < 0.5 && now["rx_age_s"].as_f64().unwrap() < 0.5, "{now}");
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let failed = link(&world);
    assert!(failed["tx_age_s"].as_f64().unwrap() > 2.0, "{failed}");
}

#[test]
fn the_queueing_delay_is_reported() {
    let mut world = World::new(2);
    world.without_gossip = true;
    world.wires.insert((0, 1), Wire { rate: Some(5_000_000), ..WIRE });
    world.run(5 * SECOND);
    // 1300 bytes and 68 of headers take 2.189 ms to transmit: the last of fifty packets waits for 49 others.
    (0..50).for_each(|_| assert!(world.send_packet(0, 1, inner(0), 1300)));
    let mut max = [0; 2];
    for _ in 0..50 {
        world.run(Duration::from_millis(10));
        for (host, max) in max.iter_mut().enumerate() {
            let view = world.hosts[host].core.link_view(number(1 - host), world.now).unwrap();
            *max = view.queueing_delay_us.unwrap().max(*max);
        }
    }
    assert!((100_000..115_000).contains(&max[0]) && max[1] < 5_000, "{max:?} us");
}

#[test]
fn the_confidence_grows_with_the_number_of_frames() {
    let mut world = World::new(2);
    (world.without_gossip, world.timer_delay) = (true, Duration::ZERO);
    let status = status(&world.hosts[0], Vec::new());
    let mut samples = Vec::new();
    for _ in 0..200 {
        world.run(Duration::from_millis(1));
        let answer = status.answer(&Question::Status, &world.hosts[0].core, world.now);
        samples.extend(answer["members"][0]["link"]["rx_confidence"].as_f64());
    }
    let grows = samples.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9);
    assert!(grows && samples.iter().any(|c| (0.05..0.9).contains(c)), "{samples:?}");
}

#[test]
fn the_age_of_a_capacity_is_that_of_its_packet_train() {
    let mut world = World::new(2);
    // Ten packets take longer than the minimum duration of a packet train.
    world.set(0, 1, Some(Wire { rate: Some(20_000_000), ..WIRE }));
    let status = status(&world.hosts[0], Vec::new());
    let ages = |world: &World, keys: [&str; 2]| {
        let answer = status.answer(&Question::Status, &world.hosts[0].core, world.now);
        keys.map(|key| answer["members"][0]["link"][key].as_f64())
    };
    let trains = ["tx_capacity_age_s", "rx_capacity_age_s"];
    assert_eq!(ages(&world, trains), [None, None], "an age before the first packet train");
    world.run(10 * SECOND);
    let mut samples = Vec::new();
    for _ in 0..120 {
        world.run(SECOND);
        assert!(ages(&world, ["tx_age_s", "rx_age_s"]).iter().all(|age| age.unwrap() < 0.5));
        samples.push(ages(&world, trains).map(Option::unwrap));
    }
    for direction in [0, 1] {
        let ages: Vec<f64> = samples.iter().map(|t| t[direction]).collect();
        // Packet trains that agree follow every 15 to 45 s.
        assert!(ages.windows(2).any(|pair| pair[0] > 5.0 && pair[1] < 1.0), "{ages:?}");
        assert!(ages.windows(2).all(|pair| pair[1] < 1.0 || (pair[1] - pair[0] - 1.0).abs() < 0.01), "{ages:?}");
    }
}

#[test]
fn rates_are_predicted_with_the_configured_model_constants() {
    let model = |alpha| Some(route::Model::RateAware { alpha, beta: 0.0 });
    let predicted = [0.0, 100.0].map(|alpha| {
        let mut world = World::new(2);
        world.hosts[0] = Host::new(Settings { model: model(alpha), ..settings(0, 2) }, 4711, world.now);
        world.set(0, 1, Some(Wire { loss: 0.1, ..WIRE }));
        world.run(20 * SECOND);
        world.hosts[0].core.routes(number(1))[0].predicted.as_bps() as f64
    });
    assert!((predicted[0] / 95e6 - 1.0).abs() < 0.01, "0.95 of the capacity: {predicted:?}");
    let ratio = predicted[0] / predicted[1];
    // With some thousand probes, three standard deviations of the loss are a tenth of it.
    assert!((10.0..12.0).contains(&ratio), "1 + 100 * 0.1: {predicted:?}");
}
