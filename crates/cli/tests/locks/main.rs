//! Locks from outside: over HTTP, and by `lock run`.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod api;
mod codes;
mod crowd;
mod gone;
mod listed;
mod names;
mod overlap;
mod redis;
mod runner;
mod schedule;
mod server_away;
mod waiting;
