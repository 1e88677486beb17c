//! Exit codes: 0 done, 1 refused or failed, 2 usage, 69 unavailable.

use std::net::TcpListener;

use serde_json::json;

use crate::begin;
use crate::support::server::Store;

#[test]
fn nobody_listening_is_unavailable() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let store = Store::new();
    for args in [["get", "ticket/7"], ["list", "ticket"], ["start", "ticket/7"], ["history", "ticket/7"]] {
        let said = store.cli().run(&[&args[..], &["--url", &url]].concat());
        assert!(said.failed(69).starts_with(&format!("error: unavailable (LK0023): cannot reach {url}: ")), "{said:?}");
        assert!(said.err.contains("lockkeeper serve"), "{said:?}");
    }
    let problem = store.cli().run(&["get", "ticket/7", "--url", &url, "-o", "json"]).failed_json(69);
    assert_eq!((&problem["outcome"], &problem["retryable"]), (&json!("unavailable"), &json!(true)));
}

/// Somebody takes the request and says nothing: nobody knows what came of it, and the key is shown.
#[test]
fn a_lost_answer_is_unknown_and_names_the_key() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    // Takes one connection after another and drops each once something has come.
    std::thread::spawn(move || {
        for stream in silent.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _read = std::io::Read::read(&mut stream, &mut [0; 1024]);
        }
    });
    let store = Store::new();
    let args = ["send", "ticket/7", "close", "--key", "k-1", "--wait", "300ms", "--url", &url];
    let said = store.cli().run(&args);
    assert!(said.failed(69).starts_with("error: unknown (LK0024): "), "{said:?}");
    assert!(said.err.contains("--key k-1"), "{said:?}");
}

#[test]
fn wrong_usage_is_2() {
    let (_store, _server, cli) = begin("ticket");
    let wrong: [&[&str]; 19] = [
        &[],
        &["fly"],
        &["get"],
        &["get", "ticket"],
        &["get", "Ticket/7"],
        &["get", "ticket/."],
        &["get", "ticket/.."],
        &["get", "ticket/a\nb"],
        &["send", "ticket/7"],
        &["send", "ticket/7", "close", "--expected-version", "x"],
        &["send", "ticket/7", "close", "--key", ""],
        &["send", "ticket/7", "close", "--as-roles", "a"],
        &["send", "ticket/7", "close", "--fence", "r"],
        &["send", "ticket/7", "close", "--fence", "r=0"],
        &["send", "ticket/7", "close", "--fence", "=1"],
        &["send", "ticket/7", "close", "--fence", "r=9007199254740992"],
        &["send", "ticket/7", "close", "--fence", "r=1", "--fence", "r=2"],
        &["list", "ticket", "--limit", "0"],
        &["get", "ticket/7", "--url", "ftp://x"],
    ];
    for args in wrong {
        let said = cli.run(args);
        assert_eq!(said.failed(2), said.err.trim_end(), "{args:?}");
    }
}

/// What the design names and this version does not have is refused by name, not passed over.
#[test]
fn flags_that_are_not_built_are_refused() {
    let (_store, _server, cli) = begin("ticket");
    for flag in [&["--async"][..], &["--priority", "9"]] {
        let said = cli.run(&[&["send", "ticket/7", "close"], flag].concat());
        assert!(said.failed(2).contains(flag[0]), "{said:?}");
    }
}

#[test]
fn refusals_are_problem_documents_for_scripts() {
    let (_store, _server, cli) = begin("ticket");
    cli.run(&["start", "ticket/7"]).ok();
    let problem = cli.run(&["send", "ticket/7", "close", "-o", "json"]).failed_json(1);
    for (field, expected) in [
        ("outcome", json!("state_mismatch")),
        ("code", json!("LK0007")),
        ("status", json!(409)),
        ("retryable", json!(false)),
        ("actual", json!("open")),
        ("expected", json!("resolved")),
    ] {
        assert_eq!(problem[field], expected, "{problem}");
    }
}

/// The server's address comes from the environment here: nobody has to write it.
#[test]
fn usage_shows_what_is_to_be_written() {
    let (_store, _server, cli) = begin("ticket");
    let said = cli.run(&["show"]);
    assert!(said.failed(2).contains("Usage: lockkeeper show") && !said.err.contains("--url"), "{said:?}");
    let said = cli.run(&["apply", "ticket.yaml"]);
    assert!(said.failed(2).contains("lockkeeper apply -f ticket.yaml"), "{said:?}");
}
