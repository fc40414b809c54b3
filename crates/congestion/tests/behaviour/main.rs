//! What FAST TCP and H-TCP do on a bottleneck, in virtual time, against the figures that their papers promise.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests are tests too")]

mod bottleneck;
mod fast;
mod htcp;
