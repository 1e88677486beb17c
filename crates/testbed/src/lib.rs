//! Real servers for tests: each a process of its own on a free port, started here, broken here and ended here.
//!
//! For tests only, and written for them: everything blocks, nothing returns an error that a test could not act on,
//! whatever goes wrong panics with the end of the server's log. Every wait has a deadline.
//!
//! # How servers end
//! Dropped means gone. A test that is killed drops nothing, so beside each server stands a small `sh` whose standard
//! input is a pipe from the test's process (`guard.sh`): when that process is gone, for whatever reason, the pipe
//! closes, and the shell ends the server and removes its folder.
//!
//! # Root
//! PostgreSQL and PgBouncer refuse to run as root; for root they run as the user `postgres`.

mod command;
mod folder;
mod guard;
mod port;
mod postgres;
mod process;
mod programs;
mod shared;
mod wait;

pub use postgres::{Postgres, StopMode};
pub use shared::{SHARED, TestDatabase, shared_database};
