//! Live view of a running trace on a terminal.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use results::trace::{TraceCause, TraceFlow, TraceRecord, TraceSample};

use super::format::{absent, inner, state};
use crate::live::chart::{Curve, Plot};
use crate::live::terminal::Screen;
use crate::summary::{nanos, printable, rate};

/// Time span of the charts, in seconds.
const WINDOW_S: f64 = 60.0;
/// Averaging time of the rate of acknowledged bytes, in seconds.
const RATE_WINDOW_S: f64 = 1.0;
/// Maximum number of points of one connection in a second, the resolution of a terminal.
const POINTS_PER_S_MAX: f64 = 10.0;
/// Maximum number of connections; the longest inactive ones are dropped first.
const FLOWS_MAX: usize = 512;
/// Colours of the curves in a chart.
const CURVE_COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::LightRed, Color::LightBlue];
/// Minimum size of a terminal for charts; a smaller one shows only the table.
const CHART_WIDTH_MIN: u16 = 60;
const CHART_HEIGHT_MIN: u16 = 16;
/// Minimum width for charts side by side.
const SIDE_BY_SIDE_MIN: u16 = 110;

/// Current state of the connections.
#[derive(Debug, Default)]
pub struct TraceLiveState {
    filter: String,
    flows: BTreeMap<u32, Live>,
    now_s: f64,
    seen: u32,
    has_colour: bool,
}

#[derive(Debug)]
struct Live {
    flow: TraceFlow,
    last: Option<TraceSample>,
    has_ended: bool,
    /// Time in seconds, window, smoothed round trip in ns, acknowledged bytes.
    points: VecDeque<(f64, u32, u64, u64)>,
}

impl TraceLiveState {
    /// Creates an empty state.
    pub fn new(has_colour: bool) -> Self {
        Self { has_colour, ..Self::default() }
    }

    /// Adds a record.
    pub fn record(&mut self, record: &TraceRecord) {
        match record {
            TraceRecord::Start(start) => self.filter = printable(&start.filter),
            TraceRecord::Flow(flow) => {
                self.seen += 1;
                self.make_room();
                let live = Live { flow: flow.clone(), last: None, has_ended: false, points: VecDeque::new() };
                self.flows.insert(flow.flow, live);
            }
            TraceRecord::Sample(sample) => self.sample(sample),
            TraceRecord::End(_) => {}
        }
    }

    /// Advances the time, also without samples.
    pub fn at(&mut self, seconds: f64) {
        self.now_s = self.now_s.max(seconds);
    }

    fn sample(&mut self, sample: &TraceSample) {
        self.now_s = self.now_s.max(sample.at_s);
        let oldest = self.now_s - WINDOW_S;
        let Some(live) = self.flows.get_mut(&sample.flow) else { return };
        live.has_ended = sample.cause == TraceCause::End;
        let is_due = live.points.back().is_none_or(|p| sample.at_s - p.0 >= 1.0 / POINTS_PER_S_MAX);
        if is_due {
            live.points.push_back((sample.at_s, sample.cwnd_segments, sample.srtt_ns, sample.acked_bytes));
        }
        while live.points.front().is_some_and(|p| p.0 < oldest) {
            live.points.pop_front();
        }
        live.last = Some(sample.clone());
    }

    fn make_room(&mut self) {
        if self.flows.len() < FLOWS_MAX {
            return;
        }
        let silent = |l: &Live| l.last.as_ref().map_or(0.0, |s| s.at_s);
        let oldest = self.flows.iter().min_by(|a, b| silent(a.1).total_cmp(&silent(b.1))).map(|(number, _)| *number);
        oldest.and_then(|number| self.flows.remove(&number));
    }

    /// Connections in descending order of rate; ended and silent ones follow.
    fn order(&self) -> Vec<&Live> {
        let mut all: Vec<&Live> = self.flows.values().collect();
        all.sort_by_key(|l| (std::cmp::Reverse(l.acked_bps(self.now_s)), l.has_ended, l.flow.flow));
        all
    }
}

impl Live {
    /// Rate of acknowledged bytes over the last second, or between the last two samples if they are further apart; zero
    /// for a connection without samples for twice that time.
    fn acked_bps(&self, now_s: f64) -> u64 {
        let Some(newest) = self.points.back() else { return 0 };
        let earlier = self.points.iter().rev().skip(1);
        let oldest = earlier.clone().find(|p| newest.0 - p.0 >= RATE_WINDOW_S).or_else(|| earlier.last());
        let Some(oldest) = oldest else { return 0 };
        let span = newest.0 - oldest.0;
        let is_silent = now_s - newest.0 > 2.0 * span.max(RATE_WINDOW_S);
        if is_silent || span <= 0.0 { 0 } else { (newest.3.saturating_sub(oldest.3) as f64 * 8.0 / span) as u64 }
    }
}

