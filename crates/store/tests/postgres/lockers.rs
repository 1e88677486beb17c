//! Nodes that take turns at names, whatever happens to the server, and notice if two ever have one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper_store::lease::{Ask, Asked, Claim, Ended, LeaseAnswer, LeaseId, LeaseRequest, Mode};
use lockkeeper_store::{PostgresStore, Store};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::tools::LONG;

/// Between two tries while there is no server, and between two asks of one who is not woken.
const PAUSE: Duration = Duration::from_millis(50);

/// An ask for one name.
pub(crate) fn ask(owner: &str, name: &str, ttl: Duration) -> Ask {
    let claim = Claim { resource: name.into(), mode: Mode::Exclusive };
    Ask::new(LeaseId::random(), owner, "here", [claim], ttl).expect("a good ask")
}

/// Asks once, and waits if it must.
pub(crate) fn waiting(ask: &Ask) -> LeaseRequest {
    LeaseRequest::Ask { ask: ask.clone(), keep: Some(LONG) }
}

/// Asks until it is granted; the fence.
pub(crate) async fn acquire(store: &PostgresStore, ask: &Ask) -> i64 {
    let (mut woken, begun) = (store.woken(), Instant::now());
    loop {
        assert!(begun.elapsed() < LONG * 2, "{} does not get its turn", ask.owner());
        match store.lease(waiting(ask)).await {
            Ok(LeaseAnswer::Asked(Asked::Granted { fences })) => return fences[0],
            Ok(LeaseAnswer::Asked(Asked::Waiting { .. })) | Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
        let news = async { while !matches!(woken.recv().await, Ok(lease) if lease == ask.lease()) {} };
        let _asked_anyway = tokio::time::timeout(PAUSE, news).await;
    }
}

/// Gives a lease back, however often it takes; what the last answer was.
pub(crate) async fn release(store: &PostgresStore, lease: LeaseId) -> Ended {
    let begun = Instant::now();
    loop {
        match store.lease(LeaseRequest::End { lease, bar: false }).await {
            Ok(LeaseAnswer::Ended(ended)) => return ended,
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(begun.elapsed() < LONG * 2, "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Many who want the same few names.
pub(crate) struct Lockers {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    turns: AtomicUsize,
    names: Mutex<HashMap<String, Arc<Name>>>,
}

/// What everybody sees of one name.
#[derive(Default)]
struct Name {
    inside: AtomicUsize,
    last_fence: AtomicI64,
}

impl Lockers {
    /// So many for each store and name.
    pub(crate) fn start(stores: &[Arc<PostgresStore>], names: &[&str], each: usize) -> Self {
        let (mut tasks, shared) = (JoinSet::new(), Arc::new(Shared::default()));
        for (node, store) in stores.iter().enumerate() {
            for name in names {
                for n in 0..each {
                    let owner = format!("{node} {n}");
                    tasks.spawn(take_turns(store.clone(), owner, (*name).to_owned(), shared.clone()));
                }
            }
        }
        Self { tasks, shared }
    }

    /// Waits until so many more turns were taken.
    pub(crate) async fn progress(&self, more: usize) {
        let (begun, before) = (Instant::now(), self.shared.turns.load(Ordering::SeqCst));
        while self.shared.turns.load(Ordering::SeqCst) < before + more {
            assert!(begun.elapsed() < LONG * 2, "turns do not go on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends them; panics if one of them saw what must not be.
    pub(crate) async fn check(mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("nobody saw what must not be");
        }
    }
}

async fn take_turns(store: Arc<PostgresStore>, owner: String, name: String, shared: Arc<Shared>) {
    let seen = shared.names.lock().expect("nobody panics with it").entry(name.clone()).or_default().clone();
    while !shared.stopped.load(Ordering::SeqCst) {
        // Lives far longer than it is held, and than a server takes to come back.
        let ask = ask(&owner, &name, LONG * 10);
        let fence = acquire(&store, &ask).await;
        assert_eq!(seen.inside.fetch_add(1, Ordering::SeqCst), 0, "{owner} is not alone at {name}");
        let last = seen.last_fence.fetch_max(fence, Ordering::SeqCst);
        assert!(fence > last, "{owner} has fence {fence} for {name} after {last}");
        tokio::task::yield_now().await;
        seen.inside.fetch_sub(1, Ordering::SeqCst);
        shared.turns.fetch_add(1, Ordering::SeqCst);
        release(&store, ask.lease()).await;
    }
}

/// The next lease that a node is told to ask again for.
pub(crate) async fn next_news(woken: &mut tokio::sync::broadcast::Receiver<LeaseId>) -> Result<LeaseId, RecvError> {
    tokio::time::timeout(LONG, woken.recv()).await.expect("news")
}
