//! M14: ids round-trip byte for byte, or are refused when they are made.

use serde_json::json;

use crate::begin_in;
use crate::support::call::{Call, encode, instance};
use crate::support::history::history;
use crate::support::raw;
use crate::support::world::{World, in_both_worlds};

/// Strange, and good.
const GOOD: [&str; 34] = [
    "a/b",
    "/",
    "//",
    "a//b/",
    "../x",
    "a/../b",
    "::",
    "a::b",
    "%2F",
    "%2f",
    "%252F",
    "%",
    "%zz",
    "🦀",
    "caf\u{e9}",
    "cafe\u{301}",
    "trailing ",
    " leading",
    " ",
    "Case",
    "case",
    "...",
    "a b+c",
    "?q=1&r=2",
    "#fragment",
    "a;b=c",
    "\"quoted\"",
    "back\\slash",
    "$workflow",
    "events",
    "history",
    "日本語",
    "\u{202e}right-to-left",
    "\u{feff}bom",
];

/// Not to be had.
fn bad() -> Vec<String> {
    let mut bad: Vec<String> =
        ["", ".", "..", "a\0b", "a\nb", "tab\t", "\u{7f}", "\u{85}", "\u{1b}[31m"].map(str::to_owned).to_vec();
    bad.extend(["x".repeat(513), "é".repeat(257)]);
    bad
}

async fn ids_come_back_byte_for_byte(world: World) {
    let api = begin_in(&world).await;
    let long = ["x".repeat(512), "é".repeat(256), "/".repeat(512)];
    let ids: Vec<&str> = GOOD.into_iter().chain(long.iter().map(String::as_str)).collect();
    for (place, id) in ids.iter().enumerate() {
        let start = Call::start("item", &json!({ "id": id, "data": { "value": place } }));
        let started = api.call(&start).await;
        assert_eq!((started.status, &started.json()["id"]), (201, &json!(id)), "{started:?}");
        let location = started.headers["location"].to_str().unwrap();
        assert_eq!(location, instance("item", id, ""), "the Location is the encoded path");
    }
    for (place, id) in ids.iter().enumerate() {
        let found = api.instance("item", id).await;
        assert_eq!((&found["id"], &found["data"]["value"]), (&json!(id), &json!(place)), "{id:?}");
        let moved = api.send("item", id, &json!({ "event": "submit" })).await;
        assert_eq!((moved.outcome().as_str(), &moved.json()["id"]), ("applied", &json!(id)));
        assert_eq!(history(&api, "item", id).await.len(), 2, "{id:?}");
        let moves = json!([{ "workflow": "item", "id": id, "event": "reject" }]);
        let batch = api.call(&Call::post("/v1/transitions", &json!({ "moves": moves }))).await.ok();
        assert_eq!(batch["results"][0]["id"], json!(id));
        let found = api.get(&format!("/v1/workflows/item/instances?limit=1000&q={}", encode(id))).await.ok();
        let found = found["items"].as_array().unwrap().iter().any(|item| item["id"] == json!(id));
        assert!(found, "{id:?} is not found by itself");
    }
    let listed = api.get("/v1/workflows/item/instances?limit=1000").await.ok();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(ids.len() + 1), "each is an instance of its own");
}

async fn the_command_line_passes_ids_on_as_they_are(world: World) {
    let api = begin_in(&world).await;
    let cli = world.cli(1);
    for id in GOOD {
        let target = format!("item/{id}");
        let started = cli.run(&["start", &target, "-o", "json"]).json();
        assert_eq!(started["id"], json!(id));
        assert_eq!(api.instance("item", id).await["id"], json!(id));
    }
    for id in GOOD {
        let found = cli.run(&["get", &format!("item/{id}"), "-o", "json"]).json();
        assert_eq!((&found["id"], &found["version"]), (&json!(id), &json!(1)), "{id:?}");
    }
    for id in bad().iter().filter(|id| !id.contains('\0')) {
        let said = cli.run(&["start", &format!("item/{id}")]);
        assert_eq!(said.code, Some(2), "{id:?}: {said:?}");
        assert!(!said.err.contains('\u{1b}'), "no control character reaches the terminal: {said:?}");
    }
}

