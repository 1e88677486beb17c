//! The embedded store: one SQLite file, one process.
//!
//! One thread writes. It takes whatever waits in a bounded channel, applies it in one transaction, syncs once and then
//! answers everybody: the cost of a sync is shared by those who wait for it. Readers use a few connections of their own
//! and never stand in the writer's way (SQLite's write-ahead log, <https://www.sqlite.org/wal.html>).
//!
//! | file | what |
//! |---|---|
//! | `store` | [`SqliteStore`]: the trait, told in terms of the rest |
//! | `options` | its settings |
//! | `place` | from a path as given to the one name of the file |
//! | `lock_file` | one process per file |
//! | `connection` | opening, and every setting of SQLite with its reason |
//! | `schema` | the tables, as numbered migrations |
//! | `queue` | jobs for the writer, and the way back of their answers |
//! | `requests` | what the writer can be asked to do |
//! | `writer` | the thread that gathers jobs |
//! | `transaction` | many jobs in one transaction, each for itself |
//! | `change` | one change set: its checks and its writes |
//! | `fences` | the latest fence of each lock that was seen |
//! | `feed` | all events, in the order of their commits |
//! | `forget` | what retention takes away |
//! | `lease`, `lease_list` | leases: the law's table, and what is told of it |
//! | `backup` | the whole store as one sealed file, and back |
//! | `probe` | whether the file takes writes, as last tried |
//! | `checkpoint` | moving the log into the file |
//! | `failure` | what an error of SQLite means, and which of them end the process |
//! | `readers` | the pool of reading connections |
//! | `queries`, `list`, `rows` | what is read, and how rows become records |

mod alarms;
pub(crate) mod backup;
mod change;
mod checkpoint;
mod connection;
mod dates;
mod failure;
mod feed;
mod fences;
mod forget;
mod lease;
mod lease_list;
mod list;
mod lock_file;
mod options;
mod place;
mod probe;
mod queries;
mod queue;
mod readers;
mod requests;
mod row_locks;
mod rows;
mod schema;
mod store;
mod transaction;
mod writer;
mod writer_queue;

pub use backup::{BackupError, BackupFile, BackupSummary, restore_sqlite};
pub use options::SqliteOptions;
pub use store::SqliteStore;
