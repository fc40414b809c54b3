//! IP packets as the kernel passes them to a TUN device: after a virtio header and an optional Ethernet header, and
//! often as super-packets of many segments. The crate parses their layout, cuts runs of segments out of them as the
//! kernel's segmentation does, merges segments, and fragments IPv4 packets. It reads and updates the fields that a
//! router needs: flow, ECN field, maximum segment size.
//!
//! The crate is pure. A packet that cannot be parsed is carried whole, as one packet. No input causes a panic.

mod checksum;
mod clamp;
mod cut;
mod ecn;
mod flow;
mod fragment;
pub mod fuzzing;
mod merge;
mod options;
mod partial;
mod segments;
#[cfg(test)]
mod tests;
mod too_big;

pub use clamp::clamp_mss;
pub use cut::Cut;
pub use ecn::{Ecn, ecn, mark_congestion, traffic_class};
pub use flow::{Flow, destination, is_last, is_reset, source};
pub use fragment::{Fragment, Fragments};
pub use merge::{Merge, Parts, SEGMENTS_MAX};
pub use partial::{Checksum, complete_checksum};
pub use segments::{ETHERNET, Packet, Segments, Transport, VNET_HEADER};
pub use too_big::too_big;
