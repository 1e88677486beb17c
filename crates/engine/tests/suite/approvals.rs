//! Votes and what else is done about an approval, on each store and on two nodes at once.

use lockkeeper_engine::Engine;
use lockkeeper_model::{Act, Action, Command, Kind, Send, Status, history};
use serde_json::json;

use super::support::{Fault, House, event, key, keyed, name, put};

const BUDGET: &str = "
workflow: case
initial: open
concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}
states:
  open:
    on:
      approve:
        target: approved
        approval: {quorum: 3, of: [ann, bob, cid, dan], delegation: true, recall: true, add_approvers: true, veto: reject}
      reject: rejected
  approved: {type: final}
  rejected: {type: final, status: failed}
";

async fn house() -> House {
    let house = House::new().await;
    put(&house.engine, "case", BUDGET).await;
    house.start("a", json!({})).await;
    house
}

/// `ann`, `bob delegate zoe`, `ann add max`, `ann recall` or `ann reject`; alone, it is the vote.
fn said(text: &str) -> Command {
    let words: Vec<&str> = text.split(' ').collect();
    let whom = || words[2].to_owned();
    let act = match words.get(1) {
        Some(&"delegate") => Some(Act::Delegate { to: whom() }),
        Some(&"add") => Some(Act::AddApprover { id: whom() }),
        Some(&"recall") => Some(Act::Recall),
        Some(&"reject") => return event("a", "reject", words[0]),
        _ => None,
    };
    let mut command = event("a", "approve", words[0]);
    command.action = Action::Send(Send { event: Some("approve".to_owned()), act, ..Send::default() });
    command
}

async fn send(engine: &Engine, text: &str) -> &'static str {
    name(&engine.send(said(text), None).await)
}

/// The history's kinds; it has to be a legal one.
async fn kinds(house: &House) -> Vec<Kind> {
    let items = house.history("a").await;
    history::check(items.iter().map(|item| (item.version, &item.entry))).unwrap();
    items.into_iter().map(|item| item.entry.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_on_one_node_counts_on_the_other() {
    let house = house().await;
    let acts = ["ann", "bob delegate zoe", "zoe", "ann recall", "cid add max", "ann", "dan recall", "dan", "max"];
    let answers = ["pending_approval"; 6].into_iter().chain(["act_refused", "pending_approval", "applied"]);
    for (number, (act, expected)) in acts.into_iter().zip(answers).enumerate() {
        let engine = if number % 2 == 0 { &house.engine } else { &house.other };
        assert_eq!(send(engine, act).await, expected, "{act}");
    }
    use Kind::{AddApprover, Delegate, Move, Recall, Start, Vote};
    assert_eq!(kinds(&house).await, [Start, Vote, Delegate, Vote, Recall, AddApprover, Vote, Vote, Move]);
    let last = house.history("a").await.pop().unwrap().entry;
    assert_eq!(last.approved_by, ["zoe", "ann", "dan", "max"]);
}

/// What another node does between this one's decision and its commit is what is decided on in the end.
#[tokio::test(flavor = "multi_thread")]
async fn an_act_is_decided_again_on_what_another_node_has_done() {
    for (before, theirs, mine, expected) in [
        // The last vote, and one that is taken back.
        (&["ann", "bob"][..], "ann recall", "cid", "pending_approval"),
        (&["ann", "bob"], "cid", "ann recall", "state_mismatch"),
        (&["ann", "bob"], "cid", "dan", "already_applied"),
        (&["ann", "bob"], "cid", "dan add max", "state_mismatch"),
        (&["ann", "bob"], "dan add max", "cid", "pending_approval"),
        (&["ann", "bob"], "cid", "dan reject", "state_mismatch"),
        (&["ann", "bob"], "dan reject", "cid", "state_mismatch"),
        // One hand is one vote.
        (&["ann"], "ann", "ann", "pending_approval"),
        (&[], "bob delegate zoe", "cid delegate zoe", "act_refused"),
        (&[], "bob delegate zoe", "bob", "act_refused"),
        (&[], "bob", "bob delegate zoe", "act_refused"),
        (&[], "ann add zoe", "bob delegate zoe", "act_refused"),
        (&["bob delegate zoe"], "bob recall", "zoe", "not_permitted"),
        (&["bob delegate zoe"], "zoe", "bob recall", "act_refused"),
        (&["ann add max"], "max", "ann recall", "act_refused"),
        (&["ann add max"], "ann recall", "max", "not_permitted"),
    ] {
        let house = house().await;
        for act in before {
            assert_eq!(send(&house.engine, act).await, "pending_approval", "{act}");
        }
        let other = house.other.clone();
        house.store.next(Fault::Before(Box::new(move || {
            Box::pin(async move {
                let answer = send(&other, theirs).await;
                assert!(matches!(answer, "applied" | "pending_approval"), "{theirs}: {answer}");
            })
        })));
        assert_eq!(send(&house.engine, mine).await, expected, "{theirs}, then {mine}");
        kinds(&house).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_whose_answer_was_lost_takes_effect_once_under_its_key() {
    let house = house().await;
    for (number, act) in ["ann", "bob delegate zoe", "cid add max", "ann recall"].into_iter().enumerate() {
        house.store.next(Fault::AnswerLost);
        let key = format!("k{number}");
        for _ in 0..2 {
            let answer = house.engine.send(keyed(said(act), &key), None).await;
            assert_eq!(name(&answer), "pending_approval", "{act}: {answer:?}");
        }
        // Nor does it on another node.
        assert!(house.other.send(keyed(said(act), &key), None).await.replayed, "{act}");
    }
    use Kind::{AddApprover, Delegate, Recall, Start, Vote};
    assert_eq!(kinds(&house).await, [Start, Vote, Delegate, AddApprover, Recall]);
}

/// Everybody at once on two nodes, whatever each does: the history is legal, the move made once, by distinct hands.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_on_two_nodes_makes_one_move() {
    let crowd = [
        "ann",
        "ann recall",
        "bob delegate zoe",
        "bob recall",
        "zoe",
        "cid add max",
        "cid recall",
        "max",
        "dan",
        "cid",
        "dan add yan",
        "yan",
        "ann delegate eve",
        "eve",
        "bob",
        "dan delegate eve",
    ];
    for round in 0..10 {
        let house = house().await;
        let tasks: Vec<_> = (0..crowd.len() * 2)
            .map(|number| {
                let act = crowd[(number * 7 + round) % crowd.len()];
                let engine = if (number + round) % 2 == 0 { house.engine.clone() } else { house.other.clone() };
                tokio::spawn(async move { send(&engine, act).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // Whoever has not been heard is now.
        for act in ["ann", "bob", "cid", "dan", "zoe", "eve", "max", "yan"] {
            send(&house.engine, act).await;
        }
        let kinds = kinds(&house).await;
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Move).count(), 1, "{kinds:?}");
        let instance = house.engine.instance(&key("a"), false).await.unwrap();
        assert_eq!((instance.status, instance.version), (Status::Completed, kinds.len() as i64));
        let mut voters = house.history("a").await.pop().unwrap().entry.approved_by;
        let counted = voters.len();
        voters.sort_unstable();
        voters.dedup();
        assert!(counted >= 3 && voters.len() == counted, "{voters:?}");
    }
}
