//! Many members with the same choice: what one does moves the metrics of all.

use route::{Control, Load, Member, Metrics, Policy};
use units::{Duration, Rate};

use crate::draws::Draws;
use crate::load::bridge;
use crate::net::{Counter, EAST, NORTH, SOUTH, STEP, at, via};

const CROWD: u32 = 10;

/// Ten members, each with a flow to the east, over two relays that have 100 Mb/s to it. When each of them left the relay, in seconds.
fn ten_minutes(policy: &Policy) -> (Vec<f64>, [usize; 2]) {
    let members: Vec<Member> = (10..10 + CROWD).map(Member).collect();
    let mut crowd: Vec<Control> = members.iter().map(|m| Control::new(*m, policy.clone()).unwrap()).collect();
    for control in &mut crowd {
        for (member, relays) in [(NORTH, true), (SOUTH, true), (EAST, false)] {
            control.handle_member(at(0.0), member, Some(relays)).unwrap();
        }
    }
    let mut draws = Draws::new(7);
    let mut counters: [Counter; 2] = Default::default();
    let (mut changes, mut on, mut now) = (Vec::new(), [0.0_f64; 2], 0.0);
    let first = |control: &Control| control.paths(EAST).first().map(|w| w.path);
    while now < 600.0 {
        for (i, relay) in [NORTH, SOUTH].into_iter().enumerate() {
            let aim = crowd.iter().filter(|c| first(c) == Some(via(relay))).count() as f64;
            on[i] += (aim - on[i]) * STEP;
            let truth = bridge(on[i]);
            let (half, packets) = (Duration::from_secs_f64(truth.rtt_ms / 2e3), (truth.packets * STEP) as u32);
            let clean = Metrics::exact(Some(Rate::from_bps((truth.mbps * 1e6) as u64)), half, 0.0);
            let counted = counters[i].report(&mut draws, packets, truth.loss, clean);
            let carried = Rate::from_bps((95e6 / on[i].max(1.0)) as u64);
            for (member, control) in members.iter().zip(&mut crowd) {
                control.handle_link(at(now), *member, relay, Some(clean)).unwrap();
                control.handle_link(at(now), relay, EAST, Some(counted)).unwrap();
                control.handle_load(at(now), via(relay), Load { flows: 1, carried });
            }
        }
        now += STEP;
        for control in &mut crowd {
            while let Some(due) = control.poll_timeout().filter(|due| *due <= at(now)) {
                control.handle_timeout(due);
            }
            while let Some(decision) = control.poll_decision() {
                if decision.destination == EAST && decision.from.is_some() {
                    changes.push(now);
                }
            }
        }
    }
    (changes, [NORTH, SOUTH].map(|relay| crowd.iter().filter(|c| first(c) == Some(via(relay))).count()))
}

#[test]
fn members_that_are_driven_away_together_spread_and_stay() {
    let (changes, on) = ten_minutes(&Policy::default().single_path());
    let late = changes.iter().filter(|at| **at > 300.0).count();
    assert!(late <= 2, "{late} of {} changes after five minutes: {changes:?}", changes.len());
    assert!(on.iter().all(|members| *members >= 2), "{on:?}");
}

/// So that the test above means something.
#[test]
fn by_the_papers_rule_all_of_them_go_back_and_forth() {
    let (changes, _) = ten_minutes(&Policy::safire_2008());
    let late = changes.iter().filter(|at| **at > 300.0).count();
    assert!(late > 100, "{late}");
}
