//! Behaviour of FAST TCP and H-TCP at a bottleneck in virtual time, compared with the figures in their papers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests are tests too")]

mod bottleneck;
mod fast;
mod htcp;
