//! The feed among transactions that end in another order than they began.

use std::time::Instant;

use lockkeeper_store::{FeedFrom, FeedGap, FeedPage, Forget, Forgotten, PostgresStore, Store};
use lockkeeper_testbed::Postgres;

use crate::tools::{LONG, blocking, eventually, key, must_commit, next, open, version};
use crate::upgrades::back_to_7;

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

/// What was forgotten while something is held back is behind what is still to be told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_beyond_what_is_held_back_hides_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    must_commit(&store, next(&key("before"), 0)).await;
    let follower = FeedFrom::After(page(&store, FeedFrom::Oldest).await.next);
    let session = server.session();
    session.execute(LATE);
    must_commit(&store, next(&key("other"), 0)).await;
    must_commit(&store, next(&key("closed"), 0)).await;
    let forgotten = Forget { key: key("closed"), version: 1, upto: 1, replace: None };
    let told = store.forget(&forgotten, 10).await.expect("an answer");
    assert_eq!(told, Forgotten::Events { events: 1, whole: true });
    let now = page(&store, FeedFrom::Now).await.next;
    let held = page(&store, follower).await;
    assert_eq!((held.items.len(), held.gap, held.held_back), (0, Some(FeedGap::Purged), true));
    session.execute("COMMIT");
    let left = [("late".to_owned(), 1), ("other".to_owned(), 1)];
    assert_eq!(rest(&store, FeedFrom::After(now)).await, left);
    assert_eq!(rest(&store, FeedFrom::After(held.next)).await, left);
    store.close().await;
}

/// A dump has the mark of what its cluster has forgotten, however far that had come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_cluster_has_forgotten_hides_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    must_commit(&store, next(&key("old"), 0)).await;
    store.close().await;
    let mark = "INSERT INTO lockkeeper.counters (name, value) VALUES ('feed_purged', 50000000)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    for opened_again in [false, true] {
        let open_before = open(&server.url()).await;
        server.execute(mark);
        let store = if opened_again { open(&server.url()).await } else { open_before };
        let now = FeedFrom::After(page(&store, FeedFrom::Now).await.next);
        let version = version(&store, &key("new")).await;
        must_commit(&store, next(&key("new"), version)).await;
        assert_eq!(rest(&store, now).await, [("new".to_owned(), version + 1)]);
        store.close().await;
    }
    assert_ne!(server.execute("SELECT value FROM lockkeeper.counters WHERE name = 'feed_purged'"), "50000000");
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
    server.execute(&back_to_7());
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

/// Numbers of transactions of which nothing was on disk when the server crashed are given out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_after_a_crash() {
    let mut server = server().await;
    let store = open(&server.url()).await;
    // Before there is any event, behind one, and behind one that was forgotten.
    for round in 0..3 {
        if round == 2 {
            let forget = Forget { key: key("a"), version: 2, upto: 2, replace: None };
            assert_eq!(store.forget(&forget, 10).await, Ok(Forgotten::Events { events: 2, whole: true }));
        }
        // Whatever a node writes when it first connects is written by now.
        page(&store, FeedFrom::Oldest).await;
        let burnt;
        (server, burnt) = blocking(move || {
            // Nothing is written to disk any more but what a commit waits for.
            let writer = server.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
            let stopped = std::process::Command::new("kill").args(["-STOP", &writer]).status();
            assert!(stopped.is_ok_and(|status| status.success()));
            let taken_back = "BEGIN; SELECT pg_current_xact_id(); ROLLBACK;".repeat(50);
            let burnt = server.execute(&taken_back).lines().last().and_then(|last| last.parse::<i64>().ok());
            (server, burnt.expect("a number"))
        })
        .await;
        let now = page(&store, FeedFrom::Now).await.next;
        let followed = page(&store, FeedFrom::Oldest).await.next;
        let reached;
        (server, reached) = blocking(move || {
            server.kill();
            server.restart();
            let reached = server.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").parse::<i64>();
            (server, reached.expect("a number"))
        })
        .await;
        assert!(reached < burnt, "round {round}: {burnt} is not given out again, but {reached}");
        eventually("the server is back", || async { store.ping().await.is_ok() }).await;
        for cursor in [now, followed] {
            let early = page(&store, FeedFrom::After(cursor)).await;
            assert_eq!((early.gap, told(&early)), (None, vec![]), "round {round}, before anything is written");
        }
        must_commit(&store, next(&key("a"), round)).await;
        for cursor in [now, followed] {
            let late = page(&store, FeedFrom::After(cursor)).await;
            assert_eq!((late.gap, told(&late)), (None, vec![("a".to_owned(), round + 1)]), "round {round}");
        }
    }
    store.close().await;
}

