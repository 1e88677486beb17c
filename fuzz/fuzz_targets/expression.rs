//! See `lockkeeper_fuzz::expression`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| lockkeeper_fuzz::expression(text));
