//! PgBouncer in transaction mode: each transaction may run in another session of the server, and there are few of them.

use std::time::Duration;

use lockkeeper_store::{AllVerdict, ListOrder, OnLocked, RecordKey, Store, Verdict};
use lockkeeper_testbed::{PgBouncer, Postgres};
use tokio::time::timeout;

use crate::tools::{LONG, blocking, key, must_commit, next, now, open, query, version};
use crate::writers::{Writers, history};

/// Sessions behind the pooler: fewer than the store has connections, fewer even than it has lanes and row locks.
const SESSIONS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_passes_a_pooler_with_few_sessions() {
    let (mut server, pooler) = blocking(|| {
        let server = Postgres::start();
        let pooler = PgBouncer::start_with(server.address(), SESSIONS);
        (server, pooler)
    })
    .await;
    let store = open(&pooler.url("postgres")).await;
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let key = key(&format!("k{}", n % 20));
                let made = store.commit(next(&key, 0)).await;
                assert!(matches!(made, Ok(Verdict::Committed | Verdict::Lost(_))), "{made:?}");
                let locked = store.lock(&key, &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
                let at = locked.record.as_ref().expect("it is there").version;
                assert_eq!(locked.hold.commit(next(&key, at)).await, Ok(Verdict::Committed));
                let other = RecordKey::new("others", &format!("{n}"));
                let all = store.commit_all(vec![next(&other, 0)]).await;
                assert_eq!(all, Ok(AllVerdict::Committed));
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("an end");
    }
    for n in 0..20 {
        assert_eq!(version(&store, &key(&format!("k{n}"))).await, 3);
    }
    assert_eq!(store.list(&query(ListOrder::Newest)).await.expect("an answer").records.len(), 20);
    // A wait for a row that is left is ended on the right session, and the pooler survives being asked to.
    let (k0, waited) = (key("k0"), Duration::from_millis(50));
    for version in 3..8 {
        let held = store.lock(&k0, &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
        assert!(timeout(waited, store.lock(&k0, &[], now(), OnLocked::Wait(LONG))).await.is_err());
        assert_eq!(held.hold.commit(next(&k0, version)).await, Ok(Verdict::Committed));
    }

    let writers = Writers::start(&store, 8);
    writers.progress(50).await;
    for _ in 0..2 {
        server = blocking(move || {
            server.restart();
            server
        })
        .await;
        writers.progress(50).await;
    }
    writers.check().await;
    assert_eq!(history(&store, &key("k1")).await.len(), 3);
    must_commit(&store, next(&key("k1"), 3)).await;
    drop(server);
}
