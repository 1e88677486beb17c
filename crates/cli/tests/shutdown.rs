//! SIGTERM: what was accepted is finished and answered, and nothing else keeps the server from its end.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use support::api::Api;
use support::call::{Answer, Call};
use support::history::history;
use support::raw;
use support::server::{END_MAX, Server, Store};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

const CLIENTS: usize = 64;

/// Commands that are answered before the signal comes.
const WARM: u64 = 300;

/// How long an end may take that waits for nobody: far below the deadlines of requests (25 s and more).
const PROMPT: Duration = Duration::from_secs(10);

const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}}}
";

async fn begin() -> (Store, Server, Api) {
    let store = Store::new();
    let server = block_in_place(|| store.serve());
    let api = server.api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "c", "data": { "n": 0 } })).await;
    (store, server, api)
}

fn count(key: &str) -> Call {
    Call::send("counter", "c", &json!({ "event": "count" })).key(key)
}

/// A command and its answer; none: the connection was lost, or not made.
type Sent = (String, Option<Answer>);

/// Sends commands one after another until the server no longer answers.
async fn send_until_the_end(api: Api, client: usize, answered: watch::Sender<u64>) -> Vec<Sent> {
    let mut sent = Vec::new();
    loop {
        let key = format!("client-{client}-{}", sent.len());
        let answer = api.try_call(&count(&key)).await.ok();
        let over = answer.as_ref().is_none_or(|answer| answer.status == 503);
        sent.push((key, answer));
        if over {
            return sent;
        }
        answered.send_modify(|count| *count += 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_everything_accepted_is_answered() {
    let (store, mut server, api) = begin().await;
    let answered = watch::Sender::new(0_u64);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(send_until_the_end(api.clone(), client, answered.clone()));
    }
    answered.subscribe().wait_for(|count| *count >= WARM).await.unwrap();
    let begin = Instant::now();
    let ended = block_in_place(|| {
        server.program.signal("TERM");
        server.program.wait(END_MAX)
    });
    let took = begin.elapsed();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(took < PROMPT, "it took {took:?}\n{}", ended.log);
    assert!(ended.log.contains("SIGTERM") && ended.log.trim_end().ends_with("stopped"), "{}", ended.log);
    check_checkpointed(&store);

    let sent: Vec<Sent> = clients.join_all().await.into_iter().flatten().collect();
    let server = block_in_place(|| store.serve());
    let (applied, refused, lost) = check_answers(&server.api(), &sent).await;
    println!("{applied} applied, {refused} refused, {lost} without an answer; the end took {took:.2?}");
}

/// What was answered `applied` is in the history; what was not answered, or refused, is not: the server took nothing on
/// that it did not answer. Sent again, each of those takes effect once.
async fn check_answers(api: &Api, sent: &[Sent]) -> (usize, usize, usize) {
    let recorded: HashSet<String> = history(api, "counter", "c").await.into_iter().filter_map(|row| row.key).collect();
    let (mut applied, mut refused, mut lost) = (0, 0, 0);
    for (key, answer) in sent {
        match answer {
            Some(answer) if answer.status == 200 => {
                assert!(recorded.contains(key), "answered and not recorded: {answer:?}");
                applied += 1;
                continue;
            }
            Some(answer) => {
                answer.problem(503, "unavailable");
                assert!(!recorded.contains(key), "refused and recorded: {answer:?}");
                refused += 1;
            }
            None => {
                assert!(!recorded.contains(key), "recorded and never answered: {key}");
                lost += 1;
            }
        }
        let again = api.call(&count(key)).await;
        assert_eq!((again.status, again.replayed()), (200, false), "{again:?}");
        assert!(api.call(&count(key)).await.replayed());
    }
    assert_eq!(recorded.len(), applied, "somebody was not told");
    let rows = history(api, "counter", "c").await;
    assert_eq!(rows.len(), sent.len() + 1, "each command once, and the start");
    assert_eq!(api.instance("counter", "c").await["data"]["n"], json!(sent.len()));
    (applied, refused, lost)
}

/// Everything is in the database's own file.
fn check_checkpointed(store: &Store) {
    let log = store.dir().join("lockkeeper.db-wal");
    let bytes = std::fs::metadata(&log).map_or(0, |log| log.len());
    assert_eq!(bytes, 0, "the log still has {bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_for_news_do_not_hold_it_up() {
    let (_store, server, api) = begin().await;
    let poll = "GET /v1/workflows/counter/instances/c/history?cursor=1&wait_ms=25000";
    let mut waiting = raw::connect(server.address());
    waiting.write_all(&raw::request(poll, server.address(), "", "")).unwrap();
    // Connections are taken in order: once this one is answered, the poll is under way or about to be.
    assert_eq!(api.call(&Call::get("/healthz")).await.status, 200);
    let begin = Instant::now();
    let ended = block_in_place(|| server.stop());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
    let (status, _, body) = block_in_place(|| raw::read(&mut waiting));
    assert_eq!(status, 503, "the waiting one is told: {body}");
    assert!(body.contains("unavailable") && body.contains("LK0023"), "{body}");
}

/// Stops a server that has this connection, to which something may have been sent.
async fn stop_with(sent: &[u8]) {
    let (_store, server, api) = begin().await;
    let mut stream = raw::connect(server.address());
    stream.write_all(sent).unwrap();
    // This connection is kept alive by the client after its answer.
    assert_eq!(api.call(&Call::get("/healthz")).await.status, 200);
    let begin = Instant::now();
    let ended = block_in_place(|| server.stop());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
    let mut rest = Vec::new();
    let _reset = stream.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP/1.1 2"), "nothing whole was asked: {:?}", String::from_utf8_lossy(&rest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_does_not_hold_it_up() {
    stop_with(b"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_head_does_not_hold_it_up() {
    stop_with(b"GET /healthz HTTP/1.1\r\nHost: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_does_not_hold_it_up() {
    let head =
        "POST /v1/workflows/counter/instances/c/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 18\r\n\r\n";
    stop_with(format!("{head}{{\"event\":").as_bytes()).await;
}

/// A service manager may stop what it has just started: from the line on that says that it listens, it ends in order.
#[test]
fn a_signal_right_after_the_start_is_heeded() {
    for _ in 0..5 {
        let store = Store::new();
        let ended = store.serve().stop();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        check_checkpointed(&store);
    }
}

#[test]
fn ctrl_c_is_a_stop_too() {
    let store = Store::new();
    let mut server = store.serve();
    server.program.signal("INT");
    assert_eq!(server.program.wait(END_MAX).code, Some(0));
    check_checkpointed(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_goes_on_where_it_was() {
    let (store, server, api) = begin().await;
    for number in 0..5 {
        api.call(&count(&format!("k-{number}"))).await.ok();
    }
    let before = api.instance("counter", "c").await;
    assert_eq!(block_in_place(|| server.stop()).code, Some(0));
    let server = block_in_place(|| store.serve());
    let api = server.api();
    assert_eq!(api.instance("counter", "c").await, before);
    assert_eq!(api.call(&count("k-9")).await.version(), 7);
}
