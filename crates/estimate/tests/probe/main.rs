//! The probing methods over a model of a path in virtual time: the parameters of the path are the truth.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests; a failure is a panic with its place")]

mod absurd;
mod adr;
mod chirp;
mod choice;
mod coverage;
mod expected;
mod extremes;
mod fair_queue;
mod far_end;
mod few_bytes;
mod igi;
mod loss_and_order;
mod named;
mod on_off;
mod path;
mod pathload;
mod pathrate;
mod receiver;
mod spruce;
mod squeezed;
mod token_bucket;
mod two_rates;
