//! What the engine tells of each try to commit a batch.

use std::time::Duration;

/// One try to commit a batch of one key, on either rung. However many commands it carries, it is one try: commands that
/// meet on their node are not contention.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Try {
    /// Another node was in the way: the conditional write was lost, or the wait for the row lock was longer than a
    /// round trip and 1 ms, or the wait for the lease longer than it takes.
    pub(crate) contended: bool,
    /// It was the last try that a command of the batch had. Counts as contended.
    pub(crate) exhausted: bool,
    /// It could be done under a lease: its definition names a lock, and there is a lock service.
    pub(crate) may_lease: bool,
    /// How long the row lock, or the lease, was waited for; none where none was taken.
    pub(crate) lock_wait: Option<Duration>,
    /// How long the batch's oldest command had waited on this node.
    pub(crate) queue_wait: Duration,
    /// From sending the commit to its answer.
    pub(crate) round_trip: Duration,
    /// Commands of the batch.
    pub(crate) commands: u32,
}
