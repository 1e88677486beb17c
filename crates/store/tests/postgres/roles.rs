//! What a role must be allowed, and what it is told if it is not.

use std::sync::Arc;

use lockkeeper_store::lease::Ended;
use lockkeeper_store::{Fence, ListOrder, OnLocked, OpenError, Store, Verdict};
use lockkeeper_testbed::TestDatabase;

use crate::lockers::{acquire, ask, next_news, release, waiting};
use crate::tools::{LONG, Role, database, execute, key, keyed, must_commit, next, now, open, query, refused};

async fn why(role: &Role) -> String {
    match refused(&role.url()).await {
        OpenError::NoDatabase { detail, .. } => detail,
        other => panic!("{other:?}"),
    }
}

async fn grant(database: &Arc<TestDatabase>, role: &Role, rights: &str) {
    execute(database, format!("GRANT {rights} TO {}", role.name())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_use_need_not_create() {
    let database = database().await;
    let role = Role::create(&database, "").await;
    let detail = why(&role).await;
    assert!(detail.contains("CREATE on the database"), "{detail}");
    open(&database.url()).await.close().await;
    let detail = why(&role).await;
    assert!(detail.contains("USAGE on the schema"), "{detail}");
    grant(&database, &role, "USAGE ON SCHEMA lockkeeper").await;
    grant(&database, &role, "SELECT ON ALL TABLES IN SCHEMA lockkeeper").await;
    let detail = why(&role).await;
    assert!(detail.contains("INSERT on"), "{detail}");
    grant(&database, &role, "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lockkeeper").await;
    let store = open(&role.url()).await;
    must_commit(&store, keyed(&key("a"), 0, "k")).await;
    let locked = store.lock(&key("a"), &[], now(), OnLocked::GiveUp).await.expect("locked");
    assert_eq!(locked.hold.commit(next(&key("a"), 1)).await, Ok(Verdict::Committed));
    assert_eq!(store.list(&query(ListOrder::Newest)).await.expect("an answer").records.len(), 1);
    assert_eq!(store.events(&key("a"), 0, 10).await.expect("an answer").len(), 2);
    assert_eq!(store.confirm(&key("a"), &["k".to_owned()], now()).await.expect("an answer").keys.len(), 1);
    assert_eq!(store.purge_keys(now(), 10).await, Ok(0));
    let mut fenced = next(&key("a"), 2);
    fenced.fences.push(Fence::new("r", 1));
    must_commit(&store, fenced).await;
    let (ask, mut news) = (ask("role", "r", LONG), store.woken());
    assert!(acquire(&store, &ask).await > 1);
    let next = crate::lockers::ask("next", "r", LONG);
    assert!(store.lease(waiting(&next)).await.is_ok());
    assert_eq!(release(&store, ask.lease()).await, Ended::Released);
    assert_eq!(next_news(&mut news).await, Ok(next.lease()));
    assert_eq!(store.purge_fences(now(), 10).await, Ok(1));
    assert!(store.fence_floor(1).await.is_ok());
    assert_eq!(store.ping().await, Ok(()));
    store.close().await;
}

/// The schema was made for the role by somebody else, as administrators do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_its_own_is_enough() {
    let database = database().await;
    let role = Role::create(&database, "").await;
    execute(&database, format!("CREATE SCHEMA lockkeeper AUTHORIZATION {}", role.name())).await;
    let store = open(&role.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    store.close().await;
}
