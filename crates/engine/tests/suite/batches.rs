//! Commands that are decided together: one write, each its own true answer (FAULTS M1, M2, M4, M7, M15, M20).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use lockkeeper_engine::Answer;
use lockkeeper_model::{Action, Close, Command, Kind, Refusal, SuccessKind};
use serde_json::json;

use super::support::{House, command, event, key, keyed, name, queued, with_data};

/// Sends all at once, in this order: the first reaches the store and is held there, the others wait and are decided
/// together.
async fn together(house: &House, commands: Vec<Command>) -> Vec<Answer> {
    house.store.hold();
    let mut sending = Vec::new();
    for (place, command) in commands.into_iter().enumerate() {
        let engine = house.engine.clone();
        sending.push(queued(Box::pin(async move { engine.send(command, None).await })));
        if place == 0 {
            house.store.arrived().await;
        }
    }
    house.store.release();
    let mut answers = Vec::new();
    for task in sending {
        answers.push(task.await.unwrap());
    }
    answers
}

fn count(answers: &[Answer]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    answers.iter().for_each(|answer| *counts.entry(name(answer)).or_default() += 1);
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_finish_at_once_and_one_does() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let people = (0..50).map(|n| event("a", "finish", &format!("p{n}"))).collect();
    let answers = together(&house, people).await;
    assert_eq!(count(&answers), BTreeMap::from([("applied", 1), ("already_applied", 49)]));
    let moves = house.history("a").await.into_iter().filter(|item| item.entry.kind == Kind::Move).count();
    assert_eq!(moves, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_is_committed_in_few_writes() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.commits.store(0, Ordering::SeqCst);
    let answers = together(&house, (0..200).map(|n| event("a", "note", &format!("p{n}"))).collect()).await;
    assert_eq!(count(&answers), BTreeMap::from([("applied", 200)]));
    let commits = house.store.commits.load(Ordering::SeqCst);
    assert!(commits <= 4, "200 commands took {commits} commits");
    let versions: Vec<i64> = house.history("a").await.iter().map(|item| item.version).collect();
    assert_eq!(versions, (1..=201).collect::<Vec<_>>(), "no gap, none twice");
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_combining_each_command_has_a_commit_of_its_own() {
    let house = House::new().await;
    let bare = super::support::WORKFLOW.replace("backoff: 1ms", "backoff: 1ms, combine: false");
    super::support::put(&house.engine, "case", &bare).await;
    house.start("a", json!({})).await;
    house.store.commits.store(0, Ordering::SeqCst);
    let answers = together(&house, (0..20).map(|n| event("a", "note", &format!("p{n}"))).collect()).await;
    assert_eq!(count(&answers), BTreeMap::from([("applied", 20)]));
    assert_eq!(house.store.commits.load(Ordering::SeqCst), 20);
    let people: Vec<String> = house.history("a").await.into_iter().skip(1).map(|item| item.entry.actor.id).collect();
    assert_eq!(people, (0..20).map(|n| format!("p{n}")).collect::<Vec<_>>(), "first come, first served");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_vote_a_person_however_often_it_is_sent() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    assert_eq!(name(&house.engine.send(event("a", "review", "ann"), None).await), "applied");
    let answers = together(&house, (0..20).map(|_| event("a", "approve", "bob")).collect()).await;
    assert_eq!(count(&answers), BTreeMap::from([("pending_approval", 20)]));
    assert_eq!(house.history("a").await.len(), 3, "one vote was recorded");
    let second = house.engine.send(event("a", "approve", "cyd"), None).await;
    assert_eq!(second.result.unwrap().state, "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_branches_write_different_fields_and_both_survive() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let left = with_data(event("a", "left", "ann"), json!({"value": 1}));
    let right = with_data(event("a", "right", "bob"), json!({"value": 2}));
    let answers = together(&house, vec![left, right]).await;
    assert_eq!(count(&answers), BTreeMap::from([("applied", 2)]));
    let data = house.engine.instance(&key("a"), false).await.unwrap().data.clone();
    assert_eq!((&data["left"], &data["right"]), (&json!(1), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_twice_in_a_batch_is_one_effect() {
    let house = House::new().await;
    house.start("a", json!({"on_hand": 100})).await;
    let take = |actor: &str, quantity| keyed(with_data(event("a", "take", actor), json!({"quantity": quantity})), "k");
    // The first is held in the store by itself; the others share a batch and find its key there.
    let answers = together(&house, vec![take("ann", 5), take("ann", 5), take("ann", 6), take("bob", 5)]).await;
    assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["applied", "applied", "key_reused", "key_reused"]);
    assert_eq!(answers.iter().map(|answer| answer.replayed).collect::<Vec<_>>(), [false, true, false, false]);
    // All in one batch, behind another command.
    let fresh = |command: Command| keyed(command, "k2");
    let batch = vec![event("a", "note", "x"), fresh(take("ann", 7)), fresh(take("ann", 7)), fresh(take("bob", 7))];
    let answers = together(&house, batch).await;
    assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["applied", "applied", "applied", "key_reused"]);
    assert!(answers[2].replayed);
    assert_eq!(answers[1].result, answers[2].result);
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["on_hand"], 88);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_refused_command_is_free() {
    let house = House::new().await;
    house.start("a", json!({"on_hand": 1})).await;
    let take = |quantity| keyed(with_data(event("a", "take", "ann"), json!({"quantity": quantity})), "k");
    assert_eq!(name(&house.engine.send(take(2), None).await), "guard_rejected");
    assert_eq!(name(&house.engine.send(take(1), None).await), "applied");
    // A replay is found even where the command would now be refused.
    let again = house.engine.send(take(1), None).await;
    assert_eq!((name(&again), again.replayed), ("applied", true));
    assert_eq!(name(&house.engine.send(take(2), None).await), "key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_breaks_a_constraint_fails_alone() {
    for names_culprit in [true, false] {
        let house = House::new().await;
        house.start("a", json!({})).await;
        *house.store.rejects.lock().unwrap() = Some("poison");
        house.store.names_culprit.store(names_culprit, Ordering::SeqCst);
        let poisoned = with_data(event("a", "left", "eve"), json!({"value": "poison"}));
        let batch = vec![event("a", "note", "x"), event("a", "note", "y"), poisoned, event("a", "note", "z")];
        let answers = together(&house, batch).await;
        assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["applied", "applied", "malformed", "applied"]);
        let instance = house.engine.instance(&key("a"), false).await.unwrap();
        assert_eq!((instance.version, &instance.data["notes"]), (4, &json!(3)));
        assert!(!instance.data.contains_key("left"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_and_terminate_race_to_one_end() {
    const PAIRS: usize = 200;
    let house = House::new().await;
    for round in 0..PAIRS {
        let id = format!("r{round}");
        house.start(&id, json!({})).await;
        let close = Close { run: None, reason: "enough".into() };
        let (finish, terminate) = (event(&id, "finish", "ann"), command(&id, Action::Terminate(close), "bob"));
        // On one node half of the time, else on two.
        let other = if round % 2 == 0 { &house.engine } else { &house.other };
        let (one, two) = (house.engine.clone(), other.clone());
        let (finished, terminated) = tokio::join!(
            tokio::spawn(async move { one.send(finish, None).await }),
            tokio::spawn(async move { two.send(terminate, None).await })
        );
        let outcomes = (name(&finished.unwrap()), name(&terminated.unwrap()));
        assert!(matches!(outcomes, ("applied", "already_closed") | ("state_mismatch", "applied")), "{outcomes:?}");
        assert_eq!(house.history(&id).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_and_the_id_starts_again_in_one_batch() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let start = lockkeeper_model::Start { run: uuid::Uuid::new_v4(), ..Default::default() };
    let batch = vec![
        event("a", "note", "x"),
        event("a", "finish", "x"),
        command("a", Action::Start(start), "ann"),
        event("a", "review", "x"),
    ];
    let answers = together(&house, batch).await;
    assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), ["applied", "applied", "started", "applied"]);
    let started = answers[2].result.clone().unwrap();
    assert_eq!((started.outcome, started.version), (SuccessKind::Started, 4), "versions go on over runs");
    assert_eq!(answers[3].result.clone().unwrap().run, started.run);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_are_answered_with_the_known() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let answer = house.engine.send(event("zzz", "note", "x"), None).await;
    assert!(matches!(&answer.result, Err(Refusal::UnknownInstance { known, .. }) if known == &["a"]), "{answer:?}");
    let mut command = event("a", "note", "x");
    command.instance = lockkeeper_model::InstanceKey::new("nothing", "a").unwrap();
    let answer = house.engine.send(command, None).await;
    assert!(matches!(&answer.result, Err(Refusal::UnknownWorkflow { known, .. }) if known == &["case"]), "{answer:?}");
}
