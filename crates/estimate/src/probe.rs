//! What a path gives, from a few packets: the probing methods as state machines without input or output.
//!
//! A [`Method`] asks for packet trains and is told how each passed. It knows neither sockets nor clocks nor who carries
//! its packets: a driver over real sockets or the model of a link in virtual time. Every method ends by itself, whatever
//! it is told: the number of trains that it may ask for is bounded when it is made.
//!
//! Sizes are IP packets, headers included, and so are all rates: what a link of that many bits a second carries of them.
//! Frames on Ethernet are 1.2 % larger at 1500 bytes, TCP payload is 3.5 % smaller.

mod adr;
mod chirp;
mod curve;
mod igi;
mod loss;
mod method;
mod outcome;
mod passage;
mod pathload;
mod pathrate;
mod spruce;
mod squeezed;
mod train;
mod two_rates;
mod unsteady;

pub use adr::Adr;
pub use chirp::{PathChirp, Reading, Segmentation, Signature};
pub use curve::{ArrivalCurve, Burst, ServiceCurve};
pub use igi::Igi;
pub use loss::RonProbes;
pub use method::{Method, Path, Step};
pub use outcome::{Interval, Outcome};
pub use passage::{Dispersion, Gap, PacketOutcome, TrainObservation};
pub use pathload::Pathload;
pub use pathrate::Pathrate;
pub use spruce::Spruce;
pub use squeezed::SqueezedPairs;
pub use train::{Departure, Train, UDP_HEADERS};
pub use two_rates::TwoRates;
