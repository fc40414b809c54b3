//! Probing methods that measure a path with few packets, as state machines without input or output.
//!
//! A [`Method`] requests packet trains and receives an observation of each. It does not depend on sockets, clocks or
//! the carrier of its packets, which is a driver with real sockets or a model of a link in virtual time. Every method
//! terminates whatever it observes: the number of trains that it can request is bounded at construction.
//!
//! Sizes are those of IP packets, headers included. Rates count the same bits: the rate at which a link carries IP
//! packets. Ethernet frames are 1.2 % larger at 1500 bytes; TCP payload is 3.5 % smaller.

mod adr;
mod bounds;
mod chirp;
mod curve;
mod igi;
mod loss;
mod method;
mod name;
mod named;
mod observation;
mod outcome;
mod pathload;
mod pathrate;
mod spruce;
mod squeezed;
mod train;
mod transfer;
mod two_rates;
mod unsteady;

pub use adr::Adr;
pub use bounds::{Bounds, Run, SENDER_GAP_MIN, SETTLE_MAX, settle};
pub use chirp::{PathChirp, Reading, Segmentation, Signature};
pub use curve::{ArrivalCurve, Burst, ServiceCurve};
pub use igi::Igi;
pub use loss::RonProbes;
pub use method::{Method, Path, Step};
pub use name::{MethodName, TIME_DEFAULT, UnknownMethod, session_budget};
pub use named::{Known, NamedMethod, result};
pub use observation::{Dispersion, Gap, PacketOutcome, TrainObservation};
pub use outcome::{Interval, Outcome};
pub use pathload::Pathload;
pub use pathrate::Pathrate;
pub use spruce::Spruce;
pub use squeezed::SqueezedPairs;
pub use train::{Departure, PROBE_BYTES_MIN, Train, UDP_HEADERS};
pub use transfer::{TransferEnd, TransferLimits, no_transfer};
pub use two_rates::TwoRates;
