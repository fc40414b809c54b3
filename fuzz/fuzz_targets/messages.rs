//! See `wire::fuzzing::messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::messages(data));
