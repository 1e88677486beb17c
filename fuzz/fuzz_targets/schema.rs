//! See `lockkeeper_fuzz::schema`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| lockkeeper_fuzz::schema(text));
