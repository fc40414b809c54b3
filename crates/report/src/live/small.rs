//! The view for terminals without room for charts: lines in descending importance, as far as the height allows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::LiveState;
use super::history::Quantity;
use super::panels::{limit_text, rate_text};
use super::render::{colour, direction_colour, header};
use crate::summary::{direction_name, largest_stage, nanos, percent, plus_minus, seconds};

pub(crate) fn render(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let mut lines = vec![header(state), Line::from(clock(state))];
    for (direction, lane) in &state.lanes {
        let Some(row) = lane.current() else { continue };
        let name =
            Span::styled(format!("{:<5}", direction_name(*direction)), colour(state, direction_colour(*direction)));
        lines.push(Line::from(vec![name, Span::raw(rate_text(row))]));
        if let Some(d) = row.block_rtt() {
            lines.push(Line::from(format!("  RTT {}, 95 % {}", nanos(d.p50_ns), nanos(d.p95_ns))));
        }
        if row.limit().is_some() {
            lines.push(Line::from(format!("  by {}", limit_text(row))));
        }
        if let Some((stage, ns, share)) = row.decomposition().as_ref().and_then(largest_stage) {
            lines.push(Line::from(format!("  in {stage} {} ({})", nanos(ns), percent(share))));
        }
        if let Some(u) = row.udp() {
            lines.push(Line::from(format!("  lost {}, jitter {}", u.lost, crate::summary::jitter(u.jitter_ns))));
            let one_way = row.one_way().map_or_else(|| "-".to_owned(), |o| plus_minus(o.p50_ns, o.bound_ns));
            lines.push(Line::from(format!("  one-way {one_way}")));
        }
    }
    let used = (lines.len() as u16).min(area.height);
    frame.render_widget(Paragraph::new(lines), area);
    sparklines(frame, state, Rect { y: area.y + used, height: area.height - used, ..area });
}

fn clock(state: &LiveState) -> String {
    let elapsed = seconds(state.elapsed_s());
    state.progress().map_or_else(|| elapsed.clone(), |share| format!("{elapsed}, {} done", percent(share)))
}

/// The last rates of each direction, if lines are left.
fn sparklines(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    for (i, (direction, lane)) in state.lanes.iter().enumerate().take(usize::from(area.height)) {
        let all = lane.history.series(Quantity::Throughput);
        let last = &all[all.len().saturating_sub(usize::from(area.width))..];
        let data: Vec<u64> = last.iter().map(|p| p.1.max(0.0) as u64).collect();
        let line = Rect { y: area.y + i as u16, height: 1, ..area };
        frame.render_widget(Sparkline::default().data(data).style(colour(state, direction_colour(*direction))), line);
    }
}
