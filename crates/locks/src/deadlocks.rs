//! Looking for owners that wait for each other.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::lease::{LeaseRequest, cycles};
use tokio_util::sync::CancellationToken;

use crate::{Leases, ServiceOptions, Unavailable};

/// How often deadlocks are looked for (the sources' ten seconds).
pub const DEADLOCK_SCAN_DEFAULT: Duration = Duration::from_secs(10);

/// Looks for circles from time to time, and tells the youngest of each to give up. Every node does; of the same circle
/// all choose the same victim.
pub(crate) async fn watch<L: Leases>(leases: Arc<L>, options: ServiceOptions, stopped: CancellationToken) {
    loop {
        let next = options.clock.now() + options.deadlock_scan;
        if stopped.run_until_cancelled(options.clock.sleep_until(next)).await.is_none() {
            return;
        }
        if let Err(Unavailable(detail)) = scan(&*leases).await {
            tracing::debug!(detail, "deadlocks could not be looked for; trying again later");
        }
    }
}

/// One look. A circle in edges that are all of one moment is a deadlock: nobody in it gets on until somebody gives up.
pub(crate) async fn scan<L: Leases>(leases: &L) -> Result<usize, Unavailable> {
    let found = cycles(&leases.edges().await?);
    for (lease, cycle) in &found {
        tracing::warn!(owners = cycle.join(" -> "), "deadlock: the youngest waiter is told to give up");
        leases.change(LeaseRequest::Break { lease: *lease, cycle: cycle.clone() }).await?;
    }
    Ok(found.len())
}
