//! The view in sizes from minimal to large, as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use results::{Direction, Record};

use super::{LiveState, render};
use crate::fixture::{Scenario, records};

fn state(records: &[Record], has_colour: bool) -> LiveState {
    let mut state = LiveState::new(has_colour);
    records.iter().for_each(|r| state.record(r));
    state
}

fn drawn(state: &LiveState, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render(frame, state)).unwrap();
    terminal.backend().clone()
}

/// The first half of a run, as a viewer sees it.
fn halfway(scenario: &Scenario) -> Vec<Record> {
    let all = records(scenario);
    all[..all.len() * 6 / 10].to_vec()
}

#[test]
fn a_terminal_of_80_by_24() {
    insta::assert_snapshot!(drawn(&state(&halfway(&Scenario::default()), true), 80, 24));
}

#[test]
fn a_terminal_of_40_by_10() {
    insta::assert_snapshot!(drawn(&state(&halfway(&Scenario::default()), true), 40, 10));
}

#[test]
fn a_large_terminal_shows_both_directions_and_the_streams() {
    let scenario = Scenario { directions: vec![Direction::Up, Direction::Down], ..Scenario::default() };
    insta::assert_snapshot!(drawn(&state(&halfway(&scenario), true), 140, 44));
}

#[test]
fn udp_on_a_terminal_of_80_by_24() {
    let scenario = Scenario { udp: true, streams: 1, ..Scenario::default() };
    insta::assert_snapshot!(drawn(&state(&halfway(&scenario), true), 80, 24));
}

#[test]
fn every_size_and_every_state_can_be_drawn() {
    let scenario = Scenario { directions: vec![Direction::Up, Direction::Down], intervals: 5, ..Scenario::default() };
    let all = records(&scenario);
    let known = [&all[..0], &all[..1], &all[..2], &all[1..4], &all[..]];
    for records in known {
        let state = state(records, true);
        for width in [1, 2, 7, 39, 59, 60, 80, 109, 110, 300] {
            for height in [1, 2, 5, 10, 17, 18, 24, 33, 60, 120] {
                drawn(&state, width, height);
            }
        }
    }
}

#[test]
fn without_colour_every_cell_is_plain() {
    let backend = drawn(&state(&halfway(&Scenario::default()), false), 120, 40);
    assert!(backend.buffer().content().iter().all(|c| c.fg == Color::Reset && c.bg == Color::Reset));
    let backend = drawn(&state(&halfway(&Scenario::default()), true), 120, 40);
    assert!(backend.buffer().content().iter().any(|c| c.fg != Color::Reset));
}

#[test]
fn odd_numbers_and_hostile_names_are_harmless() {
    let mut all = records(&Scenario { intervals: 4, ..Scenario::default() });
    for r in &mut all {
        match r {
            Record::Start(s) => s.target = "evil\x1b[2J\u{202e}".to_owned(),
            Record::Interval(i) => {
                i.end_s = f64::NAN;
                i.index = i.index.wrapping_mul(u64::MAX / 3);
                i.throughput_bps = u64::MAX;
            }
            Record::End(_) => {}
        }
    }
    for (width, height) in [(40, 10), (80, 24), (140, 44)] {
        let text = drawn(&state(&all, true), width, height).to_string();
        assert!(!text.contains('\x1b') && text.contains("evil?"), "{text}");
    }
}
