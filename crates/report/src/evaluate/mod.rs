//! Output of `longhaul evaluate`: tables as text, a page with curves.

mod page;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use page::write_evaluation_html;
pub use text::write_evaluation;
