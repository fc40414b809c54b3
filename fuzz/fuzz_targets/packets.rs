//! See `packet::fuzzing::packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| packet::fuzzing::packets(data));
