//! What is acknowledged is on disk, whatever the database's default.

use std::sync::Arc;

use futures_util::future::join_all;
use lockkeeper_store::lease::{Asked, LeaseAnswer};
use lockkeeper_store::{AllVerdict, OnLocked, PostgresStore, Store, Verdict};
use lockkeeper_testbed::Postgres;

use crate::lockers::{acquire, ask, waiting};
use crate::tools::{LONG, blocking, key, next, now, open, version};

/// Sets that are sent at once: those that arrive while the first is being committed go together.
const TOGETHER: usize = 10;

/// With `synchronous_commit = off` a server writes what was committed within the next fifth of a second, unless it dies
/// before: so it dies at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_acknowledge_early_does_not() {
    let mut server = blocking(|| Postgres::start_with(&[("synchronous_commit", "off")])).await;
    let store = open(&server.url()).await;
    for way in ["alone", "together", "all", "locked"] {
        for expected in 0..2 {
            let ids: Vec<String> = (0..TOGETHER).map(|n| format!("{way}{n}")).collect();
            let ids = if way == "together" { &ids[..] } else { &ids[..1] };
            for verdict in join_all(ids.iter().map(|id| commit(&store, way, id, expected))).await {
                assert_eq!(verdict, Verdict::Committed, "{way}");
            }
            server = blocking(move || {
                server.kill();
                server.restart();
                server
            })
            .await;
            for id in ids {
                assert_eq!(version(&store, &key(id)).await, expected + 1, "{id} was acknowledged");
            }
        }
    }
}

async fn commit(store: &Arc<PostgresStore>, way: &str, id: &str, expected: i64) -> Verdict {
    let set = next(&key(id), expected);
    match way {
        "all" => match store.commit_all(vec![set]).await.expect("a verdict") {
            AllVerdict::Committed => Verdict::Committed,
            AllVerdict::Failed { verdict, .. } => verdict,
        },
        "locked" => {
            let locked = store.lock(&key(id), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
            locked.hold.commit(set).await.expect("a verdict")
        }
        _ => store.commit(set).await.expect("a verdict"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_granted_outlives_the_server() {
    let mut server = blocking(|| Postgres::start_with(&[("synchronous_commit", "off")])).await;
    let store = open(&server.url()).await;
    for round in 0..3 {
        let (ask, other) = (ask("one", &format!("r{round}"), LONG * 10), ask("other", &format!("r{round}"), LONG * 10));
        let fence = acquire(&store, &ask).await;
        let floor = store.fence_floor(fence + 1_000_000_000).await.expect("an answer");
        server = blocking(move || {
            server.kill();
            server.restart();
            server
        })
        .await;
        assert_eq!(acquire(&store, &ask).await, fence, "the same grant");
        let told = store.lease(waiting(&other)).await;
        assert!(matches!(told, Ok(LeaseAnswer::Asked(Asked::Waiting { .. }))), "{told:?}");
        assert_eq!(store.fence_floor(0).await, Ok(floor));
    }
}
