//! Output of `longhaul history`: tables, a small chart, a page. Input: the [`results::history::HistoryRecord`]s.

mod chart;
mod format;
mod page;
mod records;
#[cfg(test)]
mod tests;
mod text;

pub use page::write_history_html;
pub use records::HistoryReport;
pub use text::write_history;
