//! Quantities as types: [`Rate`], [`Bytes`], [`Instant`], and the text that people write for them.
//!
//! Inputs: integers and strings. Outputs: typed values and their printed form. The crate is pure: no clock, no I/O.
//! SI prefixes are powers of ten everywhere; binary prefixes count only when spelled (`KiB`, `MiB`, `GiB`).

mod bytes;
mod instant;
mod parse;
mod rate;
mod text;

pub use bytes::Bytes;
pub use core::time::Duration;
pub use instant::{Instant, nanos};
pub use parse::{ParseQuantityError, parse_duration, parse_seconds};
pub use rate::Rate;
pub use text::is_deceptive;
