//! The strategy `distributed`: leases that order, and a store that keeps what they cannot (FAULTS L15, L20, D1).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_engine::{Answer, AtomicFailure, Options};
use lockkeeper_model::{Action, Command, ConflictPolicy, Refusal, Start};
use serde_json::json;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::support::{Fault, House, WORKFLOW, command, event, key, keyed, name, object, put, queued, with_data};

/// The workflow under leases on the lock that its data names.
fn workflow(concurrency: &str) -> String {
    let whole = "concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}";
    let leased = format!("concurrency: {{strategy: distributed, lock_key: '\"lock/\" + data.lock', {concurrency}}}");
    let events = "      relock: {assign: {lock: event.lock}}\n      plain: {assign: {plain: '(has(data.plain) ? data.plain \
                  : 0) + 1'}, concurrency: {strategy: optimistic}}\n      note:";
    WORKFLOW.replace(whole, &leased).replacen("      note:", events, 1)
}

/// Two nodes, and instances by id with the names of their locks.
async fn house(concurrency: &str, instances: &[(&str, &str)]) -> House {
    let house = House::leased(Options::default()).await;
    put(&house.engine, "case", &workflow(concurrency)).await;
    for (id, lock) in instances {
        house.start(id, json!({"lock": lock})).await;
    }
    house
}

async fn note(house: &House, id: &str) -> Answer {
    house.engine.send(event(id, "note", "bob"), None).await
}

/// Sends a note, which has gone as far as it goes by itself.
fn waiting_note(house: &House, id: &str) -> JoinHandle<Answer> {
    let (engine, note) = (house.engine.clone(), event(id, "note", "bob"));
    queued(Box::pin(async move { engine.send(note, None).await }))
}

/// Waits until somebody asks for a lease.
async fn asked(house: &House, before: usize) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while house.locks.asks.load(Ordering::SeqCst) <= before {
        assert!(tokio::time::Instant::now() < deadline, "nobody asks for a lease");
        tokio::task::yield_now().await;
    }
}

fn asks(house: &House) -> usize {
    house.locks.asks.load(Ordering::SeqCst)
}

/// The fences of what was committed under a lock, in order.
fn fences(house: &House, resource: &str) -> Vec<i64> {
    let all = house.store.fences.lock().unwrap();
    all.iter().filter(|fence| *fence.resource == *resource).map(|fence| fence.fence).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_written_under_the_fence_of_its_lease() {
    let house = house("lock_timeout: 10s", &[("a", "x")]).await;
    assert_eq!(name(&note(&house, "a").await), "applied");
    let written = fences(&house, "lock/x");
    assert_eq!(written.len(), 2, "the start too, by its own data");
    let granted: Vec<i64> = house.locks.granted.lock().unwrap().iter().map(|(_, fence)| *fence).collect();
    assert!(written.iter().all(|fence| granted.contains(fence)), "{written:?} of {granted:?}");
}

/// 64 clients on two nodes, eight instances under four locks.
#[tokio::test(flavor = "multi_thread")]
async fn each_move_happens_once_whichever_node_has_the_lease() {
    const EACH: usize = 4;
    let ids: Vec<String> = (0..8).map(|n| format!("i{n}")).collect();
    let locks: Vec<String> = (0..8).map(|n| format!("{}", n % 4)).collect();
    let instances: Vec<_> = ids.iter().zip(&locks).map(|(id, lock)| (id.as_str(), lock.as_str())).collect();
    let house = house("lock_timeout: 25s", &instances).await;
    let clients: Vec<_> = (0..64)
        .map(|n| {
            let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
            let id = ids[n / 2 % 8].clone();
            tokio::spawn(async move {
                for turn in 0..EACH {
                    let command = keyed(event(&id, "note", &format!("p{n}")), &format!("{n}-{turn}"));
                    let answer = engine.send(command, None).await;
                    assert_eq!(name(&answer), "applied", "{answer:?}");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    for id in &ids {
        let instance = house.engine.instance(&key(id), false).await.unwrap();
        assert_eq!(instance.data["notes"], 8 * EACH, "{id}");
        let versions: Vec<i64> = house.history(id).await.iter().map(|item| item.version).collect();
        assert_eq!(versions, (1..=i64::try_from(8 * EACH).unwrap() + 1).collect::<Vec<_>>());
    }
    let mut granted: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (resource, fence) in house.locks.granted.lock().unwrap().iter() {
        granted.entry(resource.clone()).or_default().push(*fence);
    }
    for lock in ["lock/0", "lock/1", "lock/2", "lock/3"] {
        let written = fences(&house, lock);
        assert!(!written.is_empty() && written.is_sorted(), "{lock}: {written:?}");
    }
    // Many share a lease: fewer grants than moves.
    let grants: usize = granted.values().map(Vec::len).sum();
    assert!(grants < 64 * EACH, "{grants} leases for {} moves", 64 * EACH);
}

/// The lease is taken away while the commit is under way, and the next holder has written: a conflict, no second move,
/// and no answer `fenced` to somebody who gave no fence.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_half_way_is_taken_again() {
    let house = house("lock_timeout: 10s", &[("a", "x"), ("b", "x")]).await;
    let (other, locks) = (house.other.clone(), house.locks.clone());
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move {
            assert_eq!(locks.force("lock/x").await.len(), 1);
            // Another instance under the same lock: the version of this one stays as it was.
            assert_eq!(name(&other.send(event("b", "note", "other"), None).await), "applied");
        })
    })));
    let answer = note(&house, "a").await;
    assert_eq!((name(&answer), answer.result.unwrap().version), ("applied", 2));
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], 1);
    let written = fences(&house, "lock/x");
    assert!(written.is_sorted(), "{written:?}");
}