/// Draws the state; pure, for any terminal.
pub fn render(frame: &mut Frame<'_>, state: &TraceLiveState) {
    let area = frame.area();
    let order = state.order();
    let has_charts = area.width >= CHART_WIDTH_MIN && area.height >= CHART_HEIGHT_MIN;
    let rows = order.len() as u16 + 1;
    let table = if has_charts { rows.min(area.height / 2) } else { area.height };
    let [head, table, charts] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(table), Constraint::Fill(1)]).areas(area);
    frame.render_widget(header(state), head);
    frame.render_widget(Paragraph::new(lines(state, &order, table)), table);
    if !has_charts {
        return;
    }
    let [window, delay] = if area.width >= SIDE_BY_SIDE_MIN {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(charts)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts)
    };
    plot(state, &order, "congestion window, packets", |p| f64::from(p.1), |v| format!("{v:.0}")).render(frame, window);
    plot(state, &order, "smoothed round trip", |p| p.2 as f64, |v| nanos(v as u64)).render(frame, delay);
}

fn header(state: &TraceLiveState) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let count = format!("  {} seen, {:.0} s  ", state.seen, state.now_s);
    Line::from(vec![
        Span::styled(format!("following {}", state.filter), bold),
        Span::raw(count),
        Span::styled("q quits", Style::new().add_modifier(Modifier::DIM)),
    ])
}

fn lines(state: &TraceLiveState, order: &[&Live], area: Rect) -> Vec<Line<'static>> {
    let title = format!(
        "{:>4} {:<21} {:<9} {:<8} {:>10} {:>7} {:>7} {:>7} {:>9} {:>9} {:>5}  inner state",
        "flow", "to", "control", "state", "acked", "cwnd", "thresh", "flight", "srtt", "min RTT", "retr"
    );
    let mut lines = vec![Line::styled(title, Style::new().add_modifier(Modifier::DIM))];
    let room = usize::from(area.height.saturating_sub(1));
    let shown = if order.len() > room { room.saturating_sub(1) } else { order.len() };
    for (number, live) in order.iter().take(shown).enumerate() {
        let style = match CURVE_COLOURS.get(number) {
            Some(colour) if state.has_colour => Style::new().fg(*colour),
            _ => Style::new(),
        };
        let style = if live.has_ended { style.add_modifier(Modifier::DIM) } else { style };
        lines.push(Line::styled(row(state, live), style));
    }
    if order.len() > shown {
        lines.push(Line::raw(format!("     and {} more", order.len() - shown)));
    }
    lines
}

fn row(now: &TraceLiveState, live: &Live) -> String {
    let (remote, control) = (printable(&live.flow.remote), printable(&live.flow.congestion_control));
    let Some(s) = &live.last else { return format!("{:>4} {remote:<21} {control:<9}", live.flow.flow) };
    let threshold = s.ssthresh_segments.map_or_else(absent, |t| t.to_string());
    format!(
        "{:>4} {remote:<21} {control:<9} {:<8} {:>10} {:>7} {threshold:>7} {:>7} {:>9} {:>9} {:>5}  {}",
        live.flow.flow,
        if live.has_ended { "ended" } else { state(s.state) },
        rate(live.acked_bps(now.now_s)),
        s.cwnd_segments,
        s.in_flight_segments,
        nanos(s.srtt_ns),
        s.min_rtt_ns.map_or_else(absent, nanos),
        s.retransmitted_segments,
        inner(s)
    )
}

fn plot(
    state: &TraceLiveState,
    order: &[&Live],
    title: &'static str,
    value: fn(&(f64, u32, u64, u64)) -> f64,
    text: fn(f64) -> String,
) -> Plot {
    let curve = |(live, colour): (&&Live, &Color)| Curve {
        name: live.flow.flow.to_string(),
        colour: *colour,
        marker: Marker::Braille,
        points: live.points.iter().map(|p| (p.0, value(p))).collect(),
    };
    let curves = order.iter().filter(|l| !l.points.is_empty()).zip(&CURVE_COLOURS).map(curve).collect();
    let end = state.now_s.max(1.0);
    Plot { title, curves, span_s: [(end - WINDOW_S).max(0.0), end], text, has_colour: state.has_colour }
}

/// The view on the terminal behind standard error, in its alternate screen.
#[derive(Debug)]
pub struct TraceView {
    screen: Screen,
    state: TraceLiveState,
}

impl TraceView {
    /// Opens the view. Colours follow `NO_COLOR` (<https://no-color.org>).
    ///
    /// # Errors
    /// Standard error is no terminal (kind `Unsupported`), or the terminal refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self { screen: Screen::take()?, state: TraceLiveState::new(Screen::has_colour()) })
    }

    /// Adds a record without drawing.
    pub fn record(&mut self, record: &TraceRecord) {
        self.state.record(record);
    }

    /// Draws the state at `seconds` since the start.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub fn draw(&mut self, seconds: f64) -> io::Result<()> {
        self.state.at(seconds);
        self.screen.draw(|frame| render(frame, &self.state))
    }

    /// Whether the user pressed `q` or Ctrl-C since the last call. Never waits.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub fn poll_quit(&self) -> io::Result<bool> {
        Screen::poll_quit()
    }

    /// Restores the terminal.
    ///
    /// # Errors
    /// Errors of the terminal, which is then in an unknown state.
    pub fn finish(self) -> io::Result<()> {
        self.screen.finish()
    }
}
