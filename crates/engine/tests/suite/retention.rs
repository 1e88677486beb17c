//! What is purged, what stays of it, and what goes on meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_engine::limits::FORGET_AGE_MIN;
use lockkeeper_engine::{
    Clock, Engine, InstanceQuery, KeptFor, ManualClock, Options, PurgeQuery, PurgeStep, Retention, SystemClock,
};
use lockkeeper_model::limits::RETENTION_MIN;
use lockkeeper_model::{Refusal, Timestamp, WorkflowName};
use lockkeeper_store::limits::DATES_CLAIMED;
use serde_json::json;

use super::support::{Fault, House, WORKFLOW, event, key, name, put};

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
        let PurgeStep { instances, events, next, .. } = house.engine.purge_closed(&query).await.unwrap();
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

/// The workflow with a block `retention`.
async fn say(engine: &Engine, block: &str) {
    put(engine, "case", &format!("{WORKFLOW}retention: {block}\n")).await;
}

async fn versions(house: &House, id: &str) -> Vec<i64> {
    house.history(id).await.iter().map(|item| item.version).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_goes_before_the_node() {
    let (house, clock) = house(Retention { closed: Some(DAY), history: None }).await;
    let kept = async || house.engine.retention_of(&WorkflowName::new("case").unwrap()).await.unwrap();
    let node = |time| KeptFor { time, by_definition: false };
    let definition = |time| KeptFor { time, by_definition: true };
    assert_eq!((kept().await.closed, kept().await.history), (node(Some(DAY)), node(None)));
    for id in ["closed", "long"] {
        house.start(id, json!({})).await;
        send(&house, id, "note").await;
    }
    send(&house, "closed", "finish").await;
    // The newest counts, for those that are on an earlier one too; and whichever node has put it.
    say(&house.other, "{closed: forever, history: 10d}").await;
    assert_eq!((kept().await.closed, kept().await.history), (definition(None), definition(Some(10 * DAY))));
    clock.advance(5 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!((versions(&house, "closed").await, versions(&house, "long").await), (vec![1, 2, 3], vec![1, 2]));
    clock.advance(6 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!((versions(&house, "closed").await, versions(&house, "long").await), (vec![3], vec![2]));
    say(&house.other, "{closed: 20d}").await;
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "closed").await, [3]);
    clock.advance(10 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "closed").await, [0_i64; 0]);
    put(&house.other, "case", WORKFLOW).await;
    assert_eq!(kept().await.closed, node(Some(DAY)), "it says nothing any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_nothing_obeys_the_definition() {
    let (house, clock) = house(Retention::default()).await;
    say(&house.engine, "{closed: 1h, history: 1h}").await;
    house.start("a", json!({})).await;
    send(&house, "a", "finish").await;
    clock.advance(2 * RETENTION_MIN);
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "a").await, [0_i64; 0]);
}

/// However short the times are that somebody comes by: what a node may still need to learn the fate of a commit stays.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_may_need_to_settle_a_commit_is_never_forgotten() {
    assert!(FORGET_AGE_MIN < RETENTION_MIN);
    let none = Some(Duration::ZERO);
    let (house, clock) = house(Retention { closed: none, history: none }).await;
    house.start("a", json!({})).await;
    send(&house, "a", "note").await;
    send(&house, "a", "finish").await;
    let now = || query(clock.now() + DAY);
    for id in [None, Some("a".to_owned())] {
        let mut asked = PurgeQuery { id, ..now() };
        let mut young = 0;
        loop {
            let step = house.engine.purge_closed(&asked).await.unwrap();
            assert_eq!((step.instances, step.events), (0, 0));
            young += step.too_young;
            asked.cursor = step.next;
            if asked.cursor.is_none() {
                break;
            }
        }
        assert_eq!(young, 1, "and it is said");
    }
    clock.advance(FORGET_AGE_MIN - Duration::from_millis(1));
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "a").await, [1, 2, 3]);
    assert_eq!(purge_all(&house, &PurgeQuery { dry_run: true, ..now() }).await, (0, 0), "nor is it counted");
    clock.advance(Duration::from_millis(2));
    assert_eq!(purge_all(&house, &PurgeQuery { dry_run: true, ..now() }).await, (1, 0));
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "a").await, [0_i64; 0]);
}

