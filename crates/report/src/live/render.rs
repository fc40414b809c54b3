//! Draws a state into a frame of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph};
use results::Direction;

use super::{LiveState, panels, small};
use crate::end_text::completion;
use crate::summary::{client_name, direction_name, printable, seconds};

/// Minimum size for charts; a smaller view has numbers and a line of bars.
const FULL_WIDTH_MIN: u16 = 60;
const FULL_HEIGHT_MIN: u16 = 18;

/// Minimum width for two charts side by side.
const SIDE_BY_SIDE_MIN: u16 = 110;

/// Minimum height of a useful chart, in lines.
const CHART_HEIGHT_MIN: u16 = 5;

/// Draws the state of the test; pure, for any terminal.
pub fn render(frame: &mut Frame<'_>, state: &LiveState) {
    let area = frame.area();
    if area.width < FULL_WIDTH_MIN || area.height < FULL_HEIGHT_MIN {
        small::render(frame, state, area);
    } else {
        full(frame, state, area);
    }
}

fn full(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let lanes = state.lanes.len().max(1) as u16;
    let has_stages = panels::has_decomposition(state);
    let stage_lines = if has_stages { 2 * lanes } else { 0 };
    let streams = panels::stream_lines(state);
    let loss_lines = if state.is_udp() { 0 } else { lanes };
    let fixed = 2 + (1 + lanes) + loss_lines + stage_lines;
    // The table appears only if the charts keep a sufficient height.
    let streams = if area.height >= fixed + 2 * (CHART_HEIGHT_MIN + 3) + streams { streams } else { 0 };
    let [head, gauge, numbers, charts, retransmits, stages, table] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1 + lanes),
        Constraint::Min(CHART_HEIGHT_MIN),
        Constraint::Length(loss_lines),
        Constraint::Length(stage_lines),
        Constraint::Length(streams),
    ])
    .areas(area);
    frame.render_widget(header(state), head);
    progress(frame, state, gauge);
    panels::numbers(frame, state, numbers);
    let [rate, delay] = if area.width >= SIDE_BY_SIDE_MIN {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(charts)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts)
    };
    panels::throughput_chart(frame, state, rate);
    panels::delay_chart(frame, state, delay);
    panels::retransmits(frame, state, retransmits);
    panels::decomposition(frame, state, stages);
    panels::streams(frame, state, table);
}

/// Title line: ends, transport, and the key to quit.
pub(crate) fn header(state: &LiveState) -> Line<'static> {
    let Some(s) = &state.start else { return Line::from("longhaul: waiting for the test to start") };
    let name = if state.is_udp() { "UDP" } else { "TCP" };
    let directions: Vec<_> = s.plan.directions.iter().map(|d| direction_name(*d)).collect();
    let ends = format!("{} and {}", printable(client_name(s)), printable(&s.target));
    let plural = if s.plan.streams == 1 { "" } else { "s" };
    let title = format!("  {name} {}, {} stream{plural}  ", directions.join("+"), s.plan.streams);
    Line::from(vec![
        Span::styled(ends, Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(title),
        Span::styled("q quits", Style::new().add_modifier(Modifier::DIM)),
    ])
}

fn progress(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let elapsed = seconds(state.elapsed_s());
    if let Some(end) = &state.end {
        let text = format!("{elapsed}, {}", printable(&completion(&end.completion)));
        return frame.render_widget(Paragraph::new(text), area);
    }
    let Some(share) = state.progress() else {
        return frame.render_widget(Paragraph::new(elapsed), area);
    };
    let planned = state.start.as_ref().and_then(|s| s.plan.duration_ns).unwrap_or(0) as f64 / 1e9;
    let gauge = LineGauge::default()
        .ratio(share)
        .label(format!("{elapsed} of {}", seconds(planned)))
        .filled_style(colour(state, Color::Cyan))
        .filled_symbol("━")
        .unfilled_symbol("─");
    frame.render_widget(gauge, area);
}

/// A style with this colour, or without one if colours are disabled.
pub(crate) fn colour(state: &LiveState, colour: Color) -> Style {
    if state.has_colour { Style::new().fg(colour) } else { Style::new() }
}

/// The colour of a direction.
pub(crate) const fn direction_colour(direction: Direction) -> Color {
    match direction {
        Direction::Up => Color::Cyan,
        Direction::Down => Color::Yellow,
    }
}