/// How the server has read the pages of which it has logged it: tables, with the kind of each scan and the rows it met.
fn scans(log: &str) -> Vec<Vec<(String, String, f64)>> {
    fn collect(node: &serde_json::Value, into: &mut Vec<(String, String, f64)>) {
        let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
        if let (Some(table), Some(kind)) = (node["Relation Name"].as_str(), node["Node Type"].as_str()) {
            let rows = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
            into.push((table.to_owned(), kind.to_owned(), rows));
        }
        for below in node["Plans"].as_array().into_iter().flatten() {
            collect(below, into);
        }
    }
    let mut all = Vec::new();
    for logged in log.split(" plan:\n").skip(1) {
        let json: String = logged.lines().take_while(|line| line.starts_with('\t')).collect();
        let plan: serde_json::Value = serde_json::from_str(&json).expect("a plan");
        if plan["Query Text"].as_str().is_some_and(|text| text.contains("held_back")) {
            let mut of_page = Vec::new();
            collect(&plan["Plan"], &mut of_page);
            all.push(of_page);
        }
    }
    all
}

/// Whatever the planner knows of the tables, a page is read by the index and costs what it shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_what_it_shows_and_no_more() {
    const SHOWN: usize = 100;
    let explained = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_format", "json"),
        ("autovacuum", "off"),
    ];
    let server = blocking(move || Postgres::start_with(&explained)).await;
    let store = open(&server.url()).await;
    let fill =
        "INSERT INTO lockkeeper.records (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms,
            body) SELECT 'things', n, 1, '', '', 0, 0, '' FROM generate_series(1, 20000) n;
        INSERT INTO lockkeeper.events (record, version, commit_id, body, xid)
            SELECT record, 1, gen_random_uuid(), 'event', (3 + record % 500)::text::xid8 FROM lockkeeper.records";
    let server = blocking(move || {
        server.execute(fill);
        server
    })
    .await;
    let mut pages = 0;
    let mut look = async |from: FeedFrom, expected: (usize, bool, bool)| {
        let page = store.feed(from, SHOWN).await.expect("an answer");
        assert_eq!((page.items.len(), page.more, page.held_back), expected);
        pages += 1;
        FeedFrom::After(page.next)
    };
    let next_page = look(FeedFrom::Oldest, (SHOWN, true, false)).await;
    look(next_page, (SHOWN, true, false)).await;
    let end = look(FeedFrom::Now, (0, false, false)).await;
    look(end, (0, false, false)).await;
    let server = blocking(move || {
        server.execute("VACUUM ANALYZE lockkeeper.events; VACUUM ANALYZE lockkeeper.records");
        server
    })
    .await;
    look(next_page, (SHOWN, true, false)).await;
    look(end, (0, false, false)).await;
    let session = server.session();
    session.execute("BEGIN; SELECT pg_current_xact_id()");
    must_commit(&store, next(&key("held back"), 0)).await;
    look(next_page, (SHOWN, true, true)).await;
    look(end, (0, false, true)).await;
    session.execute("COMMIT");
    look(end, (1, false, false)).await;
    store.close().await;
    let log = server.log();
    let scans = scans(&log);
    assert_eq!(scans.len(), pages, "{log}");
    for of_page in scans {
        let mut read = 0.0;
        for (table, kind, rows) in of_page.iter().filter(|(table, ..)| table == "events" || table == "records") {
            assert!(kind.contains("Index"), "{table} by {kind}: {of_page:?}");
            read += rows;
        }
        assert!(read <= (2 * SHOWN + 3) as f64, "{of_page:?}");
    }
}
