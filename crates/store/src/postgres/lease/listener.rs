//! A connection of its own, beside the pool, that hears what the other nodes tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::time::{sleep, timeout};

use super::news;
use crate::lease::LeaseId;
use crate::postgres::connect::Link;
use crate::postgres::failure;
use crate::postgres::store::Shared;

/// Before the first try to connect again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Before any: whoever waits asks again every few seconds anyway.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether the server is still the one that this node knows.
const LOOK: Duration = Duration::from_secs(10);

/// Messages that may wait to be passed on; what does not fit is lost.
const MESSAGES: usize = 256;

/// Why nothing is heard.
enum Deaf {
    /// The connection goes through a pooler that gives each transaction another session.
    Pooled,
    /// For now.
    Unreachable(String),
}

/// Listens until it is ended.
pub(super) async fn run(
    shared: Arc<Shared>,
    node: Arc<str>,
    woken: broadcast::Sender<LeaseId>,
    hears: Arc<AtomicBool>,
) {
    let mut pause = PAUSE_MIN;
    loop {
        let (told, messages) = mpsc::channel(MESSAGES);
        match connect(&shared, told).await {
            Ok(link) => {
                pause = PAUSE_MIN;
                hears.store(true, Ordering::Relaxed);
                hear(&shared, &link, messages, &node, &woken).await;
                hears.store(false, Ordering::Relaxed);
            }
            Err(Deaf::Pooled) => {
                tracing::info!("the database is reached through a pooler: who waits for a lock asks from time to time");
                return;
            }
            Err(Deaf::Unreachable(detail)) => tracing::debug!(detail, "news of other nodes are not heard for now"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Passes on what is heard, until the connection ends.
async fn hear(
    shared: &Shared,
    link: &Link,
    mut messages: mpsc::Receiver<String>,
    node: &str,
    woken: &broadcast::Sender<LeaseId>,
) {
    while link.life >= shared.connections.newest_life() {
        match timeout(LOOK, messages.recv()).await {
            Ok(Some(message)) => {
                for lease in news::read(node, &message) {
                    // Nobody may be listening.
                    let _unheard = woken.send(lease);
                }
            }
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

async fn connect(shared: &Shared, told: mpsc::Sender<String>) -> Result<Link, Deaf> {
    let unreachable = |error: tokio_postgres::Error| Deaf::Unreachable(failure::explain(&error));
    let link = shared.connections.listener(told).await.map_err(Deaf::Unreachable)?;
    let rows = link.client.query_typed(&shared.calls.lease_channel, &[]).await.map_err(unreachable)?;
    let row = rows.first().ok_or_else(|| Deaf::Unreachable("the database gave no answer".to_owned()))?;
    let (channel, process): (String, i32) =
        row.try_get(0).and_then(|channel| Ok((channel, row.try_get(1)?))).map_err(unreachable)?;
    if link.process().await != Some(process) {
        return Err(Deaf::Pooled);
    }
    link.client.batch_execute(&format!("LISTEN \"{channel}\"")).await.map_err(unreachable)?;
    Ok(link)
}
