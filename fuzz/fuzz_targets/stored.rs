//! See `lockkeeper_fuzz::stored`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lockkeeper_fuzz::stored(bytes));
