//! L11: names and times to live are taken exactly, or refused.

use reqwest::Method;
use serde_json::json;

use crate::support::call::{Call, encode};
use crate::support::world::{World, in_both_worlds};

/// The path of a lock, all but RFC 3986's unreserved characters encoded, and those that are called like a route.
fn path(name: &str, rest: &str) -> String {
    let name = match name {
        "acquire" => "%61cquire".to_owned(),
        "renew" => "%72enew".to_owned(),
        "release" => "%72elease".to_owned(),
        _ => encode(name),
    };
    format!("/v1/locks/{name}{rest}")
}

async fn names_come_back_byte_for_byte(world: World) {
    let api = world.api();
    let long = "é".repeat(256);
    let names = [
        "a/b",
        "/",
        "../x",
        "%2F",
        "{",
        "}{",
        "{a}",
        "acquire",
        "renew",
        "release",
        "🦀",
        "caf\u{e9}",
        "cafe\u{301}",
        " ",
        "Case",
        "case",
        "...",
        "a;b=c",
        "\\",
        "\"",
        &long,
    ];
    let body = json!({ "owner": "ann", "ttl_ms": 60_000 });
    for name in names {
        api.call(&Call::post(path(name, "/acquire"), &body)).await.ok();
        let problem = api.call(&Call::post(path(name, "/acquire"), &body)).await.problem(409, "held");
        assert_eq!((&problem["resource"], &problem["holder"]), (&json!(name), &json!("ann")));
    }
    let listed = api.get("/v1/locks?limit=1000").await.ok();
    let listed = listed["items"].as_array().unwrap().iter().map(|item| item["resource"].as_str().unwrap().to_owned());
    let mut sorted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    sorted.sort_unstable();
    assert_eq!(listed.collect::<Vec<_>>(), sorted, "each is a lock of its own, sorted by bytes");
    for name in names {
        let taken = api.call(&Call::new(Method::DELETE, path(name, ""))).await.ok();
        assert_eq!((&taken["outcome"], &taken["resource"]), (&json!("released"), &json!(name)));
    }
}

async fn what_cannot_be_a_lock_is_refused(world: World) {
    let api = world.api();
    let good = json!({ "owner": "ann", "ttl_ms": 1_000 });
    for name in ["%2E", "%2e%2e", "%00", "%0A", "a%7F", "%FF", &"x".repeat(513)] {
        let call = Call::post(format!("/v1/locks/{name}/acquire"), &good);
        if !name.to_ascii_lowercase().starts_with("%2e") {
            api.call(&call).await.problem(400, "malformed");
        }
        let claims = json!([{ "name": ".." }]);
        let several = json!({ "resources": claims, "owner": "ann", "attempt": "1", "ttl_ms": 1_000 });
        api.call(&Call::post("/v1/locks/acquire", &several)).await.problem(400, "malformed");
    }
    for (field, values) in [
        ("ttl_ms", vec![json!(0), json!(-1), json!(0.4), json!(86_400_001), json!(31_536_000_000_u64), json!("1s")]),
        ("owner", vec![json!(""), json!("a\nb"), json!("x".repeat(513)), json!(7)]),
        ("attempt", vec![json!(""), json!("\u{0}")]),
        ("wait_ms", vec![json!(-1), json!(0.5)]),
        ("permits", vec![json!(0), json!(1_000), json!(-1)]),
        ("mode", vec![json!("alone"), json!(1)]),
    ] {
        for value in values {
            let mut body = good.clone();
            body[field] = value;
            api.call(&Call::post("/v1/locks/r/acquire", &body)).await.problem(400, "malformed");
        }
    }
    let both = json!({ "owner": "ann", "ttl_ms": 1_000, "mode": "shared", "permits": 2 });
    api.call(&Call::post("/v1/locks/r/acquire", &both)).await.problem(400, "malformed");
    assert_eq!(api.get("/v1/locks").await.ok()["items"], json!([]), "nothing is held");
}

in_both_worlds!(names_come_back_byte_for_byte, what_cannot_be_a_lock_is_refused);
