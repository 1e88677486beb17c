//! The floor of fences: whatever a server has forgotten, fences never go back.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use chrono::Utc;
use lockkeeper_store::lease;

use crate::Unavailable;

/// What is remembered of fences outside of the server that gives them.
#[async_trait]
pub trait FenceFloor: fmt::Debug + Send + Sync + 'static {
    /// Raises the floor to `at_least`, if it is not there already. The floor afterwards: it never goes down.
    ///
    /// # Errors
    /// [`Unavailable`]: it may or may not have been raised.
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable>;
}

/// A floor that this process remembers, for where there is no store: it starts at the system's time of day, so after a
/// restart it is above what was before unless that clock was set back.
#[derive(Debug, Default)]
pub struct ProcessFloor;

static OF_THIS_PROCESS: AtomicI64 = AtomicI64::new(0);

#[async_trait]
impl FenceFloor for ProcessFloor {
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
        Ok(OF_THIS_PROCESS.fetch_max(at_least, Ordering::SeqCst).max(at_least))
    }
}

/// What a second is in floors. No server gives so many fences in a second.
const SECOND: i64 = 1 << 20;

/// A floor above every fence that was ever given: above that of now, and a second above the last one, for a server may
/// begin two lives within one second.
pub(super) async fn lift(floor: &dyn FenceFloor) -> Result<i64, Unavailable> {
    let last = floor.raise(lease::floor(Utc::now())).await?;
    floor.raise(last.saturating_add(SECOND)).await
}
