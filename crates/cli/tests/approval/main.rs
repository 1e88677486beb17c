//! Many people, one instance, at once.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod acts;
mod crowd;
mod doors;
mod stages;
mod stale;
mod votes;
