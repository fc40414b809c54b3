//! Output of `longhaul trace`: lines, comma-separated values, a view on the terminal, a page.

mod csv;
mod flow;
mod format;
mod live;
mod page;
#[cfg(test)]
mod tests;
mod text;

pub use csv::TraceCsv;
pub use flow::TraceReport;
pub use live::{TraceLiveState, TraceView, render as render_trace};
pub use page::write_trace_html;
pub use text::{TraceText, write_trace_summary};
