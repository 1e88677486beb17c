//! One lease on the locks of several instances, for moves that happen together.

use lockkeeper_locks::{Acquire, AcquireError, Lease, describe};
use lockkeeper_model::Refusal;
use tokio::time::Instant;

use super::Leases;
use crate::strategy::waited_ms;

/// What moves of several instances ask for together: all of it, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Leased {
    lease: Option<Lease>,
}

/// Why there is no lease.
pub(crate) enum NotLeased {
    /// A refusal that stands, whatever the definitions say.
    Refused(Refusal),
    /// The lock service is gone: as `on_lock_loss` says.
    Gone(String),
}

impl Leased {
    /// The fence of the lock `resource`: none if it is not leased, or its lock service has none.
    pub(crate) fn fence(&self, resource: &str) -> Option<i64> {
        let fences = self.lease.as_ref().map(Lease::fences).unwrap_or_default();
        fences.iter().find(|(name, _)| **name == *resource).and_then(|(_, fence)| *fence)
    }

    /// Whether the lock `resource` is leased, as far as this node knows.
    pub(crate) fn covers(&self, resource: &str) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.is_held() && lease.fences().iter().any(|(name, _)| **name == *resource))
    }

    /// Gives it back.
    pub(crate) async fn release(self) {
        if let Some(lease) = self.lease {
            let released = lease.release().await;
            tracing::trace!(?released, "a lease on several locks was given back");
        }
    }
}

impl Leases {
    /// Leases all of `resources` (in no order, named more than once or not) until `wait_until`.
    pub(crate) async fn lease_all(
        &self,
        resources: &[String],
        ttl: std::time::Duration,
        wait_until: Instant,
    ) -> Result<Leased, NotLeased> {
        if resources.is_empty() {
            return Ok(Leased::default());
        }
        if let Some(why) = self.gone() {
            return Err(NotLeased::Gone(why));
        }
        let begun = Instant::now();
        let wait = wait_until.saturating_duration_since(begun);
        let names = resources.iter().map(String::as_str);
        match self.unless_gone(self.locks.acquire_all(names, Acquire::new().ttl(ttl).wait(wait))).await {
            Ok(lease) => Ok(Leased { lease: Some(lease) }),
            Err(AcquireError::Held(held_by) | AcquireError::LockTimeout { held_by, .. }) => {
                let resource = held_by.resource.to_string();
                let (waited_ms, holder) = (waited_ms(begun.elapsed()), describe(&held_by));
                Err(NotLeased::Refused(Refusal::LeaseTimeout { resource, waited_ms, holder }))
            }
            Err(error @ AcquireError::Unavailable(_)) => {
                self.note_gone(&error.to_string());
                Err(NotLeased::Gone(error.to_string()))
            }
            // It serves others well.
            Err(error @ AcquireError::Unsupported(_)) => {
                Err(NotLeased::Gone(format!("the lock service cannot serve it: {error}")))
            }
            Err(error) => {
                let detail = format!("{error}; nothing was written, send it again");
                Err(NotLeased::Refused(Refusal::Busy { detail }))
            }
        }
    }
}
