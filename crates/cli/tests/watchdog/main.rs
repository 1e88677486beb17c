//! The process machinery of `lock run` without any lock: whatever becomes of whom, the command is gone in time.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(dead_code, unused_imports, reason = "the watchdog's side runs in the binary")]

#[path = "../../src/lock_run/mod.rs"]
mod lock_run;

mod deaths;
mod ends;
mod holder;
#[path = "../support/marked.rs"]
mod marked;
mod streams;
mod terminals;
