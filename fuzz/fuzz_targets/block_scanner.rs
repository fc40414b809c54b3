//! See `wire::fuzzing::block_scanner`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::block_scanner(data));
