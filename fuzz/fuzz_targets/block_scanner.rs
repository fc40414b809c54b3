//! See `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::run("block_scanner", data));
