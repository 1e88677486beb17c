//! Lists: limits and cursors.

use serde_json::json;

use crate::begin;
use crate::support::call::{Call, encode, instance};

fn lists() -> [String; 3] {
    ["/v1/workflows".to_owned(), "/v1/workflows/item/instances".to_owned(), instance("item", "i", "/history")]
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_1_to_1000() {
    let (_store, _server, api) = begin().await;
    for path in lists() {
        for limit in ["0", "1001", "-1", "x", "1.5", "", "99999999999999999999"] {
            let answer = api.get(&format!("{path}?limit={limit}")).await;
            assert_eq!(answer.status, 400, "{path}?limit={limit}: {answer:?}");
            answer.problem(400, "malformed");
        }
        for limit in [1, 1000] {
            assert_eq!(api.get(&format!("{path}?limit={limit}")).await.ok()["items"].as_array().unwrap().len(), 1);
        }
        api.get(&format!("{path}?limit=1&limit=2")).await.problem(400, "malformed");
        api.get(&format!("{path}?limt=1")).await.problem(400, "malformed");
    }
    // A server without tokens has none to list, and says so.
    assert_eq!(api.get("/v1/tokens").await.ok()["items"], json!([]));
    api.get("/v1/tokens?limit=0").await.problem(400, "malformed");
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_those_that_were_given() {
    let (_store, _server, api) = begin().await;
    for path in lists() {
        for cursor in ["x", "-1", "9223372036854775808", "1.5", "🦀", "null", "\"", "../..", "1 OR 1=1"] {
            let answer = api.get(&format!("{path}?cursor={}", encode(cursor))).await;
            assert_eq!(answer.status, 400, "{path}?cursor={cursor}: {answer:?}");
            answer.problem(400, "malformed");
        }
    }
    // A history's cursor is a version; past the end there is nothing yet.
    let beyond = api.get(&instance("item", "i", "/history?cursor=99")).await.ok();
    assert_eq!(beyond, json!({ "items": [], "next_cursor": null, "oldest_version": 1 }));
    let last = api.get(&instance("item", "i", &format!("/history?cursor={}", i64::MAX))).await.ok();
    assert_eq!(last["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_is_on_one_page() {
    let (_store, _server, api) = begin().await;
    for number in 0..7 {
        api.start("item", &json!({ "id": format!("n-{number}") })).await;
        api.send("item", "i", &json!({ "event": "set", "data": { "value": number } })).await.ok();
        let text = format!("workflow: w{number}\ninitial: a\nstates: {{a: {{type: final}}}}\n");
        api.put(&format!("w{number}"), &text).await;
    }
    for (path, name) in lists().into_iter().zip(["workflow", "id", "version"]) {
        for limit in [1, 3, 4, 8, 1000] {
            let mut found = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = api.get(&format!("{path}?limit={limit}&cursor={}", encode(&cursor))).await.ok();
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit, "{path}: {} items", items.len());
                found.extend(items.iter().map(|item| item[name].to_string()));
                match page["next_cursor"].as_str() {
                    Some(next) => next.clone_into(&mut cursor),
                    None => break,
                }
            }
            let mut once = found.clone();
            once.sort();
            once.dedup();
            assert_eq!((found.len(), once.len()), (8, 8), "{path}, {limit} a page: {found:?}");
        }
    }
    // A cursor of one list is none of another, whatever its filter.
    let page = api.get("/v1/workflows/item/instances?limit=1").await.ok();
    let cursor = encode(page["next_cursor"].as_str().unwrap());
    let other = api.call(&Call::get(format!("/v1/workflows?cursor={cursor}"))).await;
    assert!(other.status == 400 || other.ok()["items"].is_array(), "{other:?}");
}
