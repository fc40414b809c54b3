//! Bodies of the fuzz targets in `fuzz/`, for all input that longhaul reads from a peer, from the kernel or from a file
//! of another program.
//!
//! Inputs: any bytes. A body panics if the code under test violates a guarantee. Targets that need private items of a
//! crate have their bodies in the `fuzzing` module of that crate. `tests/corpus.rs` replays the committed corpus
//! through all bodies, unchanged and damaged.

mod files;
mod records;
mod traffic_control;

/// The body of a fuzz target.
pub type Body = fn(&[u8]);

/// All targets by the name of their corpus directory.
pub const TARGETS: [(&str, Body); 23] = [
    ("block_scanner", wire::fuzzing::block_scanner),
    ("certificate", overlay::fuzzing::certificate),
    ("control_request", overlay::fuzzing::control_request),
    ("datagram", wire::fuzzing::datagram),
    ("decision_log", records::decision_log),
    ("estimate_records", records::estimate_records),
    ("experiment", files::experiment),
    ("frames", wire::fuzzing::frames),
    ("gossip", wire::fuzzing::gossip),
    ("http", overlay::fuzzing::http),
    ("lab_records", records::lab_records),
    ("link_trace", files::link_trace),
    ("messages", wire::fuzzing::messages),
    ("netlink", kernel::fuzzing::netlink),
    ("opener", overlay::fuzzing::decapsulator),
    ("overlay", wire::fuzzing::overlay),
    ("overlay_settings", overlay::fuzzing::settings),
    ("packets", packet::fuzzing::packets),
    ("policy", files::policy),
    ("proposal", wire::fuzzing::proposal),
    ("test_records", records::test_records),
    ("thrulay_udp_report", wire::fuzzing::thrulay_udp_report),
    ("traffic_control", traffic_control::traffic_control),
];

/// Runs a target on an input.
///
/// # Panics
/// There is no such target, or the input violates a guarantee.
pub fn run(target: &str, data: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let Some((_, body)) = found else { panic!("no fuzz target is called {target}") };
    body(data);
}
