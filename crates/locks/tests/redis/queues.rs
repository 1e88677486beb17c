//! Waiting on many nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_locks::{LeaseQuery, LockService as _, RedisLocks, Release};
use lockkeeper_testbed::Redis;

use crate::bench::{LONG, ask, open, server, until};

async fn waiters(service: &RedisLocks, resource: &str) -> u64 {
    let page = service.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
    page.resources.iter().find(|view| &*view.resource == resource).map_or(0, |view| view.waiters)
}

/// Whoever waits on another node hears of a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_heard_of_on_other_nodes() {
    let server = server().await;
    let (here, there) = (open(&server.url()).await, Arc::new(open(&server.url()).await));
    let ann = ask("ann", "r", LONG);
    here.acquire(&ann, Duration::ZERO).await.expect("free");
    let waiting = tokio::spawn({
        let (there, bob) = (there.clone(), ask("bob", "r", LONG));
        async move { there.acquire(&bob, LONG).await }
    });
    until(|| async { (waiters(&here, "r").await == 1).then_some(()) }).await;
    let begun = Instant::now();
    here.release(ann.lease(), true).await.expect("an answer");
    waiting.await.expect("no panic").expect("a grant");
    assert!(begun.elapsed() < Duration::from_millis(500), "after {:?}", begun.elapsed());
}

/// L9: the head of the queue is gone with its node; its place runs out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_died_with_its_node_is_passed() {
    let server = server().await;
    let (here, there) = (Arc::new(open(&server.url()).await), open(&server.url()).await);
    let ttl = Duration::from_millis(600);
    let holder = ask("holder", "r", LONG);
    here.acquire(&holder, Duration::ZERO).await.expect("free");
    let first = tokio::spawn(async move { there.acquire(&ask("first", "r", ttl), LONG).await });
    until(|| async { (waiters(&here, "r").await == 1).then_some(()) }).await;
    let second = tokio::spawn({
        let here = here.clone();
        async move { here.acquire(&ask("second", "r", ttl), LONG).await }
    });
    until(|| async { (waiters(&here, "r").await == 2).then_some(()) }).await;
    first.abort();
    here.release(holder.lease(), true).await.expect("an answer");
    let begun = Instant::now();
    second.await.expect("no panic").expect("a grant");
    // A place lasts for a third of the time to live, and half a second at least, after the next ask is due.
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
}

/// L9: a lease runs out and nobody says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_lease_that_runs_out_gets_it() {
    let server = server().await;
    let (here, there) = (open(&server.url()).await, open(&server.url()).await);
    let ttl = Duration::from_millis(700);
    here.acquire(&ask("holder", "r", ttl), Duration::ZERO).await.expect("free");
    drop(here);
    let begun = Instant::now();
    there.acquire(&ask("next", "r", LONG), LONG).await.expect("it has run out");
    assert!(begun.elapsed() < ttl + Duration::from_millis(500), "after {:?}", begun.elapsed());
}

/// A node of before grants were made ahead does not write for how long who waits wants to hold it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_by_a_node_of_the_release_before_asks_again() {
    let server = server().await;
    let service = Arc::new(open(&server.url()).await);
    let (holder, next) = (ask("holder", "r", LONG), ask("next", "r", LONG));
    service.acquire(&holder, Duration::ZERO).await.expect("free");
    let waiting = tokio::spawn({
        let (service, next) = (service.clone(), next.clone());
        async move { service.acquire(&next, LONG).await }
    });
    until(|| async { (waiters(&service, "r").await == 1).then_some(()) }).await;
    let row = format!("lockkeeper:{{locks}}:lease:{}", next.lease());
    assert_eq!(server.command(&["HDEL", &row, "ttl"]).int(), Some(1));
    let begun = Instant::now();
    assert_eq!(service.release(holder.lease(), true).await, Ok(Release::Released));
    waiting.await.expect("no panic").expect("a grant");
    assert!(begun.elapsed() < Duration::from_secs(1), "after {:?}", begun.elapsed());
}

/// What one hand-off costs the server with so many waiting: requests, news, and commands within the scripts.
async fn cost(server: &Redis, nodes: &[Arc<RedisLocks>], count: usize) -> (f64, f64, f64) {
    let resource = format!("with {count}");
    let holder = ask("holder", &resource, LONG);
    nodes[0].acquire(&holder, Duration::ZERO).await.expect("free");
    let waiting: Vec<_> = (0..count)
        .map(|n| {
            let (node, ask) = (nodes[n % nodes.len()].clone(), ask(&format!("o{n}"), &resource, LONG));
            tokio::spawn(async move {
                node.acquire(&ask, LONG).await.expect("its turn comes");
                node.release(ask.lease(), false).await.expect("an answer");
            })
        })
        .collect();
    until(|| async { (waiters(&nodes[0], &resource).await == count as u64).then_some(()) }).await;
    server.command(&["CONFIG", "RESETSTAT"]);
    nodes[0].release(holder.lease(), false).await.expect("an answer");
    for task in waiting {
        task.await.expect("no panic");
    }
    let all = server.all_calls();
    let calls = |name: &str| all.iter().filter(|(its, _)| its == name).map(|(_, calls)| *calls).sum::<u64>();
    let total: u64 = all.iter().map(|(_, calls)| *calls).sum();
    let each = |calls: u64| calls as f64 / count as f64;
    (each(calls("evalsha")), each(calls("publish")), each(total))
}

/// L14: one is woken for each hand-off, and that costs the same however many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_costs_the_same_with_a_thousand_waiters() {
    let server = server().await;
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(Arc::new(open(&server.url()).await));
    }
    cost(&server, &nodes, 4).await;
    let (requests_4, news_4, commands_4) = cost(&server, &nodes, 4).await;
    let (requests, news, commands) = cost(&server, &nodes, 1_000).await;
    println!("4 waiters: {requests_4} requests, {news_4} news, {commands_4} commands for each hand-off");
    println!("1,000 waiters: {requests} requests, {news} news, {commands} commands for each hand-off");
    assert!(news <= 1.001, "one is woken");
    // A release and an ask; a few that wait ask from time to time.
    assert!(requests <= requests_4 + 0.5, "{requests} requests, {requests_4} with 4 who wait");
    assert!(commands <= commands_4 * 1.2, "{commands} commands, {commands_4} with 4 who wait");
}
