//! See `lockkeeper_fuzz::decide`.

#![no_main]

libfuzzer_sys::fuzz_target!(|case: lockkeeper_fuzz::Case| lockkeeper_fuzz::decide(case));
