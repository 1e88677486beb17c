//! What is done about an approval, through every door: counted alike, refused alike, and never a way around the rule.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::crowd::{at_once, outcomes};
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

const BUDGET: &str = "
workflow: budget
initial: draft
states:
  draft: {on: {submit: {target: review, recall: true, assign: {by: actor.id}}}}
  review:
    on:
      approve:
        target: approved
        approval:
          quorum: 3
          of: [sam, ann, bob, cid, dan]
          exclude_starter: true
          delegation: true
          recall: true
          add_approvers: {roles: [chair]}
          veto: reject
      reject: rejected
      amend: {assign: {amount: event.amount}}
      again: review
      send_back: {return: previous}
  approved: {type: final}
  rejected: {type: final, status: failed}
";

/// The ways in for one command.
#[derive(Clone, Copy, Debug)]
enum Door {
    Single,
    Batch,
    Atomic,
    Cli,
}

const DOORS: [Door; 4] = [Door::Single, Door::Batch, Door::Atomic, Door::Cli];

/// What came of it: the outcome, and the whole answer.
async fn send(world: &World, door: Door, id: &str, body: &Value) -> (String, Value) {
    let api = world.api();
    let mut one = body.clone();
    one["workflow"] = json!("budget");
    one["id"] = json!(id);
    let batch = |atomic: bool| Call::post("/v1/transitions", &json!({ "atomic": atomic, "moves": [one] }));
    let answer = match door {
        Door::Single => api.send("budget", id, body).await.json(),
        Door::Batch => api.call(&batch(false)).await.json()["results"][0].clone(),
        Door::Atomic => api.call(&batch(true)).await.json()["results"][0].clone(),
        Door::Cli => by_cli(world, id, body).await,
    };
    (answer["outcome"].as_str().unwrap_or_else(|| panic!("{door:?}: {answer}")).to_owned(), answer)
}

