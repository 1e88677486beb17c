//! What a node remembers of instances, so that a move costs one conditional write and no read. A cache is advice: the
//! write's condition is what holds.

use std::sync::Arc;

use lockkeeper_model::{Instance, InstanceKey};
use moka::sync::Cache;

/// Instances as this node last saw them committed, bounded by bytes.
pub(crate) struct InstanceCache(Cache<InstanceKey, Cached>);

#[derive(Clone)]
struct Cached {
    instance: Arc<Instance>,
    bytes: u32,
}

/// Bytes that an entry costs beyond its body: the key, the parsed structure, the cache's own bookkeeping.
const ENTRY_BYTES: usize = 512;

/// How much more a parsed JSON value takes than its text, roughly; measured on objects of short strings and numbers.
const PARSED_FACTOR: usize = 3;

impl InstanceCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let cache = Cache::builder().max_capacity(bytes_max).weigher(|_, cached: &Cached| cached.bytes).build();
        Self(cache)
    }

    pub(crate) fn get(&self, key: &InstanceKey) -> Option<Arc<Instance>> {
        self.0.get(key).map(|cached| cached.instance)
    }

    /// Remembers what was committed. `body_bytes` is the size of the record's body.
    pub(crate) fn put(&self, key: &InstanceKey, instance: Arc<Instance>, body_bytes: usize) {
        let bytes = u32::try_from(body_bytes * PARSED_FACTOR + ENTRY_BYTES).unwrap_or(u32::MAX);
        self.0.insert(key.clone(), Cached { instance, bytes });
    }

    pub(crate) fn forget(&self, key: &InstanceKey) {
        self.0.invalidate(key);
    }
}
