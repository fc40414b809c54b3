//! Classification of the factor that limited a transfer in an interval.
//!
//! Inputs are the sender's socket before and after, the activity of its thread, and the known state of the receiver.
//! The output is a verdict with its evidence. The kernel's clocks of busy, receive-window-limited and
//! send-buffer-limited time (`tcpi_busy_time` and its parts) take precedence, unless a queue on the path shows that it
//! is full. Loss, pacing and CPU classify the remaining time.

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
