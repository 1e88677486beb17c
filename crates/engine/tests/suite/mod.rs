//! What the engine does on every store, with two nodes on it.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test")]

mod batches;
mod nodes;
mod strategies;
pub mod support;
mod unknown;
