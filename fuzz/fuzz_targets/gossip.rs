//! See `overlay::fuzzing::gossip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| overlay::fuzzing::gossip(data));
