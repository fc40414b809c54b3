//! See `wire::fuzzing::datagram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::datagram(data));
