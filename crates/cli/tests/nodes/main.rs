//! Several nodes on one PostgreSQL database: what one does, the others know.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod contention;
mod definitions;
mod locked_rows;
mod news;
