//! Leases of several nodes on one database, which is killed, replaced, cut off and pooled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper_store::lease::{Ask, Asked, Ended, LeaseAnswer, LeaseQuery, LeaseRequest, Renewed};
use lockkeeper_store::{PostgresStore, Store};
use lockkeeper_testbed::{PgBouncer, Postgres, Proxy, Replication, StopMode, TestDatabase};

use crate::lockers::{Lockers, acquire, ask, next_news, release, waiting};
use crate::tools::{LONG, blocking, database, eventually, execute, impatient, key, must_commit, next, open, open_with};

async fn wait_for_listeners(database: &Arc<TestDatabase>, count: usize) {
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()";
    eventually("the nodes listen", || async { execute(database, listening).await == count.to_string() }).await;
}

async fn asked(store: &PostgresStore, request: LeaseRequest) -> Asked {
    match store.lease(request).await.expect("an answer") {
        LeaseAnswer::Asked(asked) => asked,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_tell_each_other_who_is_next() {
    let database = database().await;
    let (here, there) = (open(&database.url()).await, open(&database.url()).await);
    let (mut news_here, mut news_there) = (here.woken(), there.woken());
    wait_for_listeners(&database, 2).await;
    let mut holder = ask("here", "r", LONG * 10);
    acquire(&here, &holder).await;
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        // Nobody asks from time to time here: without news it would not go on.
        let (store, other) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let waiter = ask("waiter", "r", LONG * 10);
        assert!(matches!(asked(other, waiting(&waiter)).await, Asked::Waiting { .. }));
        let begun = Instant::now();
        assert_eq!(release(store, holder.lease()).await, Ended::Released);
        // Both hear of it, each once: the one from the other.
        assert_eq!(next_news(&mut news_here).await, Ok(waiter.lease()));
        assert_eq!(next_news(&mut news_there).await, Ok(waiter.lease()));
        assert!(matches!(asked(other, waiting(&waiter)).await, Asked::Granted { .. }));
        slowest = slowest.max(begun.elapsed());
        holder = waiter;
    }
    assert!(news_here.try_recv().is_err() && news_there.try_recv().is_err(), "nobody is told twice");
    assert!(slowest < LONG / 4, "{slowest:?}");
}

/// The connection that listens is ended by the server, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_comes_back() {
    let database = database().await;
    let (here, there) = (open(&database.url()).await, open(&database.url()).await);
    let mut news = there.woken();
    wait_for_listeners(&database, 1).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE query LIKE 'LISTEN%' AND datname = current_database()";
    assert_eq!(execute(&database, end).await, "1");
    eventually("the listener comes back", || async {
        let alive = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()";
        execute(&database, alive).await == "1"
    })
    .await;
    let holder = ask("here", "r", LONG);
    acquire(&here, &holder).await;
    let waiter = ask("there", "r", LONG);
    assert!(matches!(asked(&there, waiting(&waiter)).await, Asked::Waiting { .. }));
    release(&here, holder.lease()).await;
    assert_eq!(next_news(&mut news).await, Ok(waiter.lease()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_locks_does_not_listen() {
    let database = database().await;
    let store = open(&database.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    wait_for_listeners(&database, 0).await;
    // And one that is dropped leaves nobody behind.
    let news = store.woken();
    wait_for_listeners(&database, 1).await;
    drop((news, store));
    wait_for_listeners(&database, 0).await;
}

/// A node is stopped between the two halves of a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_holds_nobody_up() {
    let server = Arc::new(blocking(Postgres::start).await);
    let proxy = Proxy::start(server.address());
    let stopped = open(&format!("postgres://postgres@{}/postgres", proxy.address())).await;
    let other = open(&server.url()).await;
    // Leaves a connection at rest.
    release(&stopped, ask("stopped", "r", LONG).lease()).await;
    let watched = server.clone();
    let session = blocking(move || {
        let session = watched.session();
        session.execute("BEGIN; SELECT pg_advisory_xact_lock(1282100083, lockkeeper.lease_key('r'))");
        session
    })
    .await;
    let late = ask("stopped", "r", LONG * 10);
    let under_way = tokio::spawn({
        let (stopped, request) = (stopped.clone(), waiting(&late));
        async move { stopped.lease(request).await }
    });
    let count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%lease_open%' AND ";
    let waits = format!("{count} wait_event_type = 'Lock'");
    eventually("it waits for the name", || async {
        let (server, waits) = (server.clone(), waits.clone());
        blocking(move || server.execute(&waits)).await == "1"
    })
    .await;
    // What it sends from here on does not arrive.
    proxy.hold_requests();
    blocking(move || {
        session.execute("COMMIT");
    })
    .await;
    let idle = format!("{count} state = 'idle in transaction'");
    eventually("it has the name, and stands still", || async {
        let (server, idle) = (server.clone(), idle.clone());
        blocking(move || server.execute(&idle)).await == "1"
    })
    .await;
    let (begun, instead) = (Instant::now(), ask("other", "r", LONG * 10));
    let granted = asked(&other, waiting(&instead)).await;
    let took = begun.elapsed();
    assert!(matches!(granted, Asked::Granted { .. }), "{granted:?}");
    assert!(took < LONG / 4, "{took:?}");
    proxy.resume();
    // Whatever it is told, it has not got it; and it goes on.
    let _told = under_way.await.expect("no panic");
    eventually("it hears who has it", || async {
        matches!(stopped.lease(waiting(&late)).await, Ok(LeaseAnswer::Asked(Asked::Waiting { .. })))
    })
    .await;
    assert_eq!(release(&other, instead.lease()).await, Ended::Released);
    acquire(&stopped, &late).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_two_whatever_becomes_of_the_server() {
    let mut server = blocking(Postgres::start).await;
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let lockers = Lockers::start(&stores, &["a", "b"], 4);
    for round in 0..8 {
        // Another place in the work each time.
        lockers.progress(20 + 7 * round).await;
        server = blocking(move || {
            match round % 3 {
                0 => server.kill(),
                1 => server.stop(StopMode::Immediate),
                _ => server.stop(StopMode::Fast),
            }
            server.restart();
            server
        })
        .await;
    }
    lockers.progress(50).await;
    lockers.check().await;
}

/// What the standby had not received is forgotten, holders and fences; the fences of the new life are above them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_over_the_promotion_of_a_standby_that_lagged() {
    let (mut primary, mut standby) = blocking(|| {
        let primary = Postgres::start();
        let standby = primary.standby(Replication::Asynchronous);
        (primary, standby)
    })
    .await;
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let store = open_with(impatient(&format!("postgres://postgres@{hosts}/postgres"))).await;
    let kept = ask("kept", "kept", LONG * 10);
    acquire(&store, &kept).await;
    standby = blocking(move || {
        while standby.try_execute("SELECT count(*) FROM lockkeeper.lease_holders").as_deref() != Ok("1") {}
        standby.stop(StopMode::Fast);
        standby
    })
    .await;
    let mut last = 0;
    for _ in 0..20 {
        let one = ask("lost", "r", LONG);
        let fence = acquire(&store, &one).await;
        assert!(fence > last);
        last = fence;
        release(&store, one.lease()).await;
    }
    let forgotten = ask("forgotten", "r", LONG * 10);
    last = acquire(&store, &forgotten).await;
    let floor = store.fence_floor(last + 1).await.expect("an answer");
    blocking(move || primary.kill()).await;
    let standby = blocking(move || {
        standby.restart();
        standby.promote();
        standby
    })
    .await;
    eventually("the standby serves", || async { store.ping().await.is_ok() }).await;
    let renewed = |lease| store.lease(LeaseRequest::Renew { lease });
    assert!(matches!(renewed(kept.lease()).await, Ok(LeaseAnswer::Renewed(Renewed::Renewed { .. }))));
    let lost = renewed(forgotten.lease()).await;
    assert!(matches!(lost, Ok(LeaseAnswer::Renewed(Renewed::Lost { .. }))), "{lost:?}");
    assert!(acquire(&store, &ask("next", "r", LONG)).await > last);
    assert!(store.fence_floor(0).await.expect("an answer") >= floor, "it has not fallen");
    drop(standby);
}

/// Longer than what one transaction loads of it, asked for at once, with places that lapse in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_is_served_in_its_order() {
    const WAITERS: usize = 150;
    let server = Arc::new(blocking(Postgres::start).await);
    let store = open(&server.url()).await;
    let holder = ask("first", "r", LONG * 100);
    acquire(&store, &holder).await;
    let before = committed(&server).await;
    let waiters: Vec<Ask> = (0..WAITERS).map(|n| ask(&format!("{n}"), "r", LONG * 100)).collect();
    // Every third keeps its place for a moment only.
    let keep = |n: usize| if n % 3 == 2 { Duration::from_millis(1) } else { LONG * 100 };
    let asks = waiters.iter().enumerate().map(|(n, ask)| {
        let request = LeaseRequest::Ask { ask: ask.clone(), keep: Some(keep(n)) };
        asked(&store, request)
    });
    let told = join_all(asks).await;
    let transactions = committed(&server).await - before;
    assert!(transactions < WAITERS / 2, "{transactions} transactions for {WAITERS} requests that came together");
    assert!(told.iter().all(|told| matches!(told, Asked::Waiting { .. })), "{told:?}");
    let page = store.leases(&LeaseQuery { after: None, limit: 10 }).await.expect("an answer");
    assert_eq!((page.resources.len(), page.resources[0].waiters), (1, WAITERS as u64 - WAITERS as u64 / 3));
    assert_eq!(store.lease_edges().await.expect("an answer").len(), WAITERS - WAITERS / 3, "each for one");
    let queue = "SELECT string_agg(lease::text, ' ' ORDER BY ticket) FROM lockkeeper.lease_waiters
        WHERE lapses_ms > extract(epoch FROM now() + interval '1 minute') * 1000";
    let its = server.clone();
    let queue = blocking(move || its.execute(queue)).await;
    // Whoever looks takes away what has lapsed.
    let look = LeaseRequest::Ask { ask: ask("passer-by", "r", LONG), keep: None };
    assert!(matches!(asked(&store, look).await, Asked::Held(_)));
    let mut news = store.woken();
    let mut lease = holder.lease();
    for next in queue.split(' ') {
        let waiter = waiters.iter().find(|waiter| waiter.lease().as_uuid().to_string() == next).expect("one of ours");
        assert_eq!(release(&store, lease).await, Ended::Released);
        assert_eq!(next_news(&mut news).await, Ok(waiter.lease()));
        assert!(matches!(asked(&store, waiting(waiter)).await, Asked::Granted { .. }));
        lease = waiter.lease();
    }
    assert_eq!(release(&store, lease).await, Ended::Released);
    assert!(news.try_recv().is_err(), "each is told once");
    for table in ["holders", "waiters"] {
        let (server, count) = (server.clone(), format!("SELECT count(*) FROM lockkeeper.lease_{table}"));
        assert_eq!(blocking(move || server.execute(&count)).await, "0", "{table}");
    }
}

/// How many transactions have written something so far.
async fn committed(server: &Arc<Postgres>) -> usize {
    let server = server.clone();
    let next = blocking(move || server.execute("SELECT pg_current_xact_id()::text")).await;
    next.parse().expect("a number")
}

/// The answer is lost, the grant is not: whoever asks again has it, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let server = blocking(Postgres::start).await;
    let proxy = Proxy::start(server.address());
    let cut_off = open_with(impatient(&format!("postgres://postgres@{}/postgres", proxy.address()))).await;
    let beside = open(&server.url()).await;
    // Leaves a connection at rest.
    release(&cut_off, ask("x", "x", LONG).lease()).await;
    for round in 0..10 {
        let name = format!("r{round}");
        let (first, other) = (ask("first", &name, LONG * 10), ask("other", &name, LONG * 10));
        let under_way = tokio::spawn({
            let (store, request) = (cut_off.clone(), waiting(&first));
            async move { store.lease(request).await }
        });
        // Another place in the work each time.
        tokio::time::sleep(Duration::from_micros(500 * round)).await;
        proxy.cut();
        let told = under_way.await.expect("no panic");
        proxy.resume();
        let fence = acquire(&cut_off, &first).await;
        if let Ok(LeaseAnswer::Asked(Asked::Granted { fences })) = told {
            assert_eq!(fences, [fence]);
        }
        assert!(matches!(asked(&beside, waiting(&other)).await, Asked::Waiting { .. }));
        assert_eq!(release(&cut_off, first.lease()).await, Ended::Released);
        assert!(acquire(&beside, &other).await > fence);
    }
}

/// Behind a pooler nobody can listen: whoever waits asks from time to time. No session of its is left listening.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_are_taken_behind_a_pooler() {
    let (server, pooler) = blocking(|| {
        let server = Postgres::start();
        let pooler = PgBouncer::start_with(server.address(), 3);
        (server, pooler)
    })
    .await;
    let stores = [open(&pooler.url("postgres")).await, open(&server.url()).await];
    let lockers = Lockers::start(&stores, &["a", "b"], 4);
    lockers.progress(100).await;
    lockers.check().await;
    let server = Arc::new(server);
    let listening = server.clone();
    let listening =
        blocking(move || listening.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"));
    assert_eq!(listening.await, "1", "only the node that has sessions of its own listens");
}
