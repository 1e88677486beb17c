//! What a node remembers of instances, so that a move costs one conditional write and no read. A cache is advice: the
//! write's condition is what holds.

use std::sync::Arc;

use lockkeeper_model::{Instance, InstanceKey};
use moka::sync::Cache;
use tokio::time::Instant;

use crate::memory;

/// Instances as this node last saw them committed, bounded by bytes.
pub(crate) struct InstanceCache(Cache<InstanceKey, Cached>);

#[derive(Clone)]
struct Cached {
    remembered: Remembered,
    bytes: u32,
}

/// An instance as last seen committed.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) instance: Arc<Instance>,
    /// The store's life in which it was.
    pub(crate) life: i64,
    /// When it was last known to be current.
    pub(crate) proven: Instant,
}

/// Bytes that an entry costs beyond its data: the key, the names, the votes, the cache's own bookkeeping.
const ENTRY_BYTES: usize = 1_024;

impl InstanceCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let cache = Cache::builder().max_capacity(bytes_max).weigher(|_, cached: &Cached| cached.bytes).build();
        Self(cache)
    }

    pub(crate) fn get(&self, key: &InstanceKey) -> Option<Remembered> {
        self.0.get(key).map(|cached| cached.remembered)
    }

    /// Remembers what was committed.
    pub(crate) fn put(&self, key: &InstanceKey, instance: Arc<Instance>, life: i64) {
        let bytes = u32::try_from(memory::of_instance(&instance) + ENTRY_BYTES).unwrap_or(u32::MAX);
        self.0.insert(key.clone(), Cached { remembered: Remembered { instance, life, proven: Instant::now() }, bytes });
    }

    pub(crate) fn forget(&self, key: &InstanceKey) {
        self.0.invalidate(key);
    }
}
