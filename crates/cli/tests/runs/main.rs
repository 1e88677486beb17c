//! Runs of an id: which start begins one, and how a run is moved to another version of its definition. Over HTTP and by the
//! command line, with one node on SQLite and with two on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod migrations;
mod requests;
mod table;

/// A run that can end in every way.
const CASE: &str = "
workflow: case
initial: open
states:
  open: {on: {finish: done, fail: broken, note: {}}}
  done: {type: final}
  broken: {type: final, status: failed}
";
