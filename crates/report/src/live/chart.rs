//! Curves over time in the cells of a terminal.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

/// One line of a chart.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) colour: Color,
    pub(crate) marker: Marker,
    /// Points: time in seconds and value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart with its heading, which names the curves.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) curves: Vec<Curve>,
    /// First and last second shown.
    pub(crate) span_s: [f64; 2],
    /// Formats a value.
    pub(crate) text: fn(f64) -> String,
    pub(crate) has_colour: bool,
}

impl Plot {
    pub(crate) fn render(&self, frame: &mut Frame<'_>, area: Rect) {
        let style = |c: Color| if self.has_colour { Style::new().fg(c) } else { Style::new() };
        let seen = self.curves.iter().flat_map(|c| &c.points).filter(|p| p.0 >= self.span_s[0]);
        let top = round_up(seen.map(|p| p.1).fold(0.0, f64::max));
        let mut heading = vec![Span::styled(self.title, Style::new().add_modifier(Modifier::BOLD))];
        for c in &self.curves {
            let sample = if c.marker == Marker::Braille { "⣀⣀" } else { "••" };
            heading.push(Span::styled(format!("  {sample} {}", c.name), style(c.colour)));
        }
        let dataset = |c| {
            let Curve { marker, colour, points, .. }: &Curve = c;
            Dataset::default().marker(*marker).graph_type(GraphType::Line).style(style(*colour)).data(points)
        };
        let [start, end] = self.span_s;
        let y_labels = if area.height > 8 { vec![0.0, top / 2.0, top] } else { vec![0.0, top] };
        let x = Axis::default().bounds(self.span_s).labels([format!("{start:.0}"), format!("{end:.0} s")]);
        let y = Axis::default().bounds([0.0, top]).labels(y_labels.into_iter().map(self.text).collect::<Vec<_>>());
        let chart = Chart::new(self.curves.iter().map(dataset).collect())
            .block(Block::new().title(Line::from(heading)))
            .legend_position(None)
            .x_axis(x)
            .y_axis(y);
        frame.render_widget(chart, area);
    }
}

/// Next larger round number, so that the axis is readable and does not change with every frame.
fn round_up(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let magnitude = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|s| s * magnitude).find(|s| *s >= value).unwrap_or(value)
}
