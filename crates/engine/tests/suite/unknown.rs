//! Commits whose answer is lost are settled by what the store has, never guessed (FAULTS M16; promise P3).

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_model::Refusal;
use serde_json::json;

use super::support::{Fault, House, event, keyed, name, with_data};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_found_and_answered() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.next(Fault::AnswerLost);
    let answer = house.engine.send(event("a", "note", "bob"), None).await;
    assert_eq!((name(&answer), answer.result.unwrap().version), ("applied", 2));
    assert_eq!(house.history("a").await.len(), 2, "the start and one note");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_written_once() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.next(Fault::NeverArrives);
    house.store.next(Fault::NeverArrives);
    let answer = house.engine.send(keyed(event("a", "note", "bob"), "k"), None).await;
    assert_eq!((name(&answer), answer.replayed), ("applied", false));
    assert_eq!(house.history("a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_cannot_follow_the_one_that_replaced_it() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.next(Fault::ArrivesLater);
    let answer = house.engine.send(event("a", "note", "bob"), None).await;
    assert_eq!(name(&answer), "applied");
    assert!(!house.store.deliver().await, "the old backend must find its version taken");
    assert_eq!(house.history("a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_that_wins_is_the_answer() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let store = house.store.clone();
    house.store.next(Fault::ArrivesLater);
    // When the engine writes again, the old commit has just arrived.
    house.store.next(Fault::Before(Box::new(move || Box::pin(async move { assert!(store.deliver().await) }))));
    let answer = house.engine.send(event("a", "note", "bob"), None).await;
    assert_eq!((name(&answer), answer.result.unwrap().version), ("applied", 2));
    assert_eq!(house.history("a").await.len(), 2, "noted once");
    assert_eq!(house.engine.instance(&super::support::key("a"), false).await.unwrap().data["notes"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_that_arrives_between_asking_and_reading_is_the_answer() {
    let house = House::new().await;
    house.start("a", json!({"on_hand": 10})).await;
    house.start("b", json!({})).await;
    let take = || with_data(event("a", "take", "bob"), json!({"quantity": 5}));
    house.store.next(Fault::ArrivesLater);
    house.store.deliver_in_read.store(true, Ordering::SeqCst);
    let answer = house.engine.send(take(), None).await;
    assert_eq!((name(&answer), answer.result.unwrap().version), ("applied", 2));
    assert_eq!(house.engine.instance(&super::support::key("a"), false).await.unwrap().data["on_hand"], 5, "taken once");
    house.store.next(Fault::ArrivesLater);
    house.store.deliver_in_read.store(true, Ordering::SeqCst);
    let answer = house.engine.send_atomic(vec![event("b", "note", "bob"), take()], None).await.unwrap();
    assert_eq!(answer.successes.iter().map(|success| success.version).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(
        house.engine.instance(&super::support::key("a"), false).await.unwrap().data["on_hand"],
        0,
        "taken once more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_leaves_while_the_command_may_still_be_committed() {
    let house = House::new().await;
    super::support::put(
        &house.engine,
        "case",
        "workflow: case\ninitial: open\nstates:\n  open: {on: {bid: {target: sold, guard: 'now < timestamp(data.closes)'}}}\n  sold: {type: final}\n",
    )
    .await;
    let closes = house.engine.clock().now() + Duration::from_millis(250);
    house.start("a", json!({"closes": closes.to_rfc3339()})).await;
    house.store.next(Fault::ArrivesLater);
    let answer = house.engine.send(event("a", "bid", "bob"), Some(Duration::from_millis(20))).await;
    assert!(matches!(answer.result, Err(Refusal::Unknown { .. })), "{answer:?}");
    let engine = house.engine.clone();
    house.store.next(Fault::ArrivesLater);
    let late = tokio::spawn(async move { engine.send(event("a", "bid", "eve"), Some(Duration::from_secs(1))).await });
    let late = late.await.unwrap();
    assert!(matches!(name(&late), "unknown" | "applied" | "guard_rejected"), "{late:?}");
    let told_no = name(&late) == "guard_rejected";
    house.store.deliver().await;
    let by: Vec<String> = house.history("a").await.into_iter().skip(1).map(|item| item.entry.actor.id).collect();
    assert!(by.len() <= 1, "sold once: {by:?}");
    assert!(!(told_no && by == ["eve"]), "refused, and sold all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_settled_is_unknown_at_the_deadline_and_safe_to_send_again() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.next(Fault::AnswerLost);
    house.store.hold();
    let engine = house.engine.clone();
    let sending = tokio::spawn(async move {
        engine.send(keyed(event("a", "note", "bob"), "k"), Some(Duration::from_millis(300))).await
    });
    house.store.arrived().await;
    house.store.blind.store(true, Ordering::SeqCst);
    house.store.release();
    let answer = sending.await.unwrap();
    assert!(matches!(answer.result, Err(Refusal::Unknown { .. })), "{answer:?}");
    house.store.blind.store(false, Ordering::SeqCst);
    let again = house.engine.send(keyed(event("a", "note", "bob"), "k"), None).await;
    assert_eq!((name(&again), again.replayed), ("applied", true));
    assert_eq!(house.history("a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_is_unavailable_and_nothing_is_written() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.next(Fault::Unavailable);
    let answer = house.engine.send(keyed(event("a", "note", "bob"), "k"), None).await;
    assert_eq!(name(&answer), "unavailable");
    assert_eq!(house.history("a").await.len(), 1);
    let again = house.engine.send(keyed(event("a", "note", "bob"), "k"), None).await;
    assert_eq!((name(&again), again.replayed), ("applied", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_an_open_commit_gives_each_its_own_answer() {
    let house = House::new().await;
    house.start("a", json!({"on_hand": 2})).await;
    house.store.hold();
    let mut sending = Vec::new();
    for person in 0..6 {
        let engine = house.engine.clone();
        let take = with_data(event("a", "take", &format!("p{person}")), json!({"quantity": 1}));
        sending.push(super::support::queued(Box::pin(async move { engine.send(take, None).await })));
    }
    house.store.next(Fault::AnswerLost);
    house.store.next(Fault::AnswerLost);
    house.store.release();
    let mut outcomes = Vec::new();
    for task in sending {
        outcomes.push(name(&task.await.unwrap()));
    }
    outcomes.sort_unstable();
    assert_eq!(
        outcomes,
        ["applied", "applied", "guard_rejected", "guard_rejected", "guard_rejected", "guard_rejected"]
    );
    assert_eq!(house.history("a").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_request_whose_answer_was_lost_is_settled() {
    for (fault, reads) in [(Fault::AnswerLost, "found"), (Fault::NeverArrives, "written again")] {
        let house = House::new().await;
        house.start("a", json!({})).await;
        house.start("b", json!({})).await;
        house.store.next(fault);
        let moves = vec![event("b", "note", "bob"), event("a", "note", "bob")];
        let answer = house.engine.send_atomic(moves, None).await.unwrap_or_else(|e| panic!("{reads}: {e:?}"));
        assert_eq!(answer.successes.iter().map(|s| s.version).collect::<Vec<_>>(), [2, 2], "{reads}");
        assert_eq!(house.history("a").await.len(), 2, "{reads}");
        assert_eq!(house.history("b").await.len(), 2, "{reads}");
    }
}
