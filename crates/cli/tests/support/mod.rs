//! The binary, used from outside: servers in processes of their own, HTTP, the command line.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod cli;
pub(crate) mod history;
pub(crate) mod marked;
pub(crate) mod program;
pub(crate) mod raw;
pub(crate) mod seed;
pub(crate) mod server;
pub(crate) mod world;
