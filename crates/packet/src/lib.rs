//! IP packets as the kernel hands them over: behind a virtio header, perhaps an Ethernet header, and often as super-packets of many
//! segments. Reads their layout, cuts runs of segments out of them as the kernel's own segmentation would, puts segments together
//! again, cuts packets of IPv4 into fragments, and reads and mends the few fields that a router needs: the flow, the ECN field, the maximum segment size.
//!
//! Pure: bytes in, bytes out. A packet that cannot be parsed is carried whole, as one packet. No input makes it
//! panic.

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
