//! The floor of fences: whatever a server has forgotten, fences never go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use chrono::Utc;
use lockkeeper_store::{CommitError, Store, lease};

use crate::Unavailable;

/// What is remembered of fences outside of the server that gives them.
#[async_trait]
pub trait FenceFloor: Send + Sync + 'static {
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

#[async_trait]
impl FenceFloor for Arc<dyn Store> {
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
        self.fence_floor(at_least).await.map_err(|error| match error {
            CommitError::Unavailable(detail) | CommitError::Unknown(detail) => Unavailable(detail),
        })
    }
}

/// What a second is in floors: no server gives so many fences in a second.
const SECOND: i64 = 1 << 20;

/// Fences that others may have given since they raised the floor, if their clocks are ahead of this one: a minute's.
const GIVEN_SINCE: i64 = 60 * SECOND;

/// Raises the floor to that of now.
pub(super) async fn raise(floor: &dyn FenceFloor) -> Result<i64, Unavailable> {
    floor.raise(now()).await
}

/// Raises the floor above every fence that was ever given, for a server that may have forgotten some.
pub(super) async fn lift(floor: &dyn FenceFloor) -> Result<i64, Unavailable> {
    let last = floor.raise(now()).await?;
    floor.raise(last.saturating_add(GIVEN_SINCE)).await
}

fn now() -> i64 {
    lease::floor(Utc::now())
}
