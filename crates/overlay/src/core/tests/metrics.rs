//! The metrics for a monitoring system.

use std::collections::BTreeSet;

use super::*;
use crate::http;
use crate::status::{Question, Statistics, Status};

const PREFIX: &str = "longhaul_overlay_";

/// The metrics of a member with two peers after some seconds.
fn metrics() -> String {
    let mut world = World::new(3);
    world.run(5 * SECOND);
    let core = &world.hosts[0].core;
    let settings = settings(0, 3);
    settings.members.change(|all| all.values_mut().for_each(|m| m.name.push_str("\"\\\n")));
    let status = Status::new(Arc::new(settings), Statistics::default(), world.now);
    http::metrics(&status.answer(&Question::Status, core, world.now))
}

#[test]
fn the_reference_lists_exactly_the_metrics() {
    let text = metrics();
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.strip_prefix(PREFIX)?.split_whitespace().next());
    let exported: BTreeSet<&str> = types.collect();
    let reference = include_str!("../../../../../docs/reference/overlay.md");
    let (_, section) = reference.split_once("## Metrics").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let first = section.lines().filter(|l| l.starts_with("| `")).filter_map(|l| l.split('|').nth(1));
    let listed: BTreeSet<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(exported, listed);
}

#[test]
fn age_and_confidence_are_reported_for_each_direction() {
    let text = metrics();
    let value = |name: &str| -> f64 {
        let of = format!("{PREFIX}link_{name}{{member=\"m1");
        text.lines().find(|l| l.starts_with(&of)).unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for direction in ["tx", "rx"] {
        assert!(value(&format!("{direction}_age_seconds")) < 0.5, "{text}");
        assert!((value(&format!("{direction}_confidence_ratio")) - 1.0).abs() < 1e-9, "{text}");
    }
}

#[test]
fn link_metrics_are_in_base_units_and_per_direction() {
    let mut world = World::new(2);
    world.wires.insert((1, 0), Wire { loss: 0.15, ..WIRE });
    world.run(20 * SECOND);
    let status = Status::new(Arc::new(settings(0, 2)), Statistics::default(), world.now);
    let text = http::metrics(&status.answer(&Question::Status, &world.hosts[0].core, world.now));
    let value = |name: &str| -> f64 {
        let of = format!("{PREFIX}link_{name}{{member=\"m1");
        text.lines().find(|l| l.starts_with(&of)).unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    // The propagation delay of 10 ms in each direction.
    assert!((value("rtt_seconds") - 0.02).abs() < 1e-4, "{text}");
    assert!(value("tx_loss_ratio") < 0.001 && (value("rx_loss_ratio") - 0.15).abs() < 0.02, "{text}");
}

/// Checks the rules of the Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/.
#[test]
fn metrics_conform_to_the_text_format() {
    let text = metrics();
    assert!(text.ends_with('\n'));
    let (mut helped, mut typed, mut series) = (BTreeSet::new(), None, BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name) && help.len() > 5, "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name) && name.starts_with(PREFIX), "{line}");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed = Some(name);
        } else {
            let (of, value) = line.rsplit_once(' ').unwrap();
            let name = of.split('{').next().unwrap();
            assert_eq!(Some(name), typed, "a sample without its type before it: {line}");
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
            assert!(series.insert(of), "{line}");
        }
    }
    // A member's name may contain any character.
    let up = format!("{PREFIX}link_up{{member=\"m1\\\"\\\\\\n\"}} 1\n");
    assert!(text.contains(&up), "{up} in {text}");
}
