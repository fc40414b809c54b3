//! See `wire::fuzzing::overlay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::overlay(data));
