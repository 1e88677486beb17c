//! The client against a server that fails on purpose: what is sent again, under which key, and with which exit code it
//! ends.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// What the server does with one request.
enum Act {
    /// Reads it and hangs up.
    HangUp,
    /// Answers with a status, further headers, and a body.
    Answer(u16, &'static str, &'static str),
}

/// A request as it arrived.
#[derive(Debug)]
struct Seen {
    line: String,
    key: Option<String>,
    body: String,
}

const APPLIED: &str = r#"{"outcome":"applied","id":"1","run":"r","version":2,"state":"b","status":"running"}"#;
const MISMATCH: &str = r#"{"type":"t","title":"state mismatch","status":409,"code":"LK0007","outcome":"state_mismatch",
    "retryable":false,"detail":"not possible here","expected":"a","actual":"b"}"#;
const UNAVAILABLE: &str = r#"{"title":"unavailable","status":503,"code":"LK0023","outcome":"unavailable",
    "retryable":true,"detail":"the disk is full"}"#;

/// Serves one connection for each act, then no more. What arrived can be taken from the channel.
fn serve(acts: Vec<Act>) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, seen) = sync_channel(acts.len());
    std::thread::spawn(move || {
        for act in acts {
            let (mut connection, _) = listener.accept().unwrap();
            sender.send(read(&connection)).unwrap();
            if let Act::Answer(status, headers, body) = act {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
                connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        }
    });
    (url, seen)
}

fn read(connection: &TcpStream) -> Seen {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let (mut key, mut length) = (None, 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Seen { line: line.trim_end().to_owned(), key, body: String::from_utf8(body).unwrap() }
}

fn lockkeeper(url: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(args)
        .env("LOCKKEEPER_URL", url)
        .env_remove("LOCKKEEPER_TOKEN")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_lost_connection_is_sent_again_under_the_same_key() {
    let (url, seen) = serve(vec![Act::HangUp, Act::HangUp, Act::Answer(200, "", APPLIED)]);
    let output = lockkeeper(&url, &["send", "w/1", "go", "--as", "ann", "--as-roles", "x,y"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "applied: w/1 is in b, version 2\n");
    let seen: Vec<Seen> = seen.iter().collect();
    assert_eq!(seen.len(), 3);
    assert!(seen[0].key.is_some() && seen.iter().all(|request| request.key == seen[0].key), "{seen:?}");
    let body: serde_json::Value = serde_json::from_str(&seen[2].body).unwrap();
    assert_eq!(
        (&body["event"], &body["actor"]["id"], &body["actor"]["roles"][1]),
        (&"go".into(), &"ann".into(), &"y".into())
    );
}

#[test]
fn retry_after_is_honoured() {
    let (url, _seen) = serve(vec![Act::Answer(503, "retry-after: 1\r\n", UNAVAILABLE), Act::Answer(200, "", APPLIED)]);
    let begin = Instant::now();
    let output = lockkeeper(&url, &["send", "w/1", "go"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn who_gives_up_is_told_the_key_that_was_sent() {
    let (url, seen) = serve(vec![Act::HangUp]);
    let output = lockkeeper(&url, &["send", "w/1", "go", "--wait", "300ms"]);
    assert_eq!(output.status.code(), Some(69));
    let key = seen.recv().unwrap().key.unwrap();
    let error = text(&output.stderr);
    assert!(error.starts_with("error: unknown (LK0024): ") && error.contains(&format!("--key {key}")), "{error}");
}

#[test]
fn an_unavailable_server_is_69_and_shows_its_reason() {
    let (url, _seen) = serve(vec![Act::Answer(503, "retry-after: 60\r\n", UNAVAILABLE)]);
    let begin = Instant::now();
    let output = lockkeeper(&url, &["start", "w/1"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(text(&output.stderr).starts_with("error: unavailable (LK0023): the disk is full"));
    assert!(begin.elapsed() < Duration::from_secs(5), "a minute is longer than it would wait: it gives up at once");
}

#[test]
fn a_refusal_is_final() {
    let (url, seen) = serve(vec![Act::Answer(409, "", MISMATCH)]);
    let output = lockkeeper(&url, &["send", "w/1", "go", "-o", "json"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    let problem: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&problem["code"], &problem["actual"]), (&"LK0007".into(), &"b".into()));
    assert_eq!(seen.iter().count(), 1);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let url = {
        // A port that was free a moment ago.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for args in [["get", "w/1"], ["start", "w/1"]] {
        let output = lockkeeper(&url, &args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{error}");
        assert!(error.contains(&url) && error.contains("lockkeeper serve"), "{error}");
    }
}

#[test]
fn an_id_is_one_segment_of_the_path() {
    let (url, seen) = serve(vec![Act::Answer(404, "", "{}")]);
    lockkeeper(&url, &["get", "w/../a b%2F", "--stale-ok"]);
    let line = seen.recv().unwrap().line;
    assert_eq!(line, "GET /v1/workflows/w/instances/..%2Fa%20b%252F?stale=ok HTTP/1.1");
}

#[test]
fn a_watch_goes_on_where_it_broke() {
    const RUNNING: &str = r#"{"version":1,"status":"running"}"#;
    const CLOSED: &str = r#"{"version":2,"status":"completed"}"#;
    const FIRST: &str = r#"{"items":[{"version":1,"kind":"start"}],"next_cursor":null}"#;
    const SECOND: &str = r#"{"items":[{"version":2,"kind":"move"}],"next_cursor":null}"#;
    let (url, seen) = serve(vec![
        Act::Answer(200, "", RUNNING),
        Act::Answer(200, "", FIRST),
        Act::Answer(200, "", RUNNING),
        Act::HangUp,
        Act::Answer(200, "", SECOND),
        // Whether version 1 is still the one that was seen.
        Act::Answer(200, "", FIRST),
        Act::Answer(200, "", CLOSED),
    ]);
    let output = lockkeeper(&url, &["watch", "w/1", "--until-closed", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "{\"version\":1,\"kind\":\"start\"}\n{\"version\":2,\"kind\":\"move\"}\n");
    let lines: Vec<String> = seen.iter().map(|request| request.line).collect();
    assert!(lines[1].contains("cursor=0&wait_ms="), "{lines:?}");
    assert!(lines[3].contains("cursor=1&") && lines[4] == lines[3], "{lines:?}");
    assert!(lines[5].contains("limit=1&cursor=0&wait_ms=0"), "{lines:?}");
}
