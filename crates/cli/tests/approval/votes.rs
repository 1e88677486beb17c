//! M18: votes that arrive on two nodes in the same instant both stand.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::crowd::{at_once, outcomes};
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

const ROUNDS: usize = 15;

const REVIEW: &str = "
workflow: review
initial: open
states:
  open: {on: {approve: {target: approved, approval: {quorum: 2, roles: [board]}}}}
  approved: {type: final}
";

fn vote(round: usize, person: &str) -> Call {
    let actor = json!({ "id": person, "roles": ["board"] });
    Call::send("review", &round.to_string(), &json!({ "event": "approve", "actor": actor }))
}

async fn two_of_three_at_once_are_both_counted(world: World) {
    let api = world.api();
    api.put("review", REVIEW).await;
    for round in 0..ROUNDS {
        api.start("review", &json!({ "id": round.to_string() })).await;
        let answers = at_once(&world, vec![vote(round, "ann"), vote(round, "bob")]).await;
        let expected = BTreeMap::from([("applied".to_owned(), 1), ("pending_approval".to_owned(), 1)]);
        assert_eq!(outcomes(&answers), expected, "round {round}: {answers:?}");
        let rows = history(&api, "review", &round.to_string()).await;
        let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
        assert_eq!(kinds, ["start", "vote", "move"], "round {round}");
        assert_eq!(rows[2].raw["approved_by"], json!([rows[1].actor, rows[2].actor]), "round {round}");
    }
}

async fn all_three_at_once_are_two_votes_and_one_who_is_late(world: World) {
    let api = world.api();
    api.put("review", REVIEW).await;
    for round in 0..ROUNDS {
        api.start("review", &json!({ "id": round.to_string() })).await;
        let answers = at_once(&world, ["ann", "bob", "eve"].map(|person| vote(round, person)).to_vec()).await;
        let expected = ["already_applied", "applied", "pending_approval"].map(|outcome| (outcome.to_owned(), 1));
        assert_eq!(outcomes(&answers), BTreeMap::from(expected), "round {round}: {answers:?}");
        let instance = api.instance("review", &round.to_string()).await;
        assert_eq!((&instance["version"], &instance["state"]), (&json!(3), &Value::from("approved")), "round {round}");
    }
}

in_both_worlds!(two_of_three_at_once_are_both_counted, all_three_at_once_are_two_votes_and_one_who_is_late);
