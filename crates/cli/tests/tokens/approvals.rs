//! What is done about an approval, with tokens: it is the principal's, or theirs as whom it may act, and roles are the
//! token's.

use serde_json::{Value, json};

use super::Guarded;
use crate::support::call::{Answer, Call};

const BUDGET: &str = "
workflow: budget
initial: review
states:
  review:
    on:
      approve:
        target: approved
        guard: actor.id != 'eve'
        approval:
          quorum: 3
          roles: [finance]
          delegation: {roles: [deputy]}
          recall: true
          add_approvers: {roles: [chair]}
          veto: reject
      reject: rejected
  approved: {type: final}
  rejected: {type: final, status: failed}
";

/// A server with tokens, and a budget in review.
async fn in_review() -> Guarded {
    let guarded = Guarded::begin().await;
    guarded.call(Call::put("budget", BUDGET), &guarded.admin).await.ok();
    guarded.call(Call::start("budget", &json!({ "id": "b-1" })), &guarded.admin).await.ok();
    guarded
}

/// `approve` with `more`, by a single request.
async fn act(guarded: &Guarded, secret: &str, more: Value) -> Answer {
    let mut body = json!({ "event": "approve" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    guarded.call(Call::send("budget", "b-1", &body), secret).await
}

async fn pending(guarded: &Guarded, secret: &str, more: Value, voters: &[&str]) -> Value {
    let answer = act(guarded, secret, more.clone()).await.ok();
    assert_eq!(answer["outcome"], "pending_approval", "{more}: {answer}");
    assert_eq!(answer["approval"]["voters"], json!(voters), "{more}: {answer}");
    answer
}

async fn rows(guarded: &Guarded) -> Vec<Value> {
    let path = "/v1/workflows/budget/instances/b-1/history";
    guarded.call(Call::get(path), &guarded.admin).await.ok()["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_act_is_that_of_the_tokens_principal() {
    let guarded = in_review().await;
    let (ann, bob) = (guarded.token("ann", &["finance"]).await, guarded.token("bob", &["finance"]).await);
    let (zoe, kim) = (guarded.token("zoe", &["deputy"]).await, guarded.token("kim", &["chair"]).await);
    pending(&guarded, &ann, json!({}), &["ann"]).await;
    // Her name is not his, in whatever he does.
    for more in [
        json!({}),
        json!({ "recall": true }),
        json!({ "delegate_to": "zoe" }),
        json!({ "add_approver": "max" }),
        json!({ "event": "reject" }),
    ] {
        let mut more = more;
        more["actor"] = json!("ann");
        let problem = act(&guarded, &bob, more.clone()).await.problem(403, "not_permitted");
        assert_eq!(problem["roles"], json!(["act_as"]), "{more}");
        more["workflow"] = json!("budget");
        more["id"] = json!("b-1");
        more["event"] = json!("approve");
        for atomic in [true, false] {
            let batch = Call::post("/v1/transitions", &json!({ "atomic": atomic, "moves": [more] }));
            guarded.call(batch, &bob).await.problem(403, "not_permitted");
        }
    }
    assert_eq!(rows(&guarded).await.len(), 2, "nothing was done");
    let nothing = act(&guarded, &bob, json!({ "recall": true })).await.json();
    assert_eq!((&nothing["outcome"], &nothing["reason"]), (&json!("act_refused"), &json!("nothing_to_recall")));
    pending(&guarded, &bob, json!({ "delegate_to": "zoe" }), &["ann"]).await;
    pending(&guarded, &zoe, json!({}), &["ann", "zoe"]).await;
    pending(&guarded, &ann, json!({ "recall": true }), &["zoe"]).await;
    // Who holds a vote adds nobody by it; the chair does.
    let problem = act(&guarded, &zoe, json!({ "add_approver": "max" })).await.problem(403, "not_permitted");
    assert_eq!(problem["roles"], json!(["chair"]));
    pending(&guarded, &kim, json!({ "add_approver": "max" }), &["zoe"]).await;
    let kinds: Vec<_> = rows(&guarded).await.iter().map(|row| format!("{} {}", row["kind"], row["actor"])).collect();
    let expected = ["start admin", "vote ann", "delegate bob", "vote zoe", "recall ann", "add_approver kim"];
    assert_eq!(kinds.iter().map(|kind| kind.replace('"', "")).collect::<Vec<_>>(), expected);
    assert!(rows(&guarded).await.iter().all(|row| row["unverified"].is_null() && row["via"].is_null()));
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_in_an_approval_are_the_tokens() {
    let guarded = in_review().await;
    let (bob, zoe) = (guarded.token("bob", &["finance"]).await, guarded.token("zoe", &[]).await);
    let eve = guarded.token("eve", &["finance"]).await;
    // Nobody claims a role that the token has not, neither for a vote nor for anything else.
    for (role, more) in [
        ("finance", json!({})),
        ("chair", json!({ "add_approver": "max" })),
        ("finance", json!({ "delegate_to": "yan" })),
        ("finance", json!({ "event": "reject" })),
    ] {
        let mut more = more;
        more["actor"] = json!({ "id": "zoe", "roles": [role] });
        act(&guarded, &zoe, more).await.problem(403, "not_permitted");
    }
    // What is handed over needs a deputy, and zoe is none.
    pending(&guarded, &bob, json!({ "delegate_to": "zoe" }), &[]).await;
    let problem = act(&guarded, &zoe, json!({})).await.problem(403, "not_permitted");
    assert_eq!(problem["roles"], json!(["deputy"]));
    pending(&guarded, &bob, json!({ "recall": true }), &[]).await;
    pending(&guarded, &bob, json!({}), &["bob"]).await;
    // Whom the guard refuses the vote may not veto by it.
    act(&guarded, &eve, json!({})).await.problem(422, "guard_rejected");
    act(&guarded, &eve, json!({ "event": "reject" })).await.problem(422, "guard_rejected");
    act(&guarded, &zoe, json!({ "event": "reject" })).await.problem(403, "not_permitted");
    let vetoed = act(&guarded, &bob, json!({ "event": "reject" })).await.ok();
    assert_eq!((&vetoed["outcome"], &vetoed["state"]), (&json!("applied"), &json!("rejected")));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_act_as_another_does_what_the_other_may() {
    let guarded = in_review().await;
    let desk = guarded.token("desk", &["act_as", "finance", "deputy"]).await;
    let ann = guarded.token("ann", &["finance"]).await;
    let of = |id: &str, role: &str, mut more: Value| {
        more["actor"] = json!({ "id": id, "roles": [role] });
        more
    };
    pending(&guarded, &ann, json!({}), &["ann"]).await;
    // The same person by another token is the same hand.
    let again = pending(&guarded, &desk, of("ann", "finance", json!({})), &["ann"]).await;
    assert_eq!(again["version"], 2);
    pending(&guarded, &desk, of("ann", "finance", json!({ "recall": true })), &[]).await;
    pending(&guarded, &desk, of("bob", "finance", json!({ "delegate_to": "zoe" })), &[]).await;
    pending(&guarded, &desk, of("zoe", "deputy", json!({})), &["zoe"]).await;
    // A role that the token has not is not lent, nor are its own passed on silently.
    let add = of("kim", "chair", json!({ "add_approver": "max" }));
    assert_eq!(act(&guarded, &desk, add).await.problem(403, "not_permitted")["roles"], json!(["chair"]));
    let bare = act(&guarded, &desk, json!({ "actor": "cid" })).await.problem(403, "not_permitted");
    assert_eq!(bare["roles"], json!(["finance"]));
    // The desk itself is one more person.
    pending(&guarded, &desk, json!({}), &["zoe", "desk"]).await;
    assert_eq!(act(&guarded, &desk, of("cid", "finance", json!({}))).await.ok()["outcome"], "applied");
    let rows = rows(&guarded).await;
    let via: Vec<_> = rows.iter().map(|row| (row["actor"].as_str().unwrap(), row["via"].as_str())).collect();
    let desk = Some("desk");
    let expected =
        [("admin", None), ("ann", None), ("ann", desk), ("bob", desk), ("zoe", desk), ("desk", None), ("cid", desk)];
    assert_eq!(via, expected);
    assert_eq!((&rows[4]["on_behalf_of"], &rows[6]["approved_by"]), (&json!("bob"), &json!(["zoe", "desk", "cid"])));
}
