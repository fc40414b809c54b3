//! Output of `longhaul estimate`: tables as text, and a page with histograms of squeezed pairs.

mod gaps;
mod page;
#[cfg(test)]
mod tests;
mod text;

pub use page::write_estimate_html;
pub use text::EstimateText;
