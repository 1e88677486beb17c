//! See `lockkeeper_fuzz::import`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| lockkeeper_fuzz::import(text));
