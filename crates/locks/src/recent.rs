//! Leases that were released lately: whoever asks again because the answer was lost is told so again.

use std::time::Duration;

use lockkeeper_store::lease::LeaseId;
use moka::sync::Cache;

/// A bounded memory of releases. What it has forgotten is answered `already_lost`, which is true as well.
pub(crate) struct Recent(Cache<LeaseId, ()>);

/// Some megabytes.
const KEPT: u64 = 65_536;

/// A client that has had no answer for so long has given up.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

impl Default for Recent {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(KEPT).time_to_live(KEPT_FOR).build())
    }
}

impl Recent {
    pub(crate) fn remember(&self, lease: LeaseId) {
        self.0.insert(lease, ());
    }

    pub(crate) fn forget(&self, lease: LeaseId) {
        self.0.invalidate(&lease);
    }

    pub(crate) fn knows(&self, lease: LeaseId) -> bool {
        self.0.contains_key(&lease)
    }
}
