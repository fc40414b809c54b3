//! What a host's settings should be for bulk transfers over long paths, and why.
//!
//! Inputs: settings as found, the path's rate and round trip. Outputs: advice, each row with its source. Contract: the crate is
//! pure.
