//! Bodies that cannot be read: 400, with the place.

use serde_json::json;

use crate::begin;
use crate::support::api::Api;
use crate::support::call::{Call, instance};

/// Every door that takes a JSON body, with a body that it takes. Each begins with a field of that door.
fn doors() -> [(&'static str, String, &'static str); 5] {
    [
        ("start", "/v1/workflows/item/instances".to_owned(), r#"{"data":{}}"#),
        ("send", instance("item", "i", "/events"), r#"{"event":"submit"}"#),
        ("terminate", instance("item", "i", "/terminate"), r#"{"reason":"r"}"#),
        ("cancel", instance("item", "i", "/cancel"), r#"{"reason":"r"}"#),
        ("transitions", "/v1/transitions".to_owned(), r#"{"moves":[{"workflow":"item","id":"i","event":"submit"}]}"#),
    ]
}

async fn post(api: &Api, path: &str, body: &str) -> crate::support::call::Answer {
    api.call(&Call::post(path, &json!({})).text(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_json_is_refused_with_its_place() {
    let (_store, _server, api) = begin().await;
    let broken = [
        ("{\n  FIELD: }", "line 2 column "),
        ("{\n\n  FIELD: @,\n}", "line 3 column "),
        ("{", "line 1 column 1"),
        ("{\n]", "line 2 column 1"),
        ("{FIELD:\"a\u{1}b\"}", "line 1 column "),
        ("{'event':'submit'}", "line 1 column 2"),
        ("nonsense", "line 1 column "),
    ];
    for (door, path, good) in doors() {
        let (field, _) = good[1..].split_once(':').unwrap();
        for (body, place) in broken {
            let body = body.replace("FIELD", field);
            let detail = post(&api, &path, &body).await.detail(400, "malformed");
            assert!(detail.contains(place), "{door}: {body:?}: {detail}");
        }
        let detail = post(&api, &path, &format!("{good}\n{{}}")).await.detail(400, "malformed");
        assert!(detail.contains("line 2 column 1"), "{door}: {detail}");
        // Fields in the order in which they are declared somewhere are no object.
        let lists =
            ["[]", "[\"submit\"]", " [\"submit\",null,null,null,null,null,{},null,null,null,{},null,null,null]"];
        for body in lists.into_iter().chain(["7", "null", "\"text\"", "[{\"event\":\"submit\"}]", "[\"r\",null,null]"])
        {
            post(&api, &path, body).await.problem(400, "malformed");
        }
        let nested = format!("{{\"data\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
        post(&api, &path, &nested).await.problem(400, "malformed");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

/// Doors of locks, of tokens and of operations.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_fields_is_no_object_at_any_door() {
    let (_store, _server, api) = begin().await;
    for (path, body) in [
        ("/v1/locks/r/acquire", r#"["ann","try-1",5000,null,null,null,null]"#),
        ("/v1/locks/acquire", r#"[[{"name":"r"}],"ann","try-1",5000,null,null]"#),
        ("/v1/locks/acquire", r#"{"resources":[["r",null,null]],"owner":"ann","attempt":"try-1","ttl_ms":5000}"#),
        ("/v1/tokens", r#"["ann",[],null]"#),
        ("/v1/workflows/item/purge", r#"["2026-01-01T00:00:00Z",null,null,null]"#),
        (&instance("item", "i", "/migrate"), r#"["r",null,null,null,null,{},false]"#),
    ] {
        let answer = post(&api, path, body).await;
        answer.problem(400, "malformed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_utf_8_is_refused() {
    let (_store, server, _api) = begin().await;
    for (_, path, _) in doors() {
        let body = b"{\"event\":\"\xff\"}";
        let mut request = crate::support::raw::request(&format!("POST {path}"), server.address(), "", "");
        let head = String::from_utf8(request.clone()).unwrap();
        request = head.replace("Content-Length: 0", &format!("Content-Length: {}", body.len())).into_bytes();
        request.extend(body);
        let (status, _, text) = crate::support::raw::exchange(server.address(), &request);
        assert_eq!(status, 400, "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_are_refused_by_name() {
    let (_store, _server, api) = begin().await;
    for (door, path, good) in doors() {
        let body = good.replacen('{', r#"{"evnt":"submit","#, 1);
        let detail = post(&api, &path, &body).await.detail(400, "malformed");
        assert!(detail.contains("`evnt`"), "{door}: {detail}");
    }
    let in_a_move = r#"{"moves":[{"workflow":"item","id":"i","event":"submit","evnt":1}]}"#;
    let problem = post(&api, "/v1/transitions", in_a_move).await.problem(400, "malformed");
    assert!(problem["detail"].as_str().unwrap().contains("`evnt`"), "{problem}");
    assert_eq!(problem["failed_index"], 0);
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_another_type_are_refused_by_name() {
    let (_store, _server, api) = begin().await;
    let wrong = [
        (instance("item", "i", "/events"), r#"{"event":7}"#),
        (instance("item", "i", "/events"), r#"{"event":"submit","data":[]}"#),
        (instance("item", "i", "/events"), r#"{"event":"submit","data":"x"}"#),
        (instance("item", "i", "/events"), r#"{"event":"submit","data":null}"#),
        (instance("item", "i", "/events"), r#"{"event":"submit","from":["draft"]}"#),
        (instance("item", "i", "/events"), r#"{"event":"submit","run":"not-a-uuid"}"#),
        (instance("item", "i", "/events"), r#"{}"#),
        (instance("item", "i", "/events"), ""),
        (instance("item", "i", "/events"), r#"{"event":"submit","event":"set"}"#),
        ("/v1/workflows/item/instances".to_owned(), r#"{"data":[]}"#),
        (instance("item", "i", "/cancel"), "{}"),
        (instance("item", "i", "/cancel"), r#"{"reason":""}"#),
        (instance("item", "i", "/cancel"), r#"{"reason":"  "}"#),
        (instance("item", "i", "/cancel"), r#"{"reason":7}"#),
        ("/v1/transitions".to_owned(), "{}"),
        ("/v1/transitions".to_owned(), r#"{"moves":[]}"#),
        ("/v1/transitions".to_owned(), r#"{"moves":{}}"#),
        ("/v1/transitions".to_owned(), r#"{"moves":[{"id":"i","event":"submit"}]}"#),
        ("/v1/transitions".to_owned(), r#"{"moves":[{"workflow":"item","event":"submit"}]}"#),
        ("/v1/transitions".to_owned(), r#"{"moves":[{"workflow":"item","id":"i"}]}"#),
        ("/v1/transitions".to_owned(), r#"{"atomic":"no","moves":[{"workflow":"item","id":"i","event":"submit"}]}"#),
    ];
    for (path, body) in wrong {
        let answer = post(&api, &path, body).await;
        assert_eq!(answer.status, 400, "{path} {body}: {answer:?}");
        answer.problem(400, "malformed");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_named_twice_or_too_many_are_refused() {
    let (_store, _server, api) = begin().await;
    let one = json!({ "workflow": "item", "id": "i", "event": "submit" });
    for atomic in [true, false] {
        let twice = json!({ "atomic": atomic, "moves": [one, one] });
        let detail = api.call(&Call::post("/v1/transitions", &twice)).await.detail(400, "malformed");
        assert!(detail.contains("item/i is named twice"), "{detail}");
        let many: Vec<_> =
            (0..101).map(|n| json!({ "workflow": "item", "id": n.to_string(), "event": "submit" })).collect();
        let answer = api.call(&Call::post("/v1/transitions", &json!({ "atomic": atomic, "moves": many }))).await;
        assert!(answer.detail(400, "malformed").contains("101"), "{answer:?}");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

/// The content type is not asked for; what browsers send across origins is kept out by `Origin`.
#[tokio::test(flavor = "multi_thread")]
async fn any_content_type_will_do_for_json() {
    let (_store, _server, api) = begin().await;
    for kind in ["application/json", "application/x-www-form-urlencoded", "text/plain;charset=UTF-8"] {
        let set = Call::send("item", "i", &json!({ "event": "set", "data": { "value": kind } }));
        assert_eq!(api.call(&set.header("Content-Type", kind)).await.outcome(), "applied");
    }
}
