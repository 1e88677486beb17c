//! Fences that commands carry: a late holder writes nothing, and nobody else is told so (FAULTS L8, L20, L21).

use std::time::Duration;

use lockkeeper_engine::{Answer, AtomicFailure};
use lockkeeper_locks::{Acquire, Locks};
use lockkeeper_model::{Action, Command, Refusal};
use serde_json::json;

use super::support::{House, event, key, keyed, name, queued};

fn fenced(mut command: Command, fences: &[(&str, i64)]) -> Command {
    let Action::Send(send) = &mut command.action else { panic!("no event") };
    send.fences = fences.iter().map(|(resource, fence)| ((*resource).to_owned(), *fence)).collect();
    command
}

fn note(id: &str, fences: &[(&str, i64)]) -> Command {
    fenced(event(id, "note", "ann"), fences)
}

async fn send(house: &House, command: Command) -> Answer {
    house.engine.send(command, None).await
}

fn is_fenced(answer: &Answer, resource: &str, fence: i64, last: i64) -> bool {
    answer.result == Err(Refusal::Fenced { resource: resource.to_owned(), fence, last })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_holder_writes_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.start("b", json!({})).await;
    assert_eq!(name(&send(&house, note("a", &[("r", 7)])).await), "applied");
    // The same again, of the same holder; of another lock; of none.
    for fences in [&[("r", 7)][..], &[("other", 1)], &[]] {
        assert_eq!(name(&send(&house, note("a", fences)).await), "applied", "{fences:?}");
    }
    // The newer holder writes another instance, at another node.
    assert_eq!(name(&house.other.send(note("b", &[("r", 8)]), None).await), "applied");
    let late = send(&house, note("a", &[("other", 1), ("r", 7)])).await;
    assert!(is_fenced(&late, "r", 7, 8), "{late:?}");
    assert_eq!(house.history("a").await.len(), 5, "what was refused left nothing");
    // What it would have been refused anyway is told as such, and reveals no fence.
    let refused = send(&house, fenced(event("a", "approve", "ann"), &[("r", 7)])).await;
    assert_eq!(name(&refused), "state_mismatch");
}

/// Of those that are decided together, the late one alone is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_holder_in_a_batch_fails_nobody_else() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let commands = [
        note("a", &[("r", 7)]),
        note("a", &[("r", 9)]),
        note("a", &[]),
        note("a", &[("r", 8)]),
        note("a", &[("s", 1)]),
    ];
    let mut sent = Vec::new();
    for command in commands {
        let engine = house.engine.clone();
        sent.push(queued(Box::pin(async move { engine.send(command, None).await })));
    }
    house.store.release();
    assert_eq!(name(&first.await.unwrap()), "applied");
    let mut answers = Vec::new();
    for task in sent {
        answers.push(task.await.unwrap());
    }
    assert!(is_fenced(&answers[0], "r", 7, 9) && is_fenced(&answers[3], "r", 8, 9), "{answers:?}");
    assert_eq!([1, 2, 4].map(|place| name(&answers[place])), ["applied"; 3]);
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], 4);
}

/// A fence that was only claimed, by a command that came to nothing, makes nobody late.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_came_to_nothing_makes_nobody_late() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let mut sent = Vec::new();
    for command in [note("a", &[("r", 7)]), fenced(event("a", "approve", "ann"), &[("r", 1_000)])] {
        let engine = house.engine.clone();
        sent.push(queued(Box::pin(async move { engine.send(command, None).await })));
    }
    house.store.release();
    assert_eq!(name(&first.await.unwrap()), "applied");
    let [low, high] = &mut sent[..] else { panic!("two were sent") };
    assert_eq!((name(&low.await.unwrap()), name(&high.await.unwrap())), ("applied", "state_mismatch"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_took_effect_is_told_so_however_late_its_fence_is_now() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let keyed_note = || keyed(note("a", &[("r", 7)]), "k");
    assert_eq!(name(&send(&house, keyed_note()).await), "applied");
    assert_eq!(name(&house.other.send(note("a", &[("r", 8)]), None).await), "applied");
    for engine in [&house.engine, &house.other] {
        let again = engine.send(keyed_note(), None).await;
        assert!(again.replayed && name(&again) == "applied", "{again:?}");
    }
    assert_eq!(name(&send(&house, keyed(note("a", &[("r", 8)]), "k")).await), "key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_that_happen_together_carry_fences_too() {
    let house = House::new().await;
    for id in ["a", "b"] {
        house.start(id, json!({})).await;
    }
    let both = |fence_a, fence_b| vec![note("a", &[("r", fence_a)]), note("b", &[("s", fence_b)])];
    house.engine.send_atomic(both(5, 5), None).await.unwrap();
    assert_eq!(name(&house.other.send(note("b", &[("s", 6)]), None).await), "applied");
    let AtomicFailure { failed_index, refusal } = house.engine.send_atomic(both(5, 5), None).await.unwrap_err();
    assert_eq!(failed_index, Some(1));
    assert_eq!(refusal, Refusal::Fenced { resource: "s".to_owned(), fence: 5, last: 6 });
    assert_eq!((house.history("a").await.len(), house.history("b").await.len()), (2, 3), "all or nothing");
    // Of one lock there is one holder.
    let torn = vec![note("a", &[("r", 5)]), note("b", &[("r", 6)])];
    let AtomicFailure { failed_index, refusal } = house.engine.send_atomic(torn, None).await.unwrap_err();
    assert_eq!((failed_index, refusal.outcome()), (Some(1), "malformed"));
}

/// L21: they share a generation, and so a fence.
#[tokio::test(flavor = "multi_thread")]
async fn three_permits_write_beside_each_other() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let locks = Locks::new(house.locks.clone());
    let mut held = Vec::new();
    for _ in 0..3 {
        let how = Acquire::new().permits(3).wait(Duration::from_secs(5));
        held.push(locks.acquire("pool", how).await.unwrap());
    }
    // In one order and the other, at both nodes.
    for lease in held.iter().chain(held.iter().rev()) {
        let fence = lease.fence().expect("these services have fences");
        for engine in [&house.engine, &house.other] {
            assert_eq!(name(&engine.send(note("a", &[("pool", fence)]), None).await), "applied");
        }
    }
}
