//! Estimates from samples: clocks, limits, ramp-up and recovery, RFC 6349 metrics, datagram order, delay stages,
//! steadiness and fairness, confidence over repetitions, and reference models for measurements.
//!
//! Inputs: samples with their times. Outputs: values of the [`results`] vocabulary. Contract: the crate is pure (no
//! clock, sockets, threads or OS randomness), memory is bounded for any input of a peer, and no input causes a panic.
//! Implausible samples are counted and left out.

pub mod choice;
pub mod clock;
mod confidence;
mod draw;
mod episodes;
pub mod evaluation;
mod facts;
pub mod history;
pub mod limit;
pub mod model;
mod one_way;
pub mod prediction;
pub mod probe;
mod ramp;
pub mod rfc6349;
pub mod rounds;
mod samples;
mod schedule;
mod sequence;
mod signed_delay;
mod stages;
pub mod steadiness;
mod timeline;

pub use clock::{ClockEstimator, ClockModel, Exchange};
pub use confidence::{confidence, wilson};
pub use draw::draw;
pub use episodes::LossEpisodes;
pub use facts::Facts;
pub use limit::{ReceiverEvidence, RoundTrips, SenderEvidence, combine, full_link, judge};
pub use one_way::OneWayHistogram;
pub use ramp::ramp_up;
pub use samples::median;
pub use schedule::Schedule;
pub use sequence::{Arrival, SequenceTracker};
pub use signed_delay::SignedDelays;
pub use stages::{RemoteTimes, StageHistograms, Stages, StampKind};
pub use timeline::Timeline;
