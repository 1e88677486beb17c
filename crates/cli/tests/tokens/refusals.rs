//! Servers that must not start, and what they say.

use std::time::Duration;

use super::create;
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::server::{Store, address};

/// Far above what it takes to refuse.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_server_that_all_can_reach_needs_tokens() {
    let store = Store::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let ended = store.start(listen).wait(REFUSED_WITHIN);
        assert_eq!(ended.code, Some(1), "{listen}: {}", ended.log);
        assert!(ended.log.contains("error: ") && ended.log.contains("reachable from other machines"), "{}", ended.log);
        assert!(ended.log.contains("lockkeeper token create --name"), "it says what to do: {}", ended.log);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_all_may_reach_it() {
    let store = Store::new();
    let secret = create(&store, "admin", "admin");
    let mut program = store.start("0.0.0.0:0");
    let port = address(&program.wait_for("listening on http://0.0.0.0:", REFUSED_WITHIN));
    let api = Api::new(&format!("http://127.0.0.1:{port}"));
    // Under any name: with a token, the Host proves nothing.
    let call = Call::get("/v1/workflows").token(&secret).header("Host", "lockkeeper.example");
    api.call(&call).await.ok();
    api.get("/v1/workflows").await.problem(401, "unauthenticated");
}

#[test]
fn a_second_server_on_one_file_names_the_first() {
    let store = Store::new();
    let server = store.serve();
    let ended = store.start("127.0.0.1:0").wait(REFUSED_WITHIN);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let holder = format!("(process {})", server.program.pid());
    assert!(ended.log.contains("is in use by another lockkeeper") && ended.log.contains(&holder), "{}", ended.log);
    // Killed, the first leaves nothing in the way.
    server.kill();
    store.serve();
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let store = Store::new();
    store.serve().stop();
    let database = rusqlite::Connection::open(store.file()).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let before = std::fs::read(store.file()).unwrap();
    let ended = store.start("127.0.0.1:0").wait(REFUSED_WITHIN);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("schema 99") && ended.log.contains("newer lockkeeper"), "{}", ended.log);
    let url = store.url();
    let said = store.cli().run(&["token", "create", "--name", "x", "--store", &url]);
    assert!(said.failed(1).contains("schema 99"), "{said:?}");
    assert_eq!(std::fs::read(store.file()).unwrap(), before, "not a byte was changed");
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let store = Store::new();
    std::fs::write(store.file(), "Dear diary, today I wrote a text that is no database at all.\n".repeat(100)).unwrap();
    let before = std::fs::read(store.file()).unwrap();
    let ended = store.start("127.0.0.1:0").wait(REFUSED_WITHIN);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("is not a lockkeeper store"), "{}", ended.log);
    assert_eq!(std::fs::read(store.file()).unwrap(), before, "not a byte was changed");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let (first, second) = (Store::new(), Store::new());
    let server = first.serve();
    let ended = second.start(server.address()).wait(REFUSED_WITHIN);
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains(server.address()) && ended.log.contains("--listen"), "{}", ended.log);
}

#[test]
fn wrong_usage_is_told_apart() {
    let store = Store::new();
    for listen in ["7070", "example.org:7070", ""] {
        let ended = store.start(listen).wait(REFUSED_WITHIN);
        assert_eq!(ended.code, Some(2), "{listen:?}: {}", ended.log);
    }
    for url in ["mysql://app:hunter2@db/lock", "postgres://app:hunter2@db:port/lock", "sqlite://", "lockkeeper.db"] {
        let said = store.cli().run(&["serve", "--store", url]);
        assert_eq!(said.code, Some(2), "{url}: {said:?}");
        assert!(!said.err.contains("hunter2"), "{said:?}");
    }
}

#[test]
fn a_database_that_is_not_there_is_named_without_its_password() {
    let store = Store::new();
    // Port 9 is `discard`: nobody listens.
    let said = store.cli().run(&["serve", "--store", "postgres://app:hunter2@127.0.0.1:9/lock"]);
    let error = said.failed(1);
    assert!(error.contains("postgres://127.0.0.1:9/lock") && !error.contains("hunter2"), "{said:?}");
}
