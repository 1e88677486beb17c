//! A crowd behind a barrier.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::api::Api;
use crate::support::call::{Answer, Call};
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

const PEOPLE: usize = 50;

const REVIEW: &str = "
workflow: review
initial: open
states:
  open: {on: {approve: {target: approved, approval: {quorum: 1, roles: [approver]}}}}
  approved: {type: final}
";

/// Sends all calls at once, to the nodes in turn, each over a connection that is open already; the answers are in the
/// order of the calls.
pub(crate) async fn at_once(world: &World, calls: Vec<Call>) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(calls.len()));
    let mut people = JoinSet::new();
    for (place, call) in calls.into_iter().enumerate() {
        let (api, barrier) = (Api::new(world.node(place).url()), barrier.clone());
        people.spawn(async move {
            api.get("/healthz").await.ok();
            barrier.wait().await;
            (place, api.call(&call).await)
        });
    }
    let mut answers: Vec<(usize, Answer)> = people.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// How often each outcome came.
pub(crate) fn outcomes(answers: &[Answer]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.outcome()).or_default() += 1;
    }
    counts
}

/// M1: one move, and everybody else is told that it was made.
async fn of_fifty_who_approve_at_once_one_moves(world: World) {
    let api = world.api();
    api.put("review", REVIEW).await;
    api.start("review", &json!({ "id": "r" })).await;
    let approve = |person: usize| {
        let actor = json!({ "id": format!("person-{person}"), "roles": ["approver"] });
        Call::send("review", "r", &json!({ "event": "approve", "actor": actor }))
    };
    let answers = at_once(&world, (0..PEOPLE).map(approve).collect()).await;
    let expected = BTreeMap::from([("applied".to_owned(), 1), ("already_applied".to_owned(), PEOPLE - 1)]);
    assert_eq!(outcomes(&answers), expected);
    for answer in &answers {
        assert_eq!((answer.version(), answer.json()["state"].as_str()), (2, Some("approved")), "{answer:?}");
    }
    let rows = history(&api, "review", "r").await;
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["start", "move"]);
    let mover = answers.iter().position(|answer| answer.outcome() == "applied").unwrap();
    assert_eq!(rows[1].actor, format!("person-{mover}"), "the one who was told so");
    assert_eq!(rows[1].raw["approved_by"], Value::from(vec![rows[1].actor.clone()]));
    println!("{PEOPLE} approvals at once: {:?}; history rows: {kinds:?}", outcomes(&answers));
}

in_both_worlds!(of_fifty_who_approve_at_once_one_moves,);
