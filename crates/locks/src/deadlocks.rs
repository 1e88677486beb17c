//! Looking for owners that wait for each other.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::lease::{Circle, LeaseRequest, circles};
use tokio_util::sync::CancellationToken;

use crate::{Leases, ServiceOptions, Unavailable};

/// How often deadlocks are looked for (the sources' ten seconds).
pub const DEADLOCK_SCAN_DEFAULT: Duration = Duration::from_secs(10);

/// Each look reads all who wait.
const DEADLOCK_SCAN_MIN: Duration = Duration::from_millis(50);

/// Looks for circles from time to time, and tells the youngest of each to give up. Every node does; of the same circle
/// all choose the same victim.
pub(crate) async fn watch<L: Leases>(leases: Arc<L>, options: ServiceOptions, stopped: CancellationToken) {
    loop {
        let next = options.clock.now() + options.deadlock_scan.max(DEADLOCK_SCAN_MIN);
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
    let edges = leases.edges().await?;
    // Many edges take a while: not on the threads that renew leases.
    let found = tokio::task::spawn_blocking(move || circles(&edges)).await;
    let found = found.map_err(|error| Unavailable(error.to_string()))?;
    for Circle { victim, ticket, owners } in &found {
        tracing::warn!(owners = owners.join(" -> "), "deadlock: the youngest waiter is told to give up");
        let (lease, ticket, cycle) = (*victim, *ticket, owners.clone());
        leases.change(LeaseRequest::Break { lease, ticket, cycle }).await?;
    }
    Ok(found.len())
}
