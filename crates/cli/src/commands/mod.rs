//! What the client's commands do: one file each.

pub(crate) mod act;
pub(crate) mod apply;
pub(crate) mod approval;
pub(crate) mod backup;
pub(crate) mod close;
pub(crate) mod completion;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod migrate;
pub(crate) mod purge;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod token;
pub(crate) mod watch;

mod commits;
mod explanation;
mod field;
mod history_table;
mod paging;
mod sender;
mod success;
mod token_store;
mod watch_all;

use crate::client::Client;
use crate::output::Output;

/// What a client's command works with.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The way to the server.
    pub client: Client,
    /// Where results go.
    pub output: &'a Output,
}