/// The answer of a commit is lost; before it is settled, another node, whose clock is ahead by more than a command may take,
/// purges whatever it may. The command is answered as it was committed, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_settled_whatever_is_purged_meanwhile() {
    for what in ["note", "finish"] {
        let (house, clock) = house(Retention::default()).await;
        let ahead = Arc::new(ManualClock::new(clock.now() + FORGET_AGE_MIN / 2));
        let retention = Retention { closed: Some(Duration::ZERO), history: Some(Duration::ZERO) };
        let other = house.another(Options { clock: ahead.clone(), retention, ..Options::default() });
        house.start("a", json!({})).await;
        house.store.next(Fault::AnswerLost);
        house.store.blind.store(true, Ordering::SeqCst);
        let engine = house.engine.clone();
        let sent = tokio::spawn(async move { engine.send(event("a", what, "bob"), None).await });
        let seen = other.history(&key("a"), 1, 1, Duration::from_secs(10)).await.unwrap();
        assert_eq!(seen.items.len(), 1, "it is committed");
        if what == "note" {
            // So that it is not the last change, which always stays.
            assert_eq!(name(&other.send(event("a", "note", "eve"), None).await), "applied");
        }
        let now = PurgeQuery { id: Some("a".to_owned()), ..query(ahead.now() + DAY) };
        other.purge_closed(&now).await.unwrap();
        other.sweep().await.unwrap();
        house.store.blind.store(false, Ordering::SeqCst);
        let answer = sent.await.unwrap();
        assert_eq!((name(&answer), answer.result.unwrap().version), ("applied", 2), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_costs_what_is_due() {
    const RUNNING: u64 = 30;
    let (house, clock) = house(Retention { closed: Some(20 * DAY), history: None }).await;
    for n in 0..RUNNING {
        house.start(&format!("r{n}"), json!({})).await;
    }
    house.start("c", json!({})).await;
    send(&house, "c", "finish").await;
    let looks = async || {
        let before = house.engine.purged().looked_at;
        house.engine.sweep().await.unwrap();
        house.engine.purged().looked_at - before
    };
    assert_eq!(looks().await, 0, "nothing is old enough to look at");
    clock.advance(21 * DAY);
    assert_eq!(looks().await, RUNNING + 1, "each once");
    assert_eq!(looks().await, 0);
    // One is closed late: it is found when it is due, and those that run still are looked at once in that time.
    clock.advance(10 * DAY);
    send(&house, "r0", "finish").await;
    assert_eq!(looks().await, 0);
    clock.advance(11 * DAY);
    assert_eq!(looks().await, RUNNING + 1);
    assert_eq!(versions(&house, "r0").await, [1, 2], "it is not due yet");
    clock.advance(8 * DAY);
    assert_eq!(looks().await, 0);
    clock.advance(DAY + Duration::from_millis(1));
    assert_eq!(looks().await, 1);
    assert_eq!((versions(&house, "r0").await, house.engine.purged().instances), (vec![], 2));
}

/// More than a page of records, more than a step of events, and two who sweep at once.
#[tokio::test(flavor = "multi_thread")]
async fn much_is_forgotten_in_small_steps_by_all_nodes() {
    const IDS: usize = 230;
    const NOTES: usize = 1_100;
    let retention = Retention { closed: Some(30 * DAY), history: Some(10 * DAY) };
    let (house, clock) = house(retention).await;
    let other = house.another(Options { clock: clock.clone(), retention, ..Options::default() });
    house.start("long", json!({})).await;
    let notes: Vec<_> = (0..NOTES)
        .map(|_| {
            let engine = house.engine.clone();
            tokio::spawn(async move { engine.send(event("long", "note", "bob"), None).await })
        })
        .collect();
    for note in notes {
        assert_eq!(name(&note.await.unwrap()), "applied");
    }
    for n in 0..IDS {
        house.start(&format!("c{n}"), json!({})).await;
        send(&house, &format!("c{n}"), "finish").await;
    }
    clock.advance(11 * DAY);
    send(&house, "long", "note").await;
    let (one, two) = tokio::join!(house.engine.sweep(), other.sweep());
    one.and(two).unwrap();
    assert_eq!(versions(&house, "long").await, [NOTES as i64 + 2]);
    clock.advance(20 * DAY);
    let (one, two) = tokio::join!(house.engine.sweep(), other.sweep());
    one.and(two).unwrap();
    // What one has left, since the other kept at it, is told again when its claim has run out.
    clock.advance(2 * DATES_CLAIMED);
    house.engine.sweep().await.unwrap();
    let (one, two) = (house.engine.purged(), other.purged());
    assert_eq!(one.instances + two.instances, IDS as u64);
    assert_eq!(one.events + two.events, (NOTES + 1 + 2 * IDS) as u64);
    // For its history twice, for its end once; and for each further step of the long one. Some once more, where one node
    // was at work on what the other had to date; twice as many if both did all.
    let looks = 3 * (IDS as u64 + 1) + 2;
    let looked_at = one.looked_at + two.looked_at;
    assert!((looks..looks * 3 / 2).contains(&looked_at), "{looked_at} instead of {looks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_says_where_it_begins() {
    let (house, clock) = house(Retention { closed: Some(30 * DAY), history: Some(10 * DAY) }).await;
    house.start("a", json!({})).await;
    send(&house, "a", "note").await;
    let oldest = async |after| {
        let page = house.other.history(&key("a"), after, 2, Duration::ZERO).await.unwrap();
        (page.oldest, page.items.iter().map(|item| item.version).collect::<Vec<_>>())
    };
    assert_eq!(oldest(0).await, (1, vec![1, 2]));
    assert_eq!(oldest(1).await, (1, vec![2]));
    assert_eq!(oldest(2).await, (1, vec![]));
    clock.advance(11 * DAY);
    for _ in 0..3 {
        send(&house, "a", "note").await;
    }
    house.engine.sweep().await.unwrap();
    assert_eq!(oldest(0).await, (3, vec![3, 4]));
    assert_eq!(oldest(1).await, (3, vec![3, 4]), "whoever goes on behind it sees that something is missing");
    assert_eq!(oldest(4).await, (3, vec![5]));
    send(&house, "a", "finish").await;
    clock.advance(31 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!(oldest(0).await, (7, vec![]));
    house.start("a", json!({})).await;
    assert_eq!(oldest(0).await, (7, vec![7]));
}

/// What is purged is gone on all nodes, whatever they remember; and is no instance, however it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn no_node_tells_what_another_has_purged() {
    let (house, clock) = house(Retention::default()).await;
    let other = house.another(Options { clock: clock.clone(), ..Options::default() });
    for id in ["a", "b"] {
        house.start(id, json!({ "secret": "x" })).await;
    }
    send(&house, "a", "finish").await;
    clock.advance(DAY);
    let seen = async |id: &str| house.engine.instance(&key(id), true).await;
    assert_eq!(seen("a").await.unwrap().data["secret"], "x");
    let now = query(clock.now());
    while other.purge_closed(&PurgeQuery { id: Some("a".to_owned()), ..now.clone() }).await.unwrap().instances == 0 {}
    assert!(matches!(seen("a").await, Err(Refusal::UnknownInstance { .. })));
    // Nor after a command has been refused on what is left of it.
    let late = house.engine.send(event("a", "note", "bob"), None).await;
    assert!(matches!(late.result, Err(Refusal::StateMismatch { .. })), "{late:?}");
    for stale in [true, false] {
        let gone = house.engine.instance(&key("a"), stale).await;
        assert!(matches!(gone, Err(Refusal::UnknownInstance { .. })), "{gone:?}");
    }
    // Without the store, a node tells what it has seen: that is what a stale answer is for.
    house.store.blind.store(true, Ordering::SeqCst);
    assert_eq!(seen("b").await.unwrap().data["secret"], "x");
    house.store.blind.store(false, Ordering::SeqCst);
}

/// Nor do they take room in lists, or are named where nothing was found.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_purged_is_in_no_list() {
    let (house, clock) = house(Retention::default()).await;
    let ids = |numbers: std::ops::Range<usize>| numbers.map(|n| format!("c{n}")).collect::<Vec<_>>();
    for id in ids(0..4) {
        house.start(&id, json!({})).await;
    }
    for id in ids(4..24) {
        house.start(&id, json!({})).await;
        send(&house, &id, "finish").await;
    }
    clock.advance(DAY);
    assert_eq!(purge_all(&house, &query(clock.now())).await, (20, 40));
    let workflow = WorkflowName::new("case").unwrap();
    let mut seen = Vec::new();
    let mut asked = InstanceQuery { limit: 3, ..InstanceQuery::default() };
    loop {
        let page = house.engine.instances(&workflow, asked.clone()).await.unwrap();
        seen.push(page.items.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
        asked.cursor = page.next;
        if asked.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, [vec!["c3", "c2", "c1"], vec!["c0"]]);
    for gone in ["c20", "nobody"] {
        match house.engine.instance(&key(gone), false).await {
            Err(Refusal::UnknownInstance { known, .. }) => assert_eq!(known, ["c3", "c2", "c1", "c0"]),
            other => panic!("{other:?}"),
        }
    }
}

/// Who purges what another is purging does not count it again.
#[tokio::test(flavor = "multi_thread")]
async fn two_who_purge_at_once_have_purged_each_once() {
    const IDS: usize = 60;
    let (house, clock) = house(Retention::default()).await;
    let other = house.another(Options { clock: clock.clone(), ..Options::default() });
    for n in 0..IDS {
        house.start(&format!("c{n}"), json!({})).await;
        send(&house, &format!("c{n}"), "finish").await;
    }
    clock.advance(DAY);
    let now = query(clock.now());
    let (one, two) = tokio::join!(purge_all(&house, &now), async {
        let (mut now, mut all) = (now.clone(), (0, 0));
        loop {
            let step = other.purge_closed(&now).await.unwrap();
            all = (all.0 + step.instances, all.1 + step.events);
            now.cursor = step.next;
            if now.cursor.is_none() {
                return all;
            }
        }
    });
    let rest = purge_all(&house, &now).await;
    assert_eq!((one.0 + two.0 + rest.0, one.1 + two.1 + rest.1), (IDS, 2 * IDS));
    let (one, two) = (house.engine.purged(), other.purged());
    assert_eq!((one.instances + two.instances, one.events + two.events), (IDS as u64, 2 * IDS as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_history_keeps_no_other_from_being_forgotten() {
    let (house, clock) = house(Retention { closed: None, history: Some(10 * DAY) }).await;
    for id in ["a", "damaged", "z"] {
        house.start(id, json!({})).await;
        clock.advance(Duration::from_secs(1));
    }
    for _ in 0..2 {
        send(&house, "damaged", "note").await;
    }
    clock.advance(30 * DAY);
    for id in ["a", "damaged", "z"] {
        send(&house, id, "note").await;
    }
    // Of the others there is no such version.
    house.store.garbled.store(3, Ordering::SeqCst);
    house.engine.sweep().await.expect("it goes on");
    assert_eq!((versions(&house, "a").await, versions(&house, "z").await), (vec![2], vec![2]));
    assert_eq!(versions(&house, "damaged").await, [1, 2, 3, 4], "it stays as it is");
    // Once it can be read again, it has its turn.
    house.store.garbled.store(0, Ordering::SeqCst);
    clock.advance(11 * DAY);
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "damaged").await, [4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_cannot_tell_how_long_things_are_kept_has_failed() {
    let (house, clock) = house(Retention { closed: Some(DAY), history: None }).await;
    house.start("a", json!({})).await;
    send(&house, "a", "finish").await;
    clock.advance(2 * DAY);
    house.store.unconfirmed.store(true, Ordering::SeqCst);
    let swept = house.engine.sweep().await;
    assert!(matches!(swept, Err(Refusal::Unavailable { .. })), "{swept:?}");
    assert_eq!(versions(&house, "a").await, [1, 2]);
    house.store.unconfirmed.store(false, Ordering::SeqCst);
    house.engine.sweep().await.unwrap();
    assert_eq!(versions(&house, "a").await, [0_i64; 0]);
}
