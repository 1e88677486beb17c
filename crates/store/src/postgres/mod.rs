//! A store in PostgreSQL, shared by any number of nodes that know nothing of each other.
//!
//! - A commit is one call of a function of the schema: one round trip, no prepared statement and no setting that
//!   outlives its transaction, so that it also works through PgBouncer in transaction mode.
//! - Change sets that arrive while others are being committed go together, in the order of their names, passing over
//!   rows that are locked; those are waited for singly.
//! - Each snapshot carries the store's life (it changes with the server's timeline or cluster), and each commit is on the condition
//!   that it is still the same: after the promotion of a standby that lagged behind, equal version numbers mean
//!   different things.
//!
//! Sources: PostgreSQL manual, "Explicit Locking" (SKIP LOCKED, row locks), "INSERT" (ON CONFLICT), "Write-Ahead Log"
//! (synchronous_commit, timelines); PgBouncer, "SQL feature map for pooling modes".

mod alarms;
mod all;
mod backup;
mod calls;
mod cancel;
mod check;
mod connect;
mod dates;
mod failure;
mod feed;
mod forget;
mod lane;
mod lanes;
mod lease;
mod list;
mod options;
mod pool;
mod queries;
mod row_lock;
mod rows;
mod schema;
mod single;
mod socket;
mod store;
mod tls;
mod turn;
mod values;

pub use options::PostgresOptions;
pub use store::PostgresStore;
