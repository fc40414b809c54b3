//! The state machines against arithmetic, RFCs and published response functions.

mod growth;
mod invariants;
mod pipe;
mod recovery;
mod response;
mod scripts;
