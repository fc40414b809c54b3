//! See `wire::fuzzing::thrulay_udp_report`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::thrulay_udp_report(data));
