//! The feed among transactions that end in another order than they began.

use std::time::Instant;

use lockkeeper_store::{FeedFrom, FeedPage, PostgresStore, Store};
use lockkeeper_testbed::Postgres;

use crate::tools::{LONG, blocking, key, must_commit, next, open};
use crate::upgrades::BACK_TO_7;

fn told(page: &FeedPage) -> Vec<(String, i64)> {
    page.items.iter().map(|item| (item.key.id.to_string(), item.event.version)).collect()
}

async fn page(store: &PostgresStore, from: FeedFrom) -> FeedPage {
    store.feed(from, 100).await.expect("an answer")
}

/// Reads on until nothing is held back.
async fn rest(store: &PostgresStore, mut from: FeedFrom) -> Vec<(String, i64)> {
    let begun = Instant::now();
    let mut seen = Vec::new();
    loop {
        let page = page(store, from).await;
        seen.extend(told(&page));
        from = FeedFrom::After(page.next);
        if !page.more && !page.held_back {
            return seen;
        }
        assert!(begun.elapsed() < LONG, "the feed is held back");
    }
}

/// A server of its own: transactions of other tests would hold the feed back too.
async fn server() -> Postgres {
    blocking(Postgres::start).await
}

const LATE: &str = "BEGIN;
    INSERT INTO lockkeeper.records (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
        VALUES ('things', 'late', 1, '', '', 0, 0, '');
    INSERT INTO lockkeeper.events (record, version, commit_id, body)
        SELECT record, 1, gen_random_uuid(), 'late' FROM lockkeeper.records WHERE id = 'late'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_begins_first_and_commits_last_is_not_skipped() {
    let server = server().await;
    let store = open(&server.url()).await;
    must_commit(&store, next(&key("before"), 0)).await;
    let mut from = FeedFrom::After(page(&store, FeedFrom::Oldest).await.next);
    // A node of the release before writes the very same statements: it knows nothing of the feed.
    let session = server.session();
    session.execute(LATE);
    must_commit(&store, next(&key("after"), 0)).await;
    for _ in 0..3 {
        let held = page(&store, from).await;
        assert_eq!((told(&held), held.held_back), (vec![], true), "nothing is told that another may yet precede");
        from = FeedFrom::After(held.next);
    }
    // Whoever begins at the end now must see the late one, too.
    let now = FeedFrom::After(page(&store, FeedFrom::Now).await.next);
    session.execute("COMMIT");
    let both = [("late".to_owned(), 1), ("after".to_owned(), 1)];
    assert_eq!(rest(&store, from).await, both);
    assert_eq!(rest(&store, now).await, both);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_taken_back_leaves_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    let session = server.session();
    session.execute(LATE);
    must_commit(&store, next(&key("a"), 0)).await;
    session.execute("ROLLBACK");
    assert_eq!(rest(&store, FeedFrom::Oldest).await, [("a".to_owned(), 1)]);
    store.close().await;
}

/// A dump has the transactions' numbers of the cluster that it comes from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_another_cluster_come_before_new_ones() {
    let server = server().await;
    let url = server.url();
    let store = open(&url).await;
    for n in 0..3 {
        must_commit(&store, next(&key("old"), n)).await;
    }
    store.close().await;
    server.execute("UPDATE lockkeeper.events SET xid = (xid::text::bigint + 1000000000)::text::xid8");
    let store = open(&url).await;
    must_commit(&store, next(&key("new"), 0)).await;
    must_commit(&store, next(&key("old"), 3)).await;
    let expected = [("old", 1), ("old", 2), ("old", 3), ("new", 1), ("old", 4)];
    assert_eq!(rest(&store, FeedFrom::Oldest).await, expected.map(|(id, version)| (id.to_owned(), version)));
    store.close().await;
}

/// What there was before this release comes first, record by record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_release_before_has_its_feed() {
    let server = server().await;
    let url = server.url();
    let store = open(&url).await;
    for (id, version) in [("b", 0), ("a", 0), ("b", 1)] {
        must_commit(&store, next(&key(id), version)).await;
    }
    store.close().await;
    server.execute(BACK_TO_7);
    server.execute(
        "ALTER TABLE lockkeeper.events DROP COLUMN xid; DROP FUNCTION lockkeeper.settle_feed;
         DELETE FROM lockkeeper.migrations WHERE number = 7",
    );
    let store = open(&url).await;
    must_commit(&store, next(&key("a"), 1)).await;
    let expected = [("b", 1), ("b", 2), ("a", 1), ("a", 2)];
    assert_eq!(rest(&store, FeedFrom::Oldest).await, expected.map(|(id, version)| (id.to_owned(), version)));
    store.close().await;
}
