//! What falls due: fired once, whoever looks, however often, and whatever the clocks of the nodes say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use lockkeeper_engine::{Answer, Clock, Engine, HistoryItem, ManualClock, Options};
use lockkeeper_locks::Locks;
use lockkeeper_model::{Action, Fire, InstanceKey, Kind, Start, Status, Timestamp, history};
use lockkeeper_store::Alarm;
use uuid::Uuid;

use super::support::{Fault, FaultyStore, Ground, command, event, key, name, put};

const PURCHASE: &str = "
workflow: case
initial: open
states:
  open: {on: {submit: review, finish: done}, after: {1h: {assign: {first: 1}}, 3h: {assign: {third: 1}}, 2h: {assign: {second: 1}}}}
  review: {on: {approve: done, note: {assign: {n: 1}}}, after: {72h: escalated}}
  escalated: {on: {approve: done}}
  done: {type: final}
";

/// Longer than anything here takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(20);

/// Fires, and looks often.
fn looking() -> Options {
    Options { timers_poll: Some(Duration::from_millis(50)), ..Options::default() }
}

/// Fires nothing.
fn quiet() -> Options {
    Options { timers_poll: None, ..Options::default() }
}

/// A clock that stands so far from now. What is due is told by the store's clock, which is the machine's.
fn clock(from_now: TimeDelta) -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(Utc::now() + from_now))
}

async fn start(engine: &Engine, id: &str) {
    start_for(engine, id, None).await;
}

/// The version that it is at then.
async fn start_for(engine: &Engine, id: &str, execution_timeout_ms: Option<u64>) -> i64 {
    let start = Start { run: Uuid::new_v4(), execution_timeout_ms, ..Start::default() };
    engine.send(command(id, Action::Start(start), "ann"), None).await.result.expect("started").version
}

async fn send(engine: &Engine, id: &str, what: &str) -> Answer {
    engine.send(event(id, what, "ann"), None).await
}

fn fire(id: &str, until: Timestamp) -> lockkeeper_model::Command {
    lockkeeper_model::Command { actor: Fire::actor(), ..command(id, Action::Fire(Fire { until }), "timer") }
}

/// The history, once it has come to so many versions.
async fn history_of(engine: &Engine, id: &str, versions: i64) -> Vec<HistoryItem> {
    let grown = engine.history(&key(id), versions - 1, 1, LONG).await.unwrap();
    assert!(!grown.items.is_empty(), "{id} has not come to version {versions}");
    let items = engine.history(&key(id), 0, 999, Duration::ZERO).await.unwrap().items;
    history::check(items.iter().map(|item| (item.version, &item.entry))).unwrap();
    items
}

fn fired(items: &[HistoryItem]) -> Vec<&str> {
    items.iter().filter(|item| item.entry.kind == Kind::Timer).filter_map(|item| item.entry.after.as_deref()).collect()
}

