//! How long a lock that many wait for takes from one holder to the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockkeeper_locks::{Ask, Claim, LeaseId, LockService, Mode};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bench::clients::{Cpu, Latencies, Load};
use crate::bench::row::Row;
use crate::failure::Failure;

const TTL: Duration = Duration::from_secs(30);

/// How long each holder has it: some work, and the others wait.
pub(crate) const HOLD: Duration = Duration::from_millis(1);

/// What the clients share.
struct Lock {
    service: Arc<dyn LockService>,
    resource: Arc<str>,
    stop: Instant,
    /// When the last holder began to give it back; none: nobody has yet.
    released: Mutex<Option<Instant>>,
    latencies: Mutex<Latencies>,
    failed: AtomicU64,
}

/// Measures the time from the beginning of a release to the end of the next acquisition, all clients waiting for one lock.
///
/// # Errors
/// A client that died.
pub(crate) async fn measure(name: &str, service: Arc<dyn LockService>, load: &Load) -> Result<Row, Failure> {
    let lock = Arc::new(Lock {
        service,
        resource: format!("bench/{}", Uuid::new_v4()).into(),
        stop: Instant::now() + load.duration,
        released: Mutex::new(None),
        latencies: Mutex::default(),
        failed: AtomicU64::new(0),
    });
    let (cpu, begun) = (Cpu::now(), Instant::now());
    let mut clients = JoinSet::new();
    for client in 0..load.clients {
        clients.spawn(lock.clone().take_turns(client));
    }
    while let Some(client) = clients.join_next().await {
        client.map_err(Failure::failed)?;
    }
    let wall = begun.elapsed();
    let latencies = lock.latencies.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Row::measured(name, &latencies, lock.failed.load(Ordering::Relaxed), wall, cpu.share(wall), 0))
}

impl Lock {
    async fn take_turns(self: Arc<Self>, client: u32) {
        while Instant::now() < self.stop {
            if !self.turn(client).await {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn turn(&self, client: u32) -> bool {
        let claim = Claim { resource: self.resource.clone(), mode: Mode::Exclusive };
        let owner = format!("client {client}");
        let Ok(ask) = Ask::new(LeaseId::random(), &owner, "bench", [claim], TTL) else { return false };
        if self.service.acquire(&ask, TTL).await.is_err() {
            return false;
        }
        let since = self.released.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(since) = since {
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).record(since.elapsed());
        }
        tokio::time::sleep(HOLD).await;
        *self.released.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.service.release(ask.lease(), false).await.is_ok()
    }
}
