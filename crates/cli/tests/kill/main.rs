//! `kill -9` under load: what was acknowledged is in the history exactly once.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod command;
mod database;
mod embedded;
mod failover;
mod load;
mod memory;
mod timers;
mod verdict;
mod world;

/// Kills, unless `LOCKKEEPER_KILLS` says otherwise.
const KILLS: u64 = 30;

/// Acknowledged commands between a start and the next kill, at most.
const ACKNOWLEDGED_MAX: u64 = 250;