/// Both nodes have looked since: whatever would be fired twice has been.
async fn looked(engines: [&Engine; 2], id: &str) {
    for engine in engines {
        let version = start_for(engine, id, Some(1)).await;
        history_of(engine, id, version + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_fires_when_it_is_due_and_no_sooner() {
    let Ground { store, place, .. } = crate::ground().await;
    // The node hears of its own timers, however seldom it looks.
    let engine = Engine::new(store, Options { timers_poll: Some(LONG), ..Options::default() });
    put(&engine, "case", &PURCHASE.replace("72h", "300ms")).await;
    start(&engine, "a").await;
    send(&engine, "a", "submit").await.result.unwrap();
    let items = history_of(&engine, "a", 3).await;
    let entry = &items[2].entry;
    assert_eq!((&entry.kind, entry.to.as_str(), entry.actor.id.as_str()), (&Kind::Timer, "escalated", "timer"));
    assert_eq!((entry.after.as_deref(), &entry.event), (Some("300ms"), &None));
    // The clocks of the node and of the store are one here, read in turn.
    assert!(entry.at - items[1].entry.at >= TimeDelta::milliseconds(295), "{:?}", entry.at - items[1].entry.at);
    assert_eq!(engine.timer_figures().fired, 1);
    engine.shutdown().await;
    drop(place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_fire_each_once() {
    const CASES: usize = 60;
    let Ground { store, other, place, .. } = crate::ground().await;
    let quiet = Engine::new(store.clone(), Options { clock: clock(TimeDelta::hours(-100)), ..quiet() });
    put(&quiet, "case", PURCHASE).await;
    for n in 0..CASES {
        start(&quiet, &n.to_string()).await;
        send(&quiet, &n.to_string(), "submit").await.result.unwrap();
    }
    let engines = [Engine::new(store, looking()), Engine::new(other, looking())];
    for n in 0..CASES {
        history_of(&engines[0], &n.to_string(), 3).await;
    }
    looked([&engines[0], &engines[1]], "after").await;
    for n in 0..CASES {
        assert_eq!(fired(&history_of(&engines[1], &n.to_string(), 3).await), ["72h"]);
    }
    drop((engines, place));
}

/// M11: due, two nodes restarted at once, the clock set back by an hour between the look and the firing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_fires_none_twice_and_holds_none_up() {
    let Ground { store, other, place, .. } = crate::ground().await;
    let quiet = Engine::new(store.clone(), Options { clock: clock(TimeDelta::hours(-73)), ..quiet() });
    put(&quiet, "case", PURCHASE).await;
    let ids: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    for id in &ids {
        start(&quiet, id).await;
        send(&quiet, id, "submit").await.result.unwrap();
    }
    // By the clocks of these nodes nothing is due for three days.
    let back = || Options { clock: clock(TimeDelta::hours(-74)), ..looking() };
    let engines = [Engine::new(store, back()), Engine::new(other, back())];
    for id in &ids {
        let items = history_of(&engines[0], id, 3).await;
        assert_eq!(fired(&items), ["72h"]);
        assert!(items[2].entry.at > items[1].entry.at, "no earlier than the store says that it was due");
    }
    let until = Utc::now();
    for id in &ids {
        for engine in &engines {
            assert_eq!(name(&engine.send(fire(id, until), None).await), "already_applied");
        }
        assert_eq!(history_of(&engines[1], id, 3).await.len(), 3);
    }
    drop((engines, place));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_ones_fire_at_the_start_oldest_first() {
    let Ground { store, place, .. } = crate::ground().await;
    let quiet = Engine::new(store.clone(), Options { clock: clock(TimeDelta::hours(-5)), ..quiet() });
    put(&quiet, "case", PURCHASE).await;
    start(&quiet, "a").await;
    assert_eq!(quiet.instance(&key("a"), false).await.unwrap().timers.len(), 3);
    let engine = Engine::new(store, Options { timers_poll: Some(LONG), ..Options::default() });
    assert_eq!(fired(&history_of(&engine, "a", 4).await), ["1h", "2h", "3h"]);
    let data = engine.instance(&key("a"), false).await.unwrap().data.clone();
    assert_eq!(serde_json::to_value(&*data).unwrap(), serde_json::json!({"first": 1, "second": 1, "third": 1}));
    drop((engine, place));
}

/// Whichever comes first takes the visit; the other is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_and_a_timer_of_one_moment_meet_once() {
    const PAIRS: usize = 60;
    let Ground { store, other, place, .. } = crate::ground().await;
    let engine = Engine::new(store, quiet());
    let node = Engine::new(other, quiet());
    put(&engine, "case", PURCHASE).await;
    let (mut timers, mut events) = (0, 0);
    for n in 0..PAIRS {
        let id = n.to_string();
        start(&engine, &id).await;
        send(&engine, &id, "submit").await.result.unwrap();
        let due = engine.instance(&key(&id), false).await.unwrap().next_due().unwrap();
        // From two nodes, or within one batch; either may be first.
        let rival = if n % 3 == 0 { &engine } else { &node };
        let (timer, event) = match n % 2 {
            0 => tokio::join!(engine.send(fire(&id, due), None), rival.send(event(&id, "approve", "bob"), None)),
            _ => {
                let (event, timer) =
                    tokio::join!(rival.send(event(&id, "approve", "bob"), None), engine.send(fire(&id, due), None));
                (timer, event)
            }
        };
        let items = history_of(&engine, &id, 3).await;
        match (name(&timer), name(&event)) {
            // From the state that the timer led to, the event is a move too.
            ("applied", "applied") => {
                timers += 1;
                assert_eq!(
                    (fired(&items).len(), items.len(), items[3].entry.from.as_deref()),
                    (1, 4, Some("escalated"))
                );
            }
            ("already_applied", "applied") => {
                events += 1;
                assert_eq!((fired(&items).len(), items.len()), (0, 3));
            }
            told => panic!("{told:?}: {timer:?} {event:?}"),
        }
    }
    assert_eq!(timers + events, PAIRS);
    drop((engine, node, place));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_once_when_its_time_is_over_restart_or_not() {
    let Ground { store, other, place, .. } = crate::ground().await;
    let quiet = Engine::new(store.clone(), quiet());
    put(&quiet, "case", PURCHASE).await;
    start_for(&quiet, "a", Some(1)).await;
    start_for(&quiet, "ends", Some(3_600_000)).await;
    send(&quiet, "ends", "finish").await.result.unwrap();
    assert_eq!(quiet.instance(&key("ends"), false).await.unwrap().deadline, None);
    let engines = [Engine::new(store, looking()), Engine::new(other, looking())];
    let items = history_of(&engines[0], "a", 2).await;
    assert_eq!((items.len(), &items[1].entry.kind), (2, &Kind::TimedOut));
    looked([&engines[1], &engines[0]], "b").await;
    for engine in &engines {
        let instance = engine.instance(&key("a"), false).await.unwrap();
        assert_eq!((instance.status, instance.version, instance.next_due()), (Status::TimedOut, 2, None));
        assert_eq!(name(&send(engine, "a", "submit").await), "state_mismatch");
    }
    start(&engines[0], "a").await;
    assert_eq!(engines[1].instance(&key("a"), false).await.unwrap().deadline, None);
    drop((engines, place));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_commit_as_the_workflow_says() {
    for concurrency in
        ["{strategy: pessimistic}", "{strategy: optimistic}", "{strategy: distributed, lock_key: instance.id}"]
    {
        let Ground { store, locks, place, .. } = crate::ground().await;
        let engine = Engine::new(store, Options { locks: Some(Locks::new(locks)), ..looking() });
        let text = PURCHASE
            .replace("72h", "1ms")
            .replace("initial: open", &format!("initial: open\nconcurrency: {concurrency}"));
        put(&engine, "case", &text).await;
        start(&engine, "a").await;
        send(&engine, "a", "submit").await.result.unwrap();
        assert_eq!(fired(&history_of(&engine, "a", 3).await), ["1ms"], "{concurrency}");
        engine.shutdown().await;
        drop(place);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_that_is_nobodys_is_taken_away() {
    let Ground { store: sound, place, .. } = crate::ground().await;
    let store = FaultyStore::new(sound.clone());
    let quiet = Engine::new(sound.clone(), quiet());
    put(&quiet, "case", PURCHASE).await;
    start(&quiet, "a").await;
    send(&quiet, "a", "submit").await.result.unwrap();
    // As a node of an earlier release leaves it, which knows of no alarms.
    let record = lockkeeper_store::RecordKey::new("case", "a");
    assert_eq!(sound.set_alarm(&record, 2, Alarm::At(Utc::now() - TimeDelta::hours(1))).await, Ok(true));
    let engine = Engine::new(store.clone(), looking());
    let mut set = store.alarms.subscribe();
    tokio::time::timeout(LONG, set.wait_for(|set| *set == 1)).await.expect("in time").unwrap();
    let due = quiet.instance(&key("a"), false).await.unwrap().next_due();
    let left = sound.due(10).await.unwrap();
    assert_eq!((left.records, left.next), (Vec::new(), due), "it is what the instance says");
    assert_eq!(engine.instance(&key("a"), false).await.unwrap().version, 2);
    drop((engine, place));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_fires_none_twice() {
    let Ground { store: sound, place, .. } = crate::ground().await;
    let store = FaultyStore::new(sound.clone());
    let quiet = Engine::new(sound, Options { clock: clock(TimeDelta::hours(-73)), ..quiet() });
    put(&quiet, "case", PURCHASE).await;
    for id in ["a", "b"] {
        start(&quiet, id).await;
        send(&quiet, id, "submit").await.result.unwrap();
    }
    store.next(Fault::AnswerLost);
    store.next(Fault::AnswerLost);
    let engine = Engine::new(store.clone(), looking());
    for id in ["a", "b"] {
        assert_eq!(fired(&history_of(&engine, id, 3).await), ["72h"]);
        assert_eq!(name(&engine.send(fire(id, Utc::now()), None).await), "already_applied");
        assert_eq!(history_of(&engine, id, 3).await.len(), 3);
    }
    assert!(store.commits.load(Ordering::SeqCst) >= 2);
    drop((engine, place));
}

/// No door makes such a command; if one did, its sender would gain nothing by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_due_is_not_fired_by_asking() {
    let Ground { store, place, .. } = crate::ground().await;
    let engine = Engine::new(store, quiet());
    put(&engine, "case", PURCHASE).await;
    start(&engine, "a").await;
    assert_eq!(name(&engine.send(fire("a", Utc::now()), None).await), "already_applied");
    let nobody = InstanceKey::new("case", "nobody").unwrap();
    let command = lockkeeper_model::Command { instance: nobody, ..fire("a", Utc::now()) };
    assert_eq!(name(&engine.send(command, None).await), "unknown_instance");
    drop((engine, place));
}
