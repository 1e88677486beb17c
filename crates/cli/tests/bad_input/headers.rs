//! Headers: idempotency keys, and where a request claims to come from.

use serde_json::json;

use crate::begin;
use crate::support::call::Call;
use crate::support::raw;

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_checked() {
    let (_store, server, api) = begin().await;
    let set = || Call::send("item", "i", &json!({ "event": "set", "data": { "value": 1 } }));
    for key in ["", " ", &"k".repeat(257)] {
        let answer = api.call(&set().key(key)).await;
        assert_eq!(answer.status, 400, "{} bytes: {answer:?}", key.len());
        answer.problem(400, "malformed");
    }
    api.call(&set().key("a").key("b")).await.problem(400, "malformed");
    // By hand: what no client library lets pass. Some of it the parser of HTTP refuses by itself.
    let body = r#"{"event":"set","data":{"value":1}}"#;
    for key in [&b"a\tb"[..], b"a\x01b", b"a\x7fb", "schl\u{fc}ssel".as_bytes(), b"a\0b"] {
        let request = raw::request(
            "POST /v1/workflows/item/instances/i/events",
            server.address(),
            "Idempotency-Key: KEY\r\n",
            body,
        );
        let at = request.windows(3).position(|part| part == b"KEY").unwrap();
        let request = [&request[..at], key, &request[at + 3..]].concat();
        let (status, _, text) = raw::exchange(server.address(), &request);
        assert_eq!(status, 400, "{key:?}: {text}");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1, "nothing took effect");
    assert_eq!(api.call(&set().key("k".repeat(256))).await.outcome(), "applied");
}

/// Without tokens, only programs of this machine are served: no page that a browser here has open.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_hosts_and_origins_are_refused() {
    let (_store, server, api) = begin().await;
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let paths =
        ["/", "/healthz", "/readyz", "/openapi.json", "/v1/workflows", "/v1/workflows/item/instances/i", "/nowhere"];
    let hosts = [
        "evil.example",
        "evil.example:7070",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "user@127.0.0.1@evil.example",
        "127.0.0.1 evil.example",
        "",
    ];
    for path in paths {
        for host in hosts {
            let (status, _, body) =
                raw::exchange(server.address(), &raw::request(&format!("GET {path}"), host, "", ""));
            // What is no host at all, the parser of HTTP may refuse.
            assert!(matches!(status, 400 | 403), "{path} of {host:?}: {status} {body}");
            assert!(!body.contains("draft"), "{body}");
        }
        for origin in ["http://evil.example", "https://127.0.0.1.evil.example", "null", "file://", "http://10.0.0.1"] {
            api.call(&Call::get(path).header("Origin", origin)).await.problem(403, "not_permitted");
        }
    }
    let cancel = Call::post("/v1/workflows/item/instances/i/cancel", &json!({ "reason": "r" }));
    api.call(&cancel.header("Origin", "https://evil.example")).await.problem(403, "not_permitted");
    let no_host = b"GET /v1/workflows HTTP/1.0\r\n\r\n";
    let (status, _, body) = raw::exchange(server.address(), no_host);
    assert!(matches!(status, 400 | 403), "without a Host: {status} {body}");
    assert_eq!(api.instance("item", "i").await["version"], 1);

    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]", &format!("127.0.0.1:{port}")] {
        let (status, _, body) = raw::exchange(server.address(), &raw::request("GET /v1/workflows", host, "", ""));
        assert_eq!(status, 200, "{host}: {body}");
    }
    // The page of another program on this machine is of another origin.
    for origin in ["http://127.0.0.1:1", "http://localhost:1", "http://127.0.0.1"] {
        api.call(&Call::get("/v1/workflows").header("Origin", origin)).await.problem(403, "not_permitted");
    }
    api.call(&Call::get("/v1/workflows").header("Origin", server.url())).await.ok();
}

/// Nothing tells a browser that other origins may read answers.
#[tokio::test(flavor = "multi_thread")]
async fn no_origin_is_told_that_it_may_read() {
    let (_store, server, api) = begin().await;
    let answer = api.call(&Call::get("/v1/workflows").header("Origin", server.url())).await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
    let page = api.get("/").await;
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"), "{page:?}");
    assert!(page.text.contains("item"), "the page says what runs: {}", page.text);
}