/// L20.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_may_be_written_under_two_locks_in_turn_and_under_none() {
    let house = house("lock_timeout: 10s", &[("a", "x")]).await;
    for turn in 0..6 {
        let engine = if turn % 2 == 0 { &house.engine } else { &house.other };
        assert_eq!(name(&engine.send(event("a", "note", "bob"), None).await), "applied", "{turn}");
        let lock = ["y", "x"][turn % 2];
        let relock = with_data(event("a", "relock", "bob"), json!({"lock": lock}));
        assert_eq!(name(&engine.send(relock, None).await), "applied", "{turn}");
        assert_eq!(name(&house.engine.send(event("a", "plain", "bob"), None).await), "applied", "{turn}");
        assert_eq!(name(&house.other.send(event("a", "plain", "bob"), None).await), "applied", "{turn}");
    }
    assert_eq!(house.history("a").await.len(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_long_for_a_lease_is_told_who_has_it() {
    let house = house("lock_timeout: 2s", &[("a", "x")]).await;
    let somebody = house.locks.somebody("lock/x").await;
    match note(&house, "a").await.result {
        Err(Refusal::LeaseTimeout { resource, waited_ms, holder }) => {
            assert_eq!(resource, "lock/x");
            assert!((1_990..10_000).contains(&waited_ms), "{waited_ms}");
            assert!(holder.starts_with("held by somebody on "), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    somebody.release().await;
    assert_eq!(name(&note(&house, "a").await), "applied");
    assert_eq!(house.history("a").await.len(), 2, "what was refused left nothing");
}

/// P8, L15: who waits for a lease holds nothing that others need, not even its instance's turn.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_while_a_lease_is_waited_for() {
    let house = house("lock_timeout: 20s", &[("a", "x"), ("b", "x"), ("c", "y")]).await;
    let somebody = house.locks.somebody("lock/x").await;
    let before = asks(&house);
    let waiting: Vec<_> = ["a", "b", "a"].into_iter().map(|id| waiting_note(&house, id)).collect();
    asked(&house, before).await;
    for _ in 0..10 {
        assert_eq!(name(&house.engine.send(event("a", "plain", "bob"), None).await), "applied");
        assert_eq!(name(&note(&house, "c").await), "applied");
    }
    assert!(waiting.iter().all(|task| !task.is_finished()));
    somebody.release().await;
    for task in waiting {
        assert_eq!(name(&task.await.unwrap()), "applied");
    }
    assert_eq!(house.engine.waiting(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_while_a_lease_is_waited_for_takes_nothing_from_those_who_stay() {
    let house = house("lock_timeout: 20s", &[("a", "x")]).await;
    let somebody = house.locks.somebody("lock/x").await;
    let before = asks(&house);
    let (leaves, stays) = (waiting_note(&house, "a"), waiting_note(&house, "a"));
    asked(&house, before).await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    somebody.release().await;
    assert_eq!(name(&stays.await.unwrap()), "applied");
    assert_eq!(house.history("a").await.len(), 2);
}

/// What names the lock has changed while it was waited for: it is the lock of what is now that is held.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_another_by_now_is_waited_for_anew() {
    let house = house("lock_timeout: 20s", &[("a", "x")]).await;
    let (held_x, held_y) = (house.locks.somebody("lock/x").await, house.locks.somebody("lock/y").await);
    let before = asks(&house);
    let waiting = waiting_note(&house, "a");
    asked(&house, before).await;
    // Whoever holds the lock may write under it, and names another for the time to come.
    let mut relock = with_data(event("a", "relock", "eve"), json!({"lock": "y"}));
    let Action::Send(send) = &mut relock.action else { panic!("no event") };
    send.fences = [("lock/x".to_owned(), held_x.fence().unwrap())].into();
    assert_eq!(name(&house.other.send(relock, None).await), "applied");
    let before = asks(&house);
    held_x.release().await;
    asked(&house, before).await;
    assert!(!waiting.is_finished());
    let fence = held_y.fence().unwrap();
    held_y.release().await;
    assert_eq!(name(&waiting.await.unwrap()), "applied");
    assert!(fences(&house, "lock/y").iter().all(|own| *own > fence), "written under the lock of what it is now");
}

/// It would wait for itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_holds_the_lock_itself_writes_under_its_own_fence() {
    let house = house("lock_timeout: 20s", &[("a", "x")]).await;
    let mine = house.locks.somebody("lock/x").await;
    let mut command = event("a", "note", "ann");
    let Action::Send(send) = &mut command.action else { panic!("no event") };
    send.fences = [("lock/x".to_owned(), mine.fence().unwrap())].into();
    let asked_before = asks(&house);
    assert_eq!(name(&house.engine.send(command.clone(), None).await), "applied");
    assert_eq!(asks(&house), asked_before);
    // Its time over, and another's come.
    mine.release().await;
    assert_eq!(name(&note(&house, "a").await), "applied");
    assert_eq!(name(&house.engine.send(command, None).await), "fenced");
}

/// D1, and a node that has no lock service at all.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_service_it_goes_as_the_definition_says() {
    for (concurrency, told) in [("", "unavailable"), ("on_lock_loss: row_lock", "applied")] {
        let house = house(concurrency, &[("a", "x"), ("b", "y")]).await;
        // What the node still has it would use up first: once others get it, it has it no more.
        house.locks.somebody("lock/x").await.release().await;
        house.store.locks.store(0, Ordering::SeqCst);
        house.locks.gone.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            let answer = note(&house, "a").await;
            assert_eq!(name(&answer), told, "{answer:?}");
        }
        let rows = house.store.locks.load(Ordering::SeqCst);
        assert_eq!(rows, if told == "applied" { 3 } else { 0 }, "under the row lock, or not at all");
        let both = vec![event("a", "note", "bob"), event("b", "note", "bob")];
        match house.engine.send_atomic(both, None).await {
            Ok(_) => assert_eq!(told, "applied"),
            Err(AtomicFailure { refusal, .. }) => assert_eq!(refusal.outcome(), told),
        }
        // It comes back, and is asked again before long.
        house.locks.gone.store(false, Ordering::SeqCst);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let before = fences(&house, "lock/x").len();
        while fences(&house, "lock/x").len() == before {
            note(&house, "a").await;
            assert!(tokio::time::Instant::now() < deadline, "it is not asked again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_lock_service_refuses_what_needs_it() {
    let house = House::new().await;
    put(&house.engine, "case", &workflow("lock_timeout: 1s")).await;
    let start = command(
        "a",
        Action::Start(Start { run: Uuid::new_v4(), data: object(json!({"lock": "x"})), ..Start::default() }),
        "ann",
    );
    match house.engine.send(start, None).await.result {
        Err(Refusal::Unavailable { detail }) => {
            assert!(detail.starts_with("this node has no lock service"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
    assert!(house.sound.read(&lockkeeper_store::RecordKey::new("case", "a")).await.unwrap().is_none());
}

/// What is refused anyway is told why, before the lock's name is of interest.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_a_name_is_a_guard_error() {
    let house = house("", &[("a", "x")]).await;
    let relock = with_data(event("a", "relock", "bob"), json!({"lock": 7}));
    assert_eq!(name(&house.engine.send(relock, None).await), "applied");
    let answers: Vec<Answer> = [
        house.engine.send(event("a", "note", "bob"), None).await,
        house.engine.send(event("a", "approve", "bob"), None).await,
        house.engine.send(event("a", "plain", "bob"), None).await,
    ]
    .into();
    assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["guard_error", "state_mismatch", "applied"]);
    let both = vec![event("a", "note", "bob")];
    assert_eq!(house.engine.send_atomic(both, None).await.unwrap_err().refusal.outcome(), "guard_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_that_happen_together_hold_all_their_locks() {
    let house = house("lock_timeout: 2s", &[("a", "x"), ("b", "y"), ("c", "x")]).await;
    let all = || ["a", "b", "c"].map(|id| event(id, "note", "bob")).to_vec();
    house.store.fences.lock().unwrap().clear();
    house.engine.send_atomic(all(), None).await.unwrap();
    assert_eq!((fences(&house, "lock/x").len(), fences(&house, "lock/y").len()), (2, 1));
    let somebody = house.locks.somebody("lock/y").await;
    let AtomicFailure { refusal, .. } = house.engine.send_atomic(all(), None).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::LeaseTimeout { resource, .. } if resource == "lock/y"), "{refusal:?}");
    somebody.release().await;
    house.engine.send_atomic(all(), None).await.unwrap();
    for id in ["a", "b", "c"] {
        assert_eq!(house.history(id).await.len(), 3, "{id}");
    }
}

/// The run that is going on ends under its own lock, whatever the newest definition says: work may be under way under it.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_ends_a_run_waits_for_the_lock_of_that_run() {
    let replace = |lock: &str| {
        let start = Start {
            run: Uuid::new_v4(),
            data: object(json!({"lock": lock})),
            conflict_policy: ConflictPolicy::TerminateExisting,
            ..Start::default()
        };
        command("a", Action::Start(start), "ann")
    };
    let first = workflow("lock_timeout: 1s");
    for next in [first.replace("lock/", "place/"), WORKFLOW.to_owned()] {
        let house = house("lock_timeout: 1s", &[("a", "x")]).await;
        put(&house.engine, "case", &next).await;
        let at_work = house.locks.somebody("lock/x").await;
        let _elsewhere = house.locks.somebody("place/y").await;
        for engine in [&house.engine, &house.other] {
            match engine.send(replace("y"), None).await.result {
                Err(Refusal::LeaseTimeout { resource, .. }) => assert_eq!(resource, "lock/x"),
                other => panic!("{other:?}"),
            }
        }
        let fence = at_work.fence().unwrap();
        at_work.release().await;
        assert_eq!(name(&house.engine.send(replace("y"), None).await), "started");
        assert!(fences(&house, "lock/x").last().is_some_and(|last| *last > fence), "written under that lock");
        assert_eq!(house.history("a").await.len(), 3, "a start, its end, the next");
    }
}

/// Commands with and without a lock meet in one batch, and the key of some changes within it.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_in_which_the_lock_changes_is_cut_there() {
    let house = house("lock_timeout: 20s", &[("a", "x")]).await;
    let somebody = house.locks.somebody("lock/x").await;
    let before = asks(&house);
    let commands: Vec<Command> = (0..12)
        .map(|n| match n % 3 {
            0 => with_data(event("a", "relock", "bob"), json!({"lock": format!("z{n}")})),
            1 => event("a", "note", "bob"),
            _ => event("a", "plain", "bob"),
        })
        .collect();
    let sent: Vec<_> = commands
        .into_iter()
        .map(|command| {
            let engine = house.engine.clone();
            queued(Box::pin(async move { engine.send(command, None).await }))
        })
        .collect();
    asked(&house, before).await;
    somebody.release().await;
    for task in sent {
        let answer = task.await.unwrap();
        assert_eq!(name(&answer), "applied", "{answer:?}");
    }
    let instance = house.engine.instance(&key("a"), false).await.unwrap();
    assert_eq!((&instance.data["notes"], &instance.data["plain"]), (&json!(4), &json!(4)));
}

/// P6: a node with work without end gives the lease to another that waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_does_not_keep_the_lease() {
    let house = house("lock_timeout: 20s", &[("a", "x"), ("b", "x")]).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let (engine, stopped) = (house.engine.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut sent = 0;
                while !*stopped.borrow() {
                    assert_eq!(name(&engine.send(event("a", "note", "bob"), None).await), "applied");
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    for _ in 0..4 {
        let answer = house.other.send(event("b", "note", "eve"), Some(Duration::from_secs(15))).await;
        assert_eq!(name(&answer), "applied", "{answer:?}");
    }
    stop.send_replace(true);
    for task in busy {
        assert!(task.await.unwrap() > 0);
    }
}

/// A commit whose answer was lost, under a lease that is lost as well: the truth is told, and nothing is done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_doubt_under_a_lost_lease_is_settled() {
    let house = house("lock_timeout: 10s", &[("a", "x"), ("b", "x")]).await;
    for (fault, notes) in [(Fault::AnswerLost, 1), (Fault::NeverArrives, 2)] {
        house.store.next(fault);
        let (other, locks) = (house.other.clone(), house.locks.clone());
        house.store.next(Fault::Before(Box::new(move || {
            Box::pin(async move {
                locks.force("lock/x").await;
                assert_eq!(name(&other.send(event("b", "note", "other"), None).await), "applied");
            })
        })));
        assert_eq!(name(&note(&house, "a").await), "applied");
        assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], notes);
    }
}

/// A delayed commit that carries the fence of a lost lease arrives when the next holder has written: it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_of_a_lost_lease_does_nothing() {
    let house = house("lock_timeout: 10s", &[("a", "x"), ("b", "x")]).await;
    house.store.next(Fault::ArrivesLater);
    let (other, locks) = (house.other.clone(), house.locks.clone());
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move {
            locks.force("lock/x").await;
            assert_eq!(name(&other.send(event("b", "note", "other"), None).await), "applied");
        })
    })));
    assert_eq!(name(&note(&house, "a").await), "applied");
    assert!(!house.store.deliver().await, "it came too late");
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], 1);
    assert_eq!(house.history("a").await.len(), 2);
}
