//! The command line, as a person and as a script use it.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod budget;
mod definitions;
mod explain;
mod failures;
mod imports;
mod lists;
mod purchase;
mod purging;
mod shell;
mod stock;
mod ticket;
mod watching;

use crate::support::cli::Cli;
use crate::support::server::{Server, Store};

/// One of the examples that the README walks through.
fn example(name: &str) -> String {
    format!("{}/../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// A server with one of the examples.
fn begin(name: &str) -> (Store, Server, Cli) {
    let store = Store::new();
    let server = store.serve();
    let cli = server.cli();
    assert_eq!(cli.run(&["apply", "-f", &example(name)]).ok(), format!("{name}: version 1"));
    (store, server, cli)
}
