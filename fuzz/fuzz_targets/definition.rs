//! See `lockkeeper_fuzz::definition`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| lockkeeper_fuzz::definition(text));
