//! Settings of the embedded store.

use std::time::Duration;

use crate::StoreClock;

/// Settings of the embedded store. The defaults suit a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Commits that may wait for the writer. Beyond it a commit waits for `queue_wait`, then it is `Unavailable`.
    pub queue: usize,
    /// How long a commit waits for a place in the queue.
    pub queue_wait: Duration,
    /// How long a commit waits for its verdict once it has a place; then its fate is `Unknown`.
    pub verdict_wait: Duration,
    /// Connections for reading, opened when first needed.
    pub readers: usize,
    /// How long a read waits for its answer, queueing included; then it is `Unavailable`.
    pub read_wait: Duration,
    /// What leases expire by.
    pub clock: StoreClock,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            // Four full transactions: the writer never runs dry, and what waits is answered within a few syncs.
            queue: 1024,
            queue_wait: Duration::from_secs(5),
            // The deadline of a request: nobody waits longer.
            verdict_wait: Duration::from_secs(30),
            // Reads are short and mostly served from memory: more would only contend for the same cores.
            readers: 4,
            read_wait: Duration::from_secs(5),
            clock: StoreClock::system(),
        }
    }
}
