//! The feed of events from outside: nothing is left out and nothing comes twice, whatever happens to servers and streams.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod ends;
mod follower;
mod kills;
mod streams;
mod watches;

/// A workflow that goes on for ever.
pub(crate) const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}, stop: stopped}}
  stopped: {type: final}
";
