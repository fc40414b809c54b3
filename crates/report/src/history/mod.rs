//! The history of paths: tables, a small chart, a page. Input: the [`results::history::HistoryRecord`]s of `longhaul history`.

mod chart;
mod page;
mod records;
#[cfg(test)]
mod tests;
mod text;
mod words;

pub use page::write_history_html;
pub use records::HistoryReport;
pub use text::write_history;
