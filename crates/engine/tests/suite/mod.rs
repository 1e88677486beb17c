//! What the engine does on every store, with two nodes on it.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test")]

mod approvals;
mod batches;
mod faulty_locks;
mod feed;
mod fences;
mod leases;
mod migrations;
mod nodes;
mod retention;
mod rungs;
mod starts;
mod strategies;
pub mod support;
mod timers;
mod unknown;
