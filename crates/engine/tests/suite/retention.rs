//! What is purged, what stays of it, and what goes on meanwhile.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_engine::{Clock, ManualClock, Options, PurgeQuery, PurgeStep, Retention, SystemClock};
use lockkeeper_model::{Refusal, Timestamp, WorkflowName};
use serde_json::json;

use super::support::{House, event, key, name};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn house(retention: Retention) -> (House, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    (House::with(Options { clock: clock.clone(), retention, ..Options::default() }).await, clock)
}

fn query(before: Timestamp) -> PurgeQuery {
    PurgeQuery { workflow: WorkflowName::new("case").unwrap(), id: None, before, dry_run: false, cursor: None }
}

async fn purge_all(house: &House, query: &PurgeQuery) -> (usize, usize) {
    let (mut query, mut all) = (query.clone(), (0, 0));
    loop {
        let PurgeStep { instances, events, next } = house.engine.purge_closed(&query).await.unwrap();
        all = (all.0 + instances, all.1 + events);
        query.cursor = next;
        if query.cursor.is_none() {
            return all;
        }
    }
}

async fn send(house: &House, id: &str, what: &str) {
    assert_eq!(name(&house.engine.send(event(id, what, "bob"), None).await), "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_goes_on_after_a_purge() {
    let (house, clock) = house(Retention::default()).await;
    for id in ["old", "open", "young"] {
        house.start(id, json!({ "secret": "x" })).await;
        send(&house, id, "note").await;
    }
    send(&house, "old", "finish").await;
    clock.advance(2 * DAY);
    send(&house, "young", "finish").await;
    let before = clock.now() - DAY;
    let dry = PurgeQuery { dry_run: true, ..query(before) };
    assert_eq!(purge_all(&house, &dry).await, (1, 0));
    assert_eq!(purge_all(&house, &query(before)).await, (1, 3));
    assert_eq!(purge_all(&house, &query(before)).await, (0, 0), "it is done once");
    let gone = house.engine.instance(&key("old"), false).await;
    assert!(matches!(gone, Err(Refusal::UnknownInstance { .. })), "{gone:?}");
    assert_eq!(house.history("old").await.len(), 0);
    assert_eq!(house.history("young").await.len(), 3);
    let list = house.engine.instances(&WorkflowName::new("case").unwrap(), Default::default()).await;
    let _ = list.map(|page| assert!(page.items.iter().all(|(id, _)| id != "old")));
    // What it was is known still: it has ended.
    let late = house.engine.send(event("old", "note", "bob"), None).await;
    assert!(matches!(late.result, Err(Refusal::StateMismatch { .. })), "{late:?}");
    house.start("old", json!({})).await;
    let history = house.history("old").await;
    assert_eq!(history.iter().map(|item| item.version).collect::<Vec<_>>(), [4], "above all that was");
    assert_eq!(house.engine.instance(&key("old"), false).await.unwrap().version, 4);
    send(&house, "old", "note").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_can_be_purged_and_never_one_that_runs() {
    let (house, clock) = house(Retention::default()).await;
    for id in ["a", "b"] {
        house.start(id, json!({})).await;
    }
    send(&house, "a", "finish").await;
    clock.advance(DAY);
    let one = |id: &str| PurgeQuery { id: Some(id.to_owned()), ..query(clock.now()) };
    assert_eq!(purge_all(&house, &one("b")).await, (0, 0), "it runs");
    assert_eq!(purge_all(&house, &one("a")).await, (1, 2));
    let unknown = house.engine.purge_closed(&one("nobody")).await;
    assert!(matches!(unknown, Err(Refusal::UnknownInstance { .. })));
    let foreign = PurgeQuery { cursor: Some("x".to_owned()), ..query(clock.now()) };
    assert!(matches!(house.engine.purge_closed(&foreign).await, Err(Refusal::Malformed { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_forgets_what_is_older_than_it_is_kept() {
    let (house, clock) = house(Retention { closed: Some(30 * DAY), history: Some(10 * DAY) }).await;
    for id in ["long", "closed"] {
        house.start(id, json!({})).await;
        send(&house, id, "note").await;
    }
    send(&house, "closed", "finish").await;
    clock.advance(20 * DAY);
    send(&house, "long", "note").await;
    house.engine.sweep().await.unwrap();
    let versions = async |id: &str| house.history(id).await.iter().map(|item| item.version).collect::<Vec<_>>();
    assert_eq!(versions("long").await, [3], "from the oldest that is kept");
    assert_eq!(versions("closed").await, [3], "the last change stays");
    clock.advance(20 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!((versions("long").await, versions("closed").await), (vec![3], vec![]));
    assert_eq!((house.engine.purged().instances, house.engine.purged().events), (1, 5));
    send(&house, "long", "note").await;
    assert_eq!(versions("long").await, [3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_go_on_while_it_is_purged() {
    const IDS: usize = 20;
    let (house, clock) = house(Retention { closed: Some(DAY), history: Some(DAY) }).await;
    for n in 0..IDS {
        house.start(&format!("c{n}"), json!({})).await;
        send(&house, &format!("c{n}"), "note").await;
        send(&house, &format!("c{n}"), "finish").await;
    }
    house.start("live", json!({})).await;
    clock.advance(2 * DAY);
    let engine = house.engine.clone();
    let sweeping = tokio::spawn(async move { engine.sweep().await });
    // Some of them begin again at the same time, whether they are purged by then or not.
    for n in 0..IDS {
        send(&house, "live", "note").await;
        if n % 2 == 0 {
            house.start(&format!("c{n}"), json!({})).await;
            send(&house, &format!("c{n}"), "note").await;
        }
    }
    sweeping.await.unwrap().unwrap();
    house.engine.sweep().await.unwrap();
    for n in 0..IDS {
        let history = house.history(&format!("c{n}")).await;
        let versions: Vec<i64> = history.iter().map(|item| item.version).collect();
        if n % 2 == 0 {
            assert_eq!(versions.last(), Some(&5), "c{n}");
        }
        assert!(versions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{versions:?}");
        lockkeeper_model::history::check(history.iter().map(|item| (item.version, &item.entry))).unwrap();
    }
    assert_eq!(house.history("live").await.last().unwrap().version, IDS as i64 + 1);
}
