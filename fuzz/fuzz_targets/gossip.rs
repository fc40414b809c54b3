//! See `wire::fuzzing::gossip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::gossip(data));
