//! Parts of the full view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use results::{Direction, Role, StreamInterval};

use super::LiveState;
use super::chart::{Curve, Plot};
use super::history::Quantity;
use super::render::{colour, direction_colour};
use crate::pairing::Row;
use crate::summary::{
    StageQuantile, bytes, direction_name, limit_name, nanos, percent, plus_minus, rate, stage_nanos, stages,
};

/// Maximum number of streams in the table.
const STREAMS_MAX: usize = 8;

/// Minimum width for all columns and the full names of the stages.
const WIDE_MIN: u16 = 100;

/// Shade, colour and short name of each stage; the shades tell them apart without colour.
const STAGES: [(&str, Color, &str); 4] = [
    ("█", Color::LightRed, "socket"),
    ("▓", Color::Yellow, "qdisc"),
    ("▒", Color::Blue, "network"),
    ("░", Color::Green, "app"),
];

/// Current numbers, one line per direction.
pub(crate) fn numbers(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let is_wide = area.width >= WIDE_MIN;
    let title = match (state.is_udp(), is_wide) {
        (true, _) => "            goodput     lost     jitter   one-way delay, median",
        (false, true) => "            goodput   block RTT median / 95 %       srtt       cwnd  limited by",
        (false, false) => "            goodput  block RTT med. / 95 %      srtt  limited by",
    };
    let mut lines = vec![Line::styled(title, Style::new().add_modifier(Modifier::DIM))];
    for (direction, lane) in &state.lanes {
        let name =
            Span::styled(format!("{:<5}", direction_name(*direction)), colour(state, direction_colour(*direction)));
        let text = lane.current().map_or_else(String::new, |row| row_text(state, row, is_wide));
        lines.push(Line::from(vec![name, Span::raw(text)]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Rate of a row, with a mark if only the sender counted it.
pub(crate) fn rate_text(row: &Row) -> String {
    row.throughput().map_or_else(dash, |(bps, role)| {
        let mark = if role == Role::Sender { "~" } else { "" };
        format!("{mark}{}", rate(bps))
    })
}

fn dash() -> String {
    "-".to_owned()
}

fn row_text(state: &LiveState, row: &Row, is_wide: bool) -> String {
    let goodput = rate_text(row);
    if state.is_udp() {
        let (lost, jitter) =
            row.udp().map_or_else(|| (dash(), dash()), |u| (u.lost.to_string(), crate::summary::jitter(u.jitter_ns)));
        let one_way = row.one_way().map_or_else(dash, |o| plus_minus(o.p50_ns, o.bound_ns));
        return format!("{goodput:>14} {lost:>8} {jitter:>10}   {one_way}");
    }
    let (median, p95) = row.block_rtt().map_or_else(|| (dash(), dash()), |d| (nanos(d.p50_ns), nanos(d.p95_ns)));
    let srtt = row.srtt_ns().map_or_else(dash, nanos);
    let cwnd = row.cwnd_bytes().map_or_else(dash, bytes);
    let limit = limit_text(row);
    if !is_wide {
        return format!("{goodput:>14}  {median:>9} / {p95:>9} {srtt:>9}  {limit}");
    }
    format!("{goodput:>14}   {median:>10} / {p95:>9}  {srtt:>9}  {cwnd:>9}  {limit}")
}

/// Current limit, with its share of the interval.
pub(crate) fn limit_text(row: &Row) -> String {
    row.limit().map_or_else(dash, |l| format!("{} {}", limit_name(l.limit), percent(l.share)))
}

pub(crate) fn throughput_chart(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let curves = state
        .lanes
        .iter()
        .map(|(d, lane)| Curve {
            name: direction_name(*d).to_owned(),
            colour: direction_colour(*d),
            marker: direction_marker(state, *d),
            points: lane.history.series(Quantity::Throughput),
        })
        .collect();
    chart(frame, state, area, "throughput", curves, |v| rate(v as u64));
}

/// Without colour, the second direction has dots as its marker.
fn direction_marker(state: &LiveState, direction: Direction) -> Marker {
    if direction == Direction::Down && !state.has_colour && state.lanes.len() > 1 {
        Marker::Dot
    } else {
        Marker::Braille
    }
}

pub(crate) fn delay_chart(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let mut curves = Vec::new();
    let several = state.lanes.len() > 1;
    for (d, lane) in &state.lanes {
        let prefix = if several { format!("{} ", direction_name(*d)) } else { String::new() };
        let (main, name) =
            if state.is_udp() { (Quantity::OneWay, "one-way") } else { (Quantity::BlockRtt, "block RTT") };
        curves.push(Curve {
            name: format!("{prefix}{name}"),
            colour: direction_colour(*d),
            marker: direction_marker(state, *d),
            points: lane.history.series(main),
        });
        // With two directions, four curves would cover each other.
        if !several {
            curves.push(Curve {
                name: "kernel srtt".to_owned(),
                colour: Color::Green,
                marker: Marker::Dot,
                points: lane.history.series(Quantity::KernelRtt),
            });
        }
    }
    curves.retain(|c| !c.points.is_empty());
    chart(frame, state, area, "delay, median", curves, |v| nanos(v as u64));
}

fn chart(
    frame: &mut Frame<'_>,
    state: &LiveState,
    area: Rect,
    title: &'static str,
    curves: Vec<Curve>,
    text: fn(f64) -> String,
) {
    let planned_s = state.start.as_ref().and_then(|s| s.plan.duration_ns).unwrap_or(0) as f64 / 1e9;
    let span_s = [0.0, state.elapsed_s().max(planned_s).max(1.0)];
    Plot { title, curves, span_s, text, has_colour: state.has_colour }.render(frame, area);
}

/// Retransmissions per interval as bars, one line per direction.
pub(crate) fn retransmits(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    if state.is_udp() {
        return;
    }
    let lines = Layout::vertical(state.lanes.iter().map(|_| Constraint::Length(1))).split(area);
    for ((direction, lane), line) in state.lanes.iter().zip(lines.iter()) {
        let total = lane.history.retransmits_total();
        let label = format!("retransmits {:<4} {total:>7} ", direction_name(*direction));
        let [name, bars] =
            Layout::horizontal([Constraint::Length(label.len() as u16), Constraint::Fill(1)]).areas(*line);
        frame.render_widget(Paragraph::new(label), name);
        let data = lane.history.retransmits(usize::from(bars.width));
        frame.render_widget(Sparkline::default().data(data).style(colour(state, Color::Red)), bars);
    }
}

/// Whether a direction reports delays by stage.
pub(crate) fn has_decomposition(state: &LiveState) -> bool {
    state.lanes.values().filter_map(|l| l.current()).any(|r| r.decomposition().is_some())
}

/// A bar of the stages, and their names with values.
pub(crate) fn decomposition(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    let mut lines = Vec::new();
    for (direction, lane) in &state.lanes {
        let Some(d) = lane.current().and_then(Row::decomposition) else { continue };
        let medians = stage_nanos(&d, StageQuantile::Median);
        let total = medians.iter().fold(0_u64, |a, b| a.saturating_add(*b)).max(1) as f64;
        let label = format!("delay in {:<5}", direction_name(*direction));
        let width = f64::from(area.width.saturating_sub(label.len() as u16));
        let mut bar = vec![Span::raw(label)];
        let mut labels = vec![Span::raw(" ".repeat(if area.width >= WIDE_MIN { 14 } else { 9 }))];
        for ((stage, ns), (shade, hue, short)) in stages(&d).iter().zip(medians).zip(STAGES) {
            let share = ns as f64 / total;
            bar.push(Span::styled(shade.repeat((share * width).round() as usize), colour(state, hue)));
            if stage.delay.is_some() {
                labels.push(Span::styled(shade, colour(state, hue)));
                let name = if area.width >= WIDE_MIN { stage.name } else { short };
                labels.push(Span::raw(format!(" {name} {}  ", nanos(ns))));
            }
        }
        lines.extend([Line::from(bar), Line::from(labels)]);
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Number of lines of the table of streams; zero for a single stream.
pub(crate) fn stream_lines(state: &LiveState) -> u16 {
    let n = newest_streams(state).count().min(STREAMS_MAX) as u16;
    if n < 2 { 0 } else { n + 1 }
}

fn newest_streams(state: &LiveState) -> impl Iterator<Item = (&Row, &StreamInterval)> {
    let rows = state.lanes.values().filter_map(|l| l.current());
    rows.flat_map(|r| r.dating().map(|d| (r, d))).flat_map(|(r, d)| d.streams.iter().map(move |s| (r, s)))
}

/// Current numbers of each stream; the sender's record contains the socket.
pub(crate) fn streams(frame: &mut Frame<'_>, state: &LiveState, area: Rect) {
    if area.height < 2 {
        return;
    }
    let head = "stream          goodput   block RTT median       srtt       cwnd   retr  limited by";
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
    for (row, s) in newest_streams(state).take(usize::from(area.height) - 1) {
        let half = row.sender.iter().flat_map(|r| &r.streams).find(|t| t.stream == s.stream);
        let median = half.and_then(|t| t.block_rtt.as_ref()).map_or_else(dash, |d| nanos(d.p50_ns));
        let tcp = half.and_then(|t| t.tcp.as_ref());
        let srtt = tcp.map_or_else(dash, |t| nanos(t.srtt_ns));
        let cwnd = tcp.map_or_else(dash, |t| bytes(t.cwnd_bytes));
        let retransmits = half.and_then(|t| t.retransmits).map_or_else(dash, |n| n.to_string());
        let limit = half.and_then(|t| t.limit.as_ref()).map_or_else(dash, |l| limit_name(l.limit).to_owned());
        let (number, goodput) = (s.stream, rate(s.throughput_bps));
        lines.push(Line::from(format!(
            "{number:>6} {goodput:>16}   {median:>16}  {srtt:>9}  {cwnd:>9} {retransmits:>6}  {limit}"
        )));
    }
    frame.render_widget(Paragraph::new(lines), area);
}
