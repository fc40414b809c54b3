//! What limited a transfer in an interval.
//!
//! Inputs: the sender's socket before and after, what its thread did, and what is known of the receiver. Output: a verdict
//! with the numbers behind it. The kernel's clocks of busy, receive-window-limited and send-buffer-limited time
//! (`tcpi_busy_time` and its parts) come first, unless a
//! queue on the path shows that it is full; what they leave over is told apart by loss, pacing and CPU.

mod combine;
mod evidence;
mod full_path;
mod rules;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

pub use combine::combine;
pub use evidence::{ReceiverEvidence, SenderEvidence};
pub use full_path::{RoundTrips, full_link};
pub use rules::judge;
