//! What a lock's holder writes with its changes, so that whoever held the lock before cannot write any more.

use std::sync::Arc;

/// A fencing token: the number under which a resource's lock was granted. Each grant's is above all before it.
///
/// Source: M. Kleppmann, "How to do distributed locking" (2016): a lock's holder cannot know that it still is one, but
/// what it writes to can know that there has been a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock's name: 1 to 512 bytes.
    pub resource: Arc<str>,
    /// The token: 1 to [`crate::limits::FENCE_MAX`].
    pub fence: i64,
}

impl Fence {
    /// A fence of a resource.
    pub fn new(resource: &str, fence: i64) -> Self {
        Self { resource: resource.into(), fence }
    }
}
