//! Two stages with one event: two people at once advance one of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::crowd::{at_once, outcomes};
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

const ROUNDS: usize = 10;

const TWO_STAGES: &str = "
workflow: release
initial: tested
states:
  tested: {on: {approve: {target: staged, roles: [admin]}}}
  staged: {on: {approve: {target: live, roles: [admin]}}}
  live: {type: final}
";

fn approve(round: usize, admin: &str, from: Option<&str>) -> Call {
    let mut body = json!({ "event": "approve", "actor": { "id": admin, "roles": ["admin"] } });
    if let Some(from) = from {
        body["from"] = json!(from);
    }
    Call::send("release", &round.to_string(), &body)
}

async fn both_at_once(world: World, from: Option<&str>, loser: &str) {
    let api = world.api();
    let warnings = api.call(&Call::put("release", TWO_STAGES)).await.ok()["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "the checker warns of two stages: {warnings}");
    for round in 0..ROUNDS {
        api.start("release", &json!({ "id": round.to_string() })).await;
        let answers = at_once(&world, vec![approve(round, "ann", from), approve(round, "bob", from)]).await;
        let expected = BTreeMap::from([("applied".to_owned(), 1), (loser.to_owned(), 1)]);
        assert_eq!(outcomes(&answers), expected, "round {round}");
        let instance = api.instance("release", &round.to_string()).await;
        assert_eq!((&instance["state"], &instance["version"]), (&json!("staged"), &json!(2)), "round {round}");
        let rows = history(&api, "release", &round.to_string()).await;
        assert_eq!(rows.iter().filter(|row| row.kind == "move").count(), 1, "round {round}");
    }
    // The second stage has to be meant.
    let on = api.call(&approve(0, "ann", Some("staged"))).await;
    assert_eq!((on.outcome().as_str(), &on.json()["state"]), ("applied", &Value::from("live")), "{on:?}");
}

/// A10: the one who was late meant the first stage, and is asked.
async fn two_admins_at_once_advance_one_stage(world: World) {
    both_at_once(world, None, "ambiguous_target").await;
}

async fn who_says_which_stage_hears_that_it_is_done(world: World) {
    both_at_once(world, Some("tested"), "already_applied").await;
}

in_both_worlds!(two_admins_at_once_advance_one_stage, who_says_which_stage_hears_that_it_is_done,);
