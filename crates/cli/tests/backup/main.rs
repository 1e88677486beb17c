//! Backups: made under load, restored into either kind of store, and equal.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod damage;
mod interrupted;
mod leases;
mod load;
mod targets;
mod watched;

/// A workflow that goes on for ever.
pub(crate) const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}, stop: stopped}}
  stopped: {type: final}
";
