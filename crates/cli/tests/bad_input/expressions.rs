//! Guards and assigns with mistakes: told when they are put where that can be, else when they are evaluated.

use serde_json::json;

use super::definitions::problems;
use crate::begin;
use crate::support::call::Call;

/// A workflow whose one guard, in line 5, is `guard`.
fn guarded(guard: &str) -> String {
    let guard = serde_json::to_string(guard).unwrap();
    format!(
        "workflow: w\ninitial: a\nstates:\n  a:\n    on: {{go: {{target: b, guard: {guard}}}}}\n  b: {{type: final}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_told_when_it_is_put() {
    let (_store, _server, api) = begin().await;
    let cases = [
        "data.",
        "data.amount >",
        "(1 + 2",
        "1 +* 2",
        "data.amount = 1",
        "\"open",
        "",
        " ",
        "datta.amount > 1",
        "amount > 1",
        "nosuch(1)",
        "data.amount.nosuch()",
        "🦀",
        "1 ? 2",
        "true; true",
        "if true then true",
    ];
    for guard in cases {
        let text = guarded(guard);
        let found = problems(&api, Call::put("w", &text)).await;
        assert_eq!(found[0]["line"], json!(5), "{guard:?}: {found:?}");
        assert!(found[0]["path"].as_str().unwrap().contains("guard"), "{found:?}");
    }
    let names = problems(&api, Call::put("w", &guarded("amount > 1"))).await;
    let text = format!("{} {}", names[0]["message"], names[0]["remedy"]);
    assert!(text.contains("data"), "it says where fields are to be had: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_costs_too_much_is_refused_when_it_is_put_or_evaluated() {
    let (_store, _server, api) = begin().await;
    let long = format!("{}true", "true && ".repeat(1_000));
    let deep = format!("{}true{}", "(".repeat(1_000), ")".repeat(1_000));
    let not = format!("{}true", "!".repeat(1_500));
    for guard in [long, deep, not] {
        problems(&api, Call::put("w", &guarded(&guard))).await;
    }
    let list: Vec<i32> = (0..300).collect();
    let heavy = "data.l.all(a, data.l.all(b, data.l.all(c, a + b + c >= 0)))";
    let answer = api.call(&Call::put("w", &guarded(heavy))).await;
    if answer.status == 201 {
        api.start("w", &json!({ "id": "i", "data": { "l": list } })).await;
        api.send("w", "i", &json!({ "event": "go" })).await.problem(422, "guard_error");
    } else {
        answer.problem(422, "invalid_definition");
    }
    let square = "data.l.all(a, data.l.all(b, a + b >= 0))";
    api.put("w", &guarded(square)).await;
    api.start("w", &json!({ "id": "square", "data": { "l": list } })).await;
    let begin = std::time::Instant::now();
    api.send("w", "square", &json!({ "event": "go" })).await.problem(422, "guard_error");
    assert!(begin.elapsed() < std::time::Duration::from_secs(5), "90,000 steps were not walked to their end");
    api.start("w", &json!({ "id": "small", "data": { "l": [1, 2, 3] } })).await;
    assert_eq!(api.send("w", "small", &json!({ "event": "go" })).await.outcome(), "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_at_the_commit_is_a_guard_error() {
    let (_store, _server, api) = begin().await;
    let cases = [
        ("data.amount > 1", json!({})),
        ("data.amount > 1", json!({ "amount": "2" })),
        ("data.amount > 1", json!({ "amount": null })),
        ("data.amount", json!({ "amount": 7 })),
        ("data.a.b.c == 1", json!({ "a": {} })),
        ("data.amount + 1 > 0", json!({ "amount": i64::MAX })),
        ("data.amount * 2 > 0", json!({ "amount": i64::MIN })),
        ("data.amount / 0 > 0", json!({ "amount": 1 })),
        ("data.amount % 0 > 0", json!({ "amount": 1 })),
        ("data.list[5] == 1", json!({ "list": [1] })),
        ("-data.amount < 0", json!({ "amount": i64::MIN })),
    ];
    for (number, (guard, data)) in cases.into_iter().enumerate() {
        api.put("w", &guarded(guard)).await;
        let id = number.to_string();
        api.start("w", &json!({ "id": id, "data": data })).await;
        let problem = api.send("w", &id, &json!({ "event": "go" })).await.problem(422, "guard_error");
        assert_eq!(problem["expression"], guard);
        assert_eq!(api.instance("w", &id).await["state"], "a", "{guard} of {data}");
    }
}
