//! Definitions with mistakes: what is wrong, where, and what to write.

use serde_json::{Value, json};

use crate::begin;
use crate::support::api::Api;
use crate::support::call::Call;

/// The problems of a definition that must have some; each must say where and what to do.
pub(crate) async fn problems(api: &Api, call: Call) -> Vec<Value> {
    let answer = api.call(&call).await;
    let problem = answer.problem(422, "invalid_definition");
    let problems = problem["problems"].as_array().unwrap().clone();
    assert!(!problems.is_empty(), "{problem}");
    for one in &problems {
        for field in ["message", "remedy"] {
            assert!(one[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {one}");
        }
        assert!(one["line"].as_u64() > Some(0) && one["column"].as_u64() > Some(0), "no place: {one}");
    }
    problems
}

fn put(text: &str) -> Call {
    Call::put("w", text)
}

fn put_json(text: &str) -> Call {
    let mut call = put(text);
    call.headers = vec![("Content-Type", "application/json".to_owned())];
    call
}

/// The first problem is at `line` and its message has `words`.
fn check(text: &str, problems: &[Value], line: u64, words: &str) {
    let found = problems.iter().any(|one| {
        let told = [&one["message"], &one["remedy"]].map(|text| text.as_str().unwrap());
        one["line"].as_u64() == Some(line) && told.iter().any(|text| text.contains(words))
    });
    assert!(found, "nothing with {words:?} in line {line} of\n{text}\n{problems:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_yaml_and_json_say_where() {
    let (_store, _server, api) = begin().await;
    for text in [
        "workflow: w\ninitial: [a\nstates: {}\n",
        "workflow: w\n  initial: a\n",
        "workflow: \"w\ninitial: a\n",
        "\tworkflow: w\n",
        "workflow: w\nworkflow: w\ninitial: a\nstates: {a: {type: final}}\n",
        "workflow: *unknown\ninitial: a\nstates: {a: {type: final}}\n",
        "- a\n- b\n",
        "just text\n",
        "",
        "# nothing\n",
        "---\nworkflow: w\ninitial: a\nstates: {a: {type: final}}\n---\nworkflow: w\n",
    ] {
        problems(&api, put(text)).await;
    }
    for (text, line) in [
        ("{", 1),
        ("{\n\"workflow\": \"w\",\n}", 3),
        ("{\"workflow\": \"w\",\n \"initial\": 'a'}", 2),
        ("[]", 1),
        ("{\"workflow\":\"w\",\"initial\":\"a\",\n\"states\":{\"a\":{\"type\":\"final\"}},\n\"initial\":\"b\"}", 3),
    ] {
        let found = problems(&api, put_json(text)).await;
        assert_eq!(found[0]["line"], json!(line), "{text}: {found:?}");
    }
    api.get("/v1/workflows/w").await.problem(404, "unknown_workflow");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_the_machine_say_where_and_what_to_write() {
    let (_store, _server, api) = begin().await;
    let states = |states: &str| format!("workflow: w\ninitial: a\nstates:\n{states}");
    let concurrency =
        |block: &str| format!("workflow: w\ninitial: a\nconcurrency: {block}\nstates:\n  a: {{type: final}}\n");
    let cases = [
        (states("  a: {on: {go: c}}\n  b: {type: final}\n"), 4, "there is no state \"c\""),
        (states("  a: {on: {go: bb}}\n  b: {type: final}\n"), 4, "did you mean \"b\"?"),
        (states("  a: {on: {go: b}}\n  b: {type: final}\n  c: {type: final}\n"), 6, "cannot be reached"),
        (states("  a: {on: {go: b}}\n  b: {}\n"), 5, "nothing leads on"),
        (states("  a: {on: {go: {taget: b}}}\n  b: {type: final}\n"), 4, "did you mean \"target\"?"),
        (states("  a: {type: final, on: {go: a}}\n"), 4, "final"),
        (states("  a: {on: {go: b}}\n  b: {type: finl}\n"), 5, "did you mean \"final\"?"),
        (states("  a: {on: {go: b}}\n  b: {type: final, status: done}\n"), 5, "unknown status"),
        (states("  a: {on: {go: {target: b, approval: {}}}}\n  b: {type: final}\n"), 4, "quorum"),
        (states("  a: {on: {go: {target: b, approval: {quorum: 0}}}}\n  b: {type: final}\n"), 4, "from 1 to"),
        (states("  a: {on: {go: {target: b, approval: {quorum: 2.5}}}}\n  b: {type: final}\n"), 4, "2.5"),
        (states("  a: {on: {go: {target: b, roles: []}}}\n  b: {type: final}\n"), 4, "empty list of roles"),
        (states("  a: {on: {go: {target: b, roles: finance}}}\n  b: {type: final}\n"), 4, "list"),
        (states("  a: {on: [go]}\n  b: {type: final}\n"), 4, "events"),
        ("workflow: w\ninitial: nowhere\nstates:\n  a: {type: final}\n".to_owned(), 2, "there is no state \"nowhere\""),
        ("workflow: w\nstates:\n  a: {type: final}\n".to_owned(), 1, "`initial` is missing"),
        ("initial: a\nstates:\n  a: {type: final}\n".to_owned(), 1, "`workflow` is missing"),
        ("workflow: w\ninitial: a\nstates: {}\n".to_owned(), 3, "no states"),
        ("workflow: W\ninitial: a\nstates:\n  a: {type: final}\n".to_owned(), 1, "workflow name"),
        ("workflow: w\ninitial: a\ncolour: red\nstates:\n  a: {type: final}\n".to_owned(), 3, "unknown field"),
        ("workflow: w\ninitial: a\nconcurrency: {attempts: 0}\nstates:\n  a: {type: final}\n".to_owned(), 3, "1 to"),
        ("workflow: w\ninitial: a\nconcurrency: {backoff: 50}\nstates:\n  a: {type: final}\n".to_owned(), 3, "text"),
        (
            "workflow: w\ninitial: a\nconcurrency: {backoff: soon}\nstates:\n  a: {type: final}\n".to_owned(),
            3,
            "duration",
        ),
        (concurrency("{strategy: pesimistic}"), 3, "did you mean \"pessimistic\"?"),
        (concurrency("{lock_timeout: 31s}"), 3, "at most 30s"),
        (concurrency("{escalate_above: 5}"), 3, "percentage"),
        (concurrency("{preset: stock, on_locked: skip-locked}"), 3, "did you mean \"skip_locked\"?"),
        (concurrency("{strategy: optimistic, lock_timeout: 5s}"), 3, "waits for no lock"),
        (states("  a: {on: {go: {target: b, concurrency: {combine: true}}}}\n  b: {type: final}\n"), 4, "no meaning"),
    ];
    for (text, line, words) in cases {
        check(&text, &problems(&api, put(&text)).await, line, words);
    }
    api.get("/v1/workflows/w").await.problem(404, "unknown_workflow");
}

/// All at once, so that nobody has to find them one by one.
#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_is_told_in_one_answer() {
    let (_store, _server, api) = begin().await;
    let text = "workflow: w\ninitial: a\nstates:\n  a:\n    on:\n      x: nowhere\n      y: {target: b, guard: \"data.\"}\n      z: {tagret: b}\n  b: {type: final}\n";
    let found = problems(&api, put(text)).await;
    for (line, words) in [(6, "nowhere"), (7, ""), (8, "target")] {
        check(text, &found, line, words);
    }
    let lines: Vec<_> = found.iter().map(|one| one["line"].as_u64()).collect();
    assert!(lines.is_sorted(), "in the order of the text: {lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_put_under_another_name_is_refused() {
    let (_store, _server, api) = begin().await;
    let text = "workflow: other\ninitial: a\nstates: {a: {type: final}}\n";
    let problem = api.call(&put(text)).await.problem(422, "invalid_definition");
    let message = problem["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("\"other\"") && message.contains("\"w\""), "{problem}");
    api.get("/v1/workflows/w").await.problem(404, "unknown_workflow");
    api.get("/v1/workflows/other").await.problem(404, "unknown_workflow");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_of_text_are_refused() {
    let (_store, server, api) = begin().await;
    let mut call = put("workflow: w\ninitial: a\nstates: {a: {type: final}}\n");
    call.headers = vec![("Content-Type", "application/xml".to_owned())];
    assert!(api.call(&call).await.detail(400, "malformed").contains("application/xml"));
    let head = format!("PUT /v1/workflows/w HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.address());
    let request = [head.as_bytes(), b"Content-Length: 14\r\n\r\nworkflow: \xff\xfe\xfd\n"].concat();
    let (status, _, body) = crate::support::raw::exchange(server.address(), &request);
    assert!(status == 400 && body.contains("UTF-8"), "{status}: {body}");
    // By its first character where nobody says what it is.
    call.headers.clear();
    let json = r#"{"workflow":"w","initial":"a","states":{"a":{"type":"final"}}}"#;
    assert_eq!(api.call(&put_json(json)).await.status, 201);
    call.body = Some(json.to_owned());
    assert_eq!(api.call(&call).await.status, 200, "the same text in the same format is there already");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_too_large_is_refused() {
    let (_store, _server, api) = begin().await;
    let many: String = (0..501).map(|n| format!("  s{n}: {{on: {{go: s{}}}}}\n", (n + 1) % 501)).collect();
    let text = format!("workflow: w\ninitial: s0\nstates:\n{many}");
    check("501 states", &problems(&api, put(&text)).await, 3, "501 states");
    // Aliases that would multiply (a billion laughs), and nesting that would end a parser.
    let laughs = "workflow: w\ninitial: a\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\nstates: {a: {type: final}}\n";
    for text in [laughs.to_owned(), format!("workflow: {}w{}\n", "[".repeat(50_000), "]".repeat(50_000))] {
        problems(&api, put(&text)).await;
    }
    let deep = format!("{{\"workflow\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
    problems(&api, put_json(&deep)).await;
    assert_eq!(api.get("/healthz").await.status, 200, "it lives");
}