/// The same as a command line.
async fn by_cli(world: &World, id: &str, body: &Value) -> Value {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let target = format!("budget/{id}");
    let mut line = match (text(&body["delegate_to"]), text(&body["add_approver"]), body["recall"] == true) {
        (Some(to), ..) => vec!["delegate".to_owned(), target, "approve".to_owned(), "--to".to_owned(), to],
        (_, Some(whom), _) => vec!["add-approver".to_owned(), target, "approve".to_owned(), whom],
        (_, _, true) => vec!["recall".to_owned(), target],
        _ => vec!["send".to_owned(), target],
    };
    if line[0] == "send" || line[0] == "recall" {
        line.extend(text(&body["event"]));
    }
    if let Some(to) = text(&body["to"]) {
        line.extend(["--to".to_owned(), to]);
    }
    if let Some(data) = body.get("data") {
        line.extend(["--data".to_owned(), data.to_string()]);
    }
    let actor = &body["actor"];
    line.extend(["--as".to_owned(), text(actor).or(text(&actor["id"])).unwrap()]);
    if let Some(role) = text(&actor["roles"][0]) {
        line.extend(["--as-roles".to_owned(), role]);
    }
    line.extend(["-o".to_owned(), "json".to_owned()]);
    let cli = world.cli(1);
    let said = spawn_blocking(move || cli.run(&line.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap();
    let text = if said.code == Some(0) { &said.out } else { &said.err };
    serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON ({error}): {said:?}"))
}

/// A run of `id` in review, at version 2.
async fn begin(world: &World, id: &str) -> Api {
    let api = world.api();
    api.put("budget", BUDGET).await;
    api.start("budget", &json!({ "id": id, "actor": "sam" })).await;
    api.send("budget", id, &json!({ "event": "submit", "actor": "sam" })).await.ok();
    api
}

fn act(actor: &str, more: Value) -> Value {
    let mut body = json!({ "event": "approve", "actor": actor });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Three of five with everything that may be done about it, each act by a door of its own.
async fn each_act_counts_through_each_door(world: World) {
    for door in [Door::Single, Door::Batch, Door::Cli] {
        let id = format!("{door:?}");
        let api = begin(&world, &id).await;
        let chair = json!({ "actor": { "id": "kim", "roles": ["chair"] } });
        let mut add = act("kim", json!({ "add_approver": "max" }));
        add["actor"] = chair["actor"].clone();
        let acts = [
            (act("ann", json!({})), "vote", json!(["ann"])),
            (act("bob", json!({ "delegate_to": "zoe" })), "delegate", json!(["ann"])),
            (act("zoe", json!({})), "vote", json!(["ann", "zoe"])),
            (act("ann", json!({ "recall": true })), "recall", json!(["zoe"])),
            (add, "add_approver", json!(["zoe"])),
            (act("cid", json!({})), "vote", json!(["zoe", "cid"])),
            (act("dan", json!({})), "vote", json!(["zoe", "cid", "dan"])),
        ];
        for (body, kind, voters) in acts {
            // What changes nothing a second time is no second row.
            for _ in 0..2 {
                let (outcome, answer) = send(&world, door, &id, &body).await;
                if kind == "recall" && outcome == "act_refused" {
                    assert_eq!(answer["reason"], "nothing_to_recall", "{answer}");
                    continue;
                }
                assert_eq!(outcome, "pending_approval", "{door:?}: {body} {answer}");
                assert_eq!(answer["approval"]["voters"], voters, "{door:?}: {body} {answer}");
            }
            let rows = history(&api, "budget", &id).await;
            assert_eq!(rows.last().unwrap().kind, kind, "{door:?}");
        }
        let open = api.instance("budget", &id).await["approvals"][0].clone();
        assert_eq!((&open["quorum"], &open["missing"], &open["waiting_for"]), (&json!(4), &json!(1), &json!(["max"])));
        let (outcome, _) = send(&world, door, &id, &act("max", json!({}))).await;
        assert_eq!(outcome, "applied", "{door:?}");
        let rows = history(&api, "budget", &id).await;
        assert_eq!(rows.len(), 10, "{door:?}: {rows:?}");
        assert_eq!(rows[9].raw["approved_by"], json!(["zoe", "cid", "dan", "max"]));
        assert_eq!(rows[4].raw["on_behalf_of"], "bob");
    }
}

/// Short of the last place nothing about an approval is a move: all or nothing is nothing.
async fn in_an_atomic_request_nothing_is_recorded(world: World) {
    let api = begin(&world, "a").await;
    api.send("budget", "a", &act("ann", json!({}))).await.ok();
    let kim = json!({ "id": "kim", "roles": ["chair"] });
    for body in [
        act("bob", json!({})),
        act("bob", json!({ "delegate_to": "zoe" })),
        act("ann", json!({ "recall": true })),
        json!({ "event": "approve", "add_approver": "max", "actor": kim }),
    ] {
        let (outcome, answer) = send(&world, Door::Atomic, "a", &body).await;
        assert_eq!(outcome, "not_applied", "{body} {answer}");
    }
    assert_eq!(history(&api, "budget", "a").await.len(), 3);
    // Taking a move back is one.
    begin(&world, "b").await;
    let (outcome, _) =
        send(&world, Door::Atomic, "b", &json!({ "event": "submit", "recall": true, "actor": "sam" })).await;
    assert_eq!(outcome, "applied");
    assert_eq!(api.instance("budget", "b").await["data"], json!({}), "with what it assigned");
}

/// Every way around the rule that somebody might try, by every door.
async fn no_rule_is_passed_by_any_door(world: World) {
    let api = begin(&world, "a").await;
    api.send("budget", "a", &act("ann", json!({}))).await.ok();
    api.send("budget", "a", &act("bob", json!({ "delegate_to": "zoe" }))).await.ok();
    let version = api.instance("budget", "a").await["version"].clone();
    let role = |id: &str, roles: Value| json!({ "id": id, "roles": roles });
    let tries = [
        ("the starter votes", act("sam", json!({})), "not_permitted"),
        ("the starter delegates", act("sam", json!({ "delegate_to": "yan" })), "not_permitted"),
        ("to the starter", act("cid", json!({ "delegate_to": "sam" })), "act_refused"),
        ("a stranger votes", act("eve", json!({})), "not_permitted"),
        ("with a role", act("eve", json!({ "actor": role("eve", json!(["chair"])) })), "not_permitted"),
        ("by the target", json!({ "to": "approved", "actor": "eve" }), "not_permitted"),
        ("a stranger delegates", act("eve", json!({ "delegate_to": "yan" })), "not_permitted"),
        ("after handing over", act("bob", json!({})), "act_refused"),
        ("twice handed over", act("bob", json!({ "delegate_to": "yan" })), "act_refused"),
        ("handed on", act("zoe", json!({ "delegate_to": "yan" })), "act_refused"),
        ("a second vote for zoe", act("cid", json!({ "delegate_to": "zoe" })), "act_refused"),
        ("to a member", act("cid", json!({ "delegate_to": "dan" })), "act_refused"),
        ("to oneself", act("cid", json!({ "delegate_to": "cid" })), "act_refused"),
        ("having voted", act("ann", json!({ "delegate_to": "yan" })), "act_refused"),
        ("another's vote", act("cid", json!({ "recall": true })), "act_refused"),
        ("another's move", json!({ "event": "submit", "recall": true, "actor": "sam" }), "act_refused"),
        ("a member adds", act("cid", json!({ "add_approver": "yan" })), "not_permitted"),
        ("a stranger vetoes", json!({ "event": "reject", "actor": "eve" }), "not_permitted"),
        ("a veto that was handed over", json!({ "event": "reject", "actor": "bob" }), "not_permitted"),
    ];
    for (what, body, expected) in tries {
        for door in DOORS {
            let (outcome, answer) = send(&world, door, "a", &body).await;
            assert_eq!(outcome, expected, "{what}, {door:?}: {answer}");
        }
    }
    // One person by every door and at once is one vote.
    let again = act("ann", json!({}));
    let calls = (0..8).map(|_| Call::send("budget", "a", &again)).collect();
    assert_eq!(outcomes(&at_once(&world, calls).await), BTreeMap::from([("pending_approval".to_owned(), 8)]));
    assert_eq!(api.instance("budget", "a").await["version"], version, "nothing of it was recorded");
}

/// Votes do not outlive what they were given for.
async fn votes_end_with_new_data_and_with_the_visit(world: World) {
    let api = begin(&world, "a").await;
    let resets = [
        json!({ "event": "amend", "data": { "amount": 9 }, "actor": "sam" }),
        json!({ "event": "again", "actor": "sam" }),
        json!({ "event": "send_back", "actor": "cid" }),
    ];
    for reset in resets {
        for voter in ["ann", "bob"] {
            assert_eq!(api.send("budget", "a", &act(voter, json!({}))).await.outcome(), "pending_approval");
        }
        assert_eq!(api.send("budget", "a", &reset).await.outcome(), "applied", "{reset}");
        if api.instance("budget", "a").await["state"] == "draft" {
            api.send("budget", "a", &json!({ "event": "submit", "actor": "sam" })).await.ok();
        }
        let open = api.instance("budget", "a").await["approvals"][0].clone();
        assert_eq!((&open["voters"], &open["missing"]), (&json!([]), &json!(3)), "{reset}: {open}");
    }
    history(&api, "budget", "a").await;
}

/// M18 with more than votes: whatever arrives in the same instant is decided one after another, and nothing is lost.
async fn what_is_done_at_once_all_stands(world: World) {
    for round in 0..5 {
        let id = format!("r{round}");
        let api = begin(&world, &id).await;
        let call = |body: &Value| Call::send("budget", &id, body);
        let kim = json!({ "id": "kim", "roles": ["chair"] });
        let calls = vec![
            call(&act("ann", json!({}))),
            call(&act("bob", json!({ "delegate_to": "zoe" }))),
            call(&json!({ "event": "approve", "add_approver": "max", "actor": kim })),
            call(&act("cid", json!({}))),
        ];
        let expected = BTreeMap::from([("pending_approval".to_owned(), 4)]);
        assert_eq!(outcomes(&at_once(&world, calls).await), expected, "{id}");
        // The last vote and a veto: one of them is the move.
        api.send("budget", &id, &act("max", json!({}))).await.ok();
        let veto = json!({ "event": "reject", "actor": "dan" });
        let answers = at_once(&world, vec![call(&act("zoe", json!({}))), call(&veto)]).await;
        let applied = answers.iter().filter(|answer| answer.outcome() == "applied").count();
        assert_eq!(applied, 1, "{id}: {answers:?}");
        assert_eq!(history(&api, "budget", &id).await.len(), 8, "{id}");
    }
}

/// Under its key an act takes effect once, and answers what it answered.
async fn an_act_is_safe_to_send_again_under_its_key(world: World) {
    let api = begin(&world, "a").await;
    let acts =
        [act("ann", json!({})), act("ann", json!({ "recall": true })), act("bob", json!({ "delegate_to": "zoe" }))];
    for (number, body) in acts.iter().enumerate() {
        let call = Call::send("budget", "a", body).key(format!("k-{number}"));
        let first = api.call(&call).await;
        let again = api.call(&call).await;
        assert!(!first.replayed() && again.replayed(), "{body}");
        assert_eq!((first.json(), first.outcome()), (again.json(), "pending_approval".to_owned()));
    }
    let other = Call::send("budget", "a", &act("bob", json!({ "delegate_to": "yan" }))).key("k-2");
    api.call(&other).await.problem(409, "key_reused");
    assert_eq!(history(&api, "budget", "a").await.len(), 5);
    for body in [
        act("ann", json!({ "recall": true, "delegate_to": "zoe" })),
        act("ann", json!({ "delegate_to": "" })),
        json!({ "to": "approved", "delegate_to": "zoe", "actor": "ann" }),
        act("ann", json!({ "recall": true, "to": "draft" })),
        act("ann", json!({ "delegate": "zoe" })),
    ] {
        api.send("budget", "a", &body).await.problem(400, "malformed");
    }
    let problem = api.send("budget", "a", &act("bob", json!({}))).await.problem(409, "act_refused");
    assert_eq!(problem["reason"], "delegated");
}

in_both_worlds!(
    each_act_counts_through_each_door,
    in_an_atomic_request_nothing_is_recorded,
    no_rule_is_passed_by_any_door,
    votes_end_with_new_data_and_with_the_visit,
    what_is_done_at_once_all_stands,
    an_act_is_safe_to_send_again_under_its_key,
);
