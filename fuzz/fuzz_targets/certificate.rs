//! See `overlay::fuzzing::certificate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| overlay::fuzzing::certificate(data));
