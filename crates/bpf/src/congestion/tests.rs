//! Comparison of the programs with their reference in crate `congestion` on equal input, packet by packet, and tests of
//! registration.

mod registration;
mod replay;
