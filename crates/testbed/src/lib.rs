//! Real servers for tests: each a process of its own on a free port, started here, broken here and ended here.
//!
//! For tests only, and written for them: everything blocks, and what goes wrong panics with the end of the server's
//! log, because a test could do nothing else about it. Every wait has a deadline. In an asynchronous test call it from
//! `spawn_blocking`, or where it does not matter that the thread waits.
//!
//! # How servers end
//! Dropped means gone. A test that is killed drops nothing, so beside each server stands a small `sh` whose standard
//! input is a pipe from the test's process (`guard.sh`): when that process is gone, for whatever reason, the pipe
//! closes, and the shell ends the server and removes its folder.
//!
//! # Root
//! PostgreSQL and PgBouncer refuse to run as root; for root all servers run as the user `postgres`.

mod command;
mod folder;
mod guard;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod programs;
mod proxy;
mod redis;
mod session;
mod shared;
mod standby;
mod template;
mod tls;
mod wait;

pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, StopMode};
pub use proxy::Proxy;
pub use redis::{Redis, Reply};
pub use session::Session;
pub use shared::{SHARED_SERVER, TestDatabase, shared_database};
pub use standby::Replication;
pub use template::{TEMPLATE, Template};
