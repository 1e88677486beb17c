//! News of those who are to ask again: on this node at once, on the others by NOTIFY.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::listener;
use crate::lease::LeaseId;
use crate::limits::WOKEN_KEPT;
use crate::postgres::pool::Share;
use crate::postgres::store::Shared;
use crate::postgres::values::Parameter;

/// Leases of one message: with the node's name before them they stay below what the server takes (8,000 bytes).
const LEASES_PER_MESSAGE: usize = 240;

/// The news of one node.
#[derive(Debug)]
pub(super) struct News {
    shared: Arc<Shared>,
    /// Who says so, so that no node hears its own.
    node: Arc<str>,
    woken: broadcast::Sender<LeaseId>,
    hears: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
    tasks: Mutex<Tasks>,
}

/// What the other nodes have yet to be told. Bounded: what does not fit is lost, as the trait says.
#[derive(Debug, Default)]
struct Outbox {
    // A std mutex: held to push or take, never over an await.
    leases: Mutex<Vec<LeaseId>>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Tasks {
    closed: bool,
    teller: Option<JoinHandle<()>>,
    listener: Option<JoinHandle<()>>,
}

impl News {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            node: Uuid::new_v4().simple().to_string().into(),
            woken: broadcast::Sender::new(WOKEN_KEPT),
            hears: Arc::default(),
            outbox: Arc::default(),
            tasks: Mutex::default(),
        }
    }

    /// Whether what other nodes tell is heard.
    pub(super) fn hears_others(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// Hears of all from now on. The first who does makes this node listen to the others: a store without locks has no
    /// connection for it.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<LeaseId> {
        let receiver = self.woken.subscribe();
        let mut tasks = self.tasks();
        if let (false, None, Ok(runtime)) = (tasks.closed, &tasks.listener, Handle::try_current()) {
            let (shared, node, woken) = (self.shared.clone(), self.node.clone(), self.woken.clone());
            let listening = listener::run(shared, node, woken, self.hears.clone());
            tasks.listener = Some(runtime.spawn(listening));
        }
        receiver
    }

    /// Tells all nodes.
    pub(super) fn tell(&self, leases: impl Iterator<Item = LeaseId>) {
        let mut any = false;
        {
            let mut outbox = self.outbox.lock();
            for lease in leases {
                any = true;
                // Nobody may be listening.
                let _unheard = self.woken.send(lease);
                if outbox.len() < WOKEN_KEPT {
                    outbox.push(lease);
                }
            }
        }
        if !any {
            return;
        }
        let mut tasks = self.tasks();
        if let (false, None, Ok(runtime)) = (tasks.closed, &tasks.teller, Handle::try_current()) {
            tasks.teller = Some(runtime.spawn(tell(self.shared.clone(), self.node.clone(), self.outbox.clone())));
        }
        self.outbox.filled.notify_one();
    }

    /// Ends what is done in the background.
    pub(super) fn close(&self) {
        let mut tasks = self.tasks();
        tasks.closed = true;
        [tasks.teller.take(), tasks.listener.take()].into_iter().flatten().for_each(|task| task.abort());
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Vec<LeaseId>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the other nodes what has gathered while they were told the last time. A transaction of its own, in which nothing
/// is written: it waits for no sync, and keeps no commit waiting that does.
async fn tell(shared: Arc<Shared>, node: Arc<str>, outbox: Arc<Outbox>) {
    loop {
        outbox.filled.notified().await;
        let leases = std::mem::take(&mut *outbox.lock());
        if leases.is_empty() {
            continue;
        }
        let messages: Vec<String> = leases.chunks(LEASES_PER_MESSAGE).map(|part| write(&node, part)).collect();
        let parameters: [Parameter<'_>; 1] = [(&messages, Type::TEXT_ARRAY)];
        // What goes wrong here costs those who wait elsewhere a little time: they ask again anyway.
        let Ok(connection) = shared.connections.get(Share::Others).await else { continue };
        match timeout(shared.options.verdict_wait, connection.call(&shared.calls.lease_tell, &parameters)).await {
            Ok(Ok(_)) => connection.done(),
            Ok(Err(error)) => tracing::debug!(%error, "the other nodes were not told who may ask again"),
            Err(_) => connection.give_up_reading(),
        }
    }
}

/// The node, then the leases: each thirty-two hexadecimal digits.
fn write(node: &str, leases: &[LeaseId]) -> String {
    leases.iter().fold(node.to_owned(), |text, lease| text + &lease.to_string())
}

/// The leases of a message, unless it is this node's own. What is no message is none.
pub(super) fn read(node: &str, message: &str) -> Vec<LeaseId> {
    let digits = node.len();
    let Some((from, leases)) = message.split_at_checked(digits).filter(|(from, _)| *from != node) else {
        return Vec::new();
    };
    debug_assert_eq!(from.len(), digits);
    let parts = leases.as_bytes().chunks_exact(digits).map(|part| std::str::from_utf8(part).unwrap_or_default());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_by_the_others_only() {
        let (here, there) = (Uuid::new_v4().simple().to_string(), Uuid::new_v4().simple().to_string());
        let leases: Vec<LeaseId> = (0..LEASES_PER_MESSAGE).map(|_| LeaseId::random()).collect();
        let message = write(&here, &leases);
        assert!(message.len() < 8_000);
        assert_eq!(read(&there, &message), leases);
        assert!(read(&here, &message).is_empty());
        for stranger in ["", "x", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", &"é".repeat(40)]
        {
            assert!(read(&there, stranger).is_empty(), "{stranger}");
        }
    }
}