async fn ids_that_would_not_survive_are_refused(world: World) {
    let api = begin_in(&world).await;
    for id in bad() {
        let start = Call::start("item", &json!({ "id": id }));
        api.call(&start).await.problem(400, "malformed");
        let moves = json!([{ "workflow": "item", "id": id, "event": "submit" }]);
        let batch = api.call(&Call::post("/v1/transitions", &json!({ "moves": moves }))).await;
        assert_eq!(batch.problem(400, "malformed")["failed_index"], 0);
    }
    for body in [r#"{"id":7}"#, r#"{"id":["a"]}"#, r#"{"id":"\ud800"}"#] {
        api.call(&Call::start("item", &json!({})).text(body)).await.problem(400, "malformed");
    }
    // In a path, as no client library would send it.
    for path in ["%2E", "%2e%2e", ".", "..", "%00", "%0A", "a%7F", "%C2%85", "%FF", "%C3%28", "%ED%A0%80"] {
        let line = format!("GET /v1/workflows/item/instances/{path}");
        let request = raw::request(&line, world.node(1).address(), "", "");
        let (status, head, body) = raw::exchange(world.node(1).address(), &request);
        assert_eq!(status, 400, "{path}: {body}");
        assert!(head.contains("application/problem+json") && body.contains("malformed"), "{path}: {head} {body}");
    }
    assert_eq!(api.get("/v1/workflows/item/instances").await.ok()["items"].as_array().map(Vec::len), Some(1));
}

async fn workflow_names_follow_their_pattern(world: World) {
    let api = begin_in(&world).await;
    let text = |name: &str| format!("workflow: {name:?}\ninitial: a\nstates: {{a: {{type: final}}}}\n");
    for name in ["a", "a-b_c9", &"a".repeat(64)] {
        api.put(name, &text(name)).await;
    }
    for name in ["A", "1a", "_a", "-a", "ä", "a b", "a.b", "$workflow", "$token", &"a".repeat(65), "a%2Fb", "%61%0a"] {
        let paths = ["", "/instances", "/instances/i", "/instances/i/history"];
        for path in paths {
            let path = format!("/v1/workflows/{}{path}", encode(name));
            api.get(&path).await.problem(400, "malformed");
        }
        api.call(&Call::put(&encode(name), &text(name))).await.problem(400, "malformed");
    }
    api.get("/v1/workflows//instances").await.problem(400, "malformed");
    let (status, _, _) =
        raw::exchange(world.node(1).address(), &raw::request("GET /v1/workflows/%61", world.node(1).address(), "", ""));
    assert_eq!(status, 200, "an encoded letter is that letter");
}

async fn actors_and_roles_are_names_too(world: World) {
    let api = begin_in(&world).await;
    let bad = [
        json!(""),
        json!("a\nb"),
        json!("x".repeat(129)),
        json!({ "id": "a", "roles": [""] }),
        json!({ "id": "a", "roles": ["r\0"] }),
        json!({ "id": "a", "roles": "admin" }),
        json!({ "roles": ["r"] }),
        json!(7),
        json!(["a"]),
        json!({ "id": "a", "roles": (0..65).map(|n| n.to_string()).collect::<Vec<_>>() }),
        json!({ "id": "a", "rolls": ["finance"] }),
    ];
    for actor in bad {
        let answer = api.send("item", "i", &json!({ "event": "submit", "actor": actor })).await;
        assert_eq!(answer.status, 400, "{actor}: {answer:?}");
        answer.problem(400, "malformed");
    }
    let mistyped = json!({ "event": "submit", "actor": { "id": "a", "rolls": ["finance"] } });
    assert!(api.send("item", "i", &mistyped).await.detail(400, "malformed").contains("`rolls`"));
    for actor in [json!("a/b 🦀"), json!({ "id": "x".repeat(128), "roles": ["r/1", "é"] })] {
        let set = json!({ "event": "set", "actor": actor, "data": { "value": 1 } });
        assert_eq!(api.send("item", "i", &set).await.outcome(), "applied");
        let rows = history(&api, "item", "i").await;
        let id = actor["id"].as_str().or(actor.as_str()).unwrap();
        assert_eq!(rows.last().unwrap().actor, id);
    }
}

in_both_worlds!(
    ids_come_back_byte_for_byte,
    the_command_line_passes_ids_on_as_they_are,
    ids_that_would_not_survive_are_refused,
    workflow_names_follow_their_pattern,
    actors_and_roles_are_names_too,
);
