//! What is old is purged: by hand, and as definitions and servers are told.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_engine::{Clock, DefinitionText, Engine, ManualClock, Options, SystemClock};
use lockkeeper_model::{Action, Actor, Command, Format, InstanceKey, Send, Start, WorkflowName};
use lockkeeper_store::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::support::call::Call;
use crate::support::cli::Cli;
use crate::support::server::{Server, Store};

const CASE: &str =
    "workflow: case\ninitial: open\nstates:\n  open: {on: {finish: done, note: {}}}\n  done: {type: final}\n";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A server whose store has a case that was closed 40 days ago, one that is open since, and one that was closed just now.
async fn begin() -> (Store, Server, Cli) {
    let store = Store::new();
    long_ago(&store).await;
    let server = store.serve();
    let cli = server.cli();
    cli.run(&["start", "case/young"]).ok();
    cli.run(&["send", "case/young", "finish"]).ok();
    (store, server, cli)
}

async fn long_ago(store: &Store) {
    let clock = Arc::new(ManualClock::new(SystemClock.now() - 40 * DAY));
    let file = SqliteStore::open(&store.file(), SqliteOptions::default()).unwrap();
    let engine = Engine::new(Arc::new(file), Options { clock: clock.clone(), timers_poll: None, ..Options::default() });
    let actor = Actor::new("ann", [], false).unwrap();
    let put = DefinitionText { format: Format::Yaml, text: CASE.to_owned(), actor: actor.clone(), at: clock.now() };
    engine.put_definition(&WorkflowName::new("case").unwrap(), put).await.unwrap();
    let send = async |id: &str, action| {
        let instance = InstanceKey::new("case", id).unwrap();
        let command = Command { instance, action, actor: actor.clone(), idempotency_key: None };
        engine.send(command, None).await.result.unwrap();
    };
    for id in ["old", "open"] {
        send(id, Action::Start(Start { run: uuid::Uuid::new_v4(), ..Start::default() })).await;
    }
    send("old", Action::Send(Send { event: Some("finish".to_owned()), ..Send::default() })).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_instances_are_purged_by_hand() {
    let (_store, _server, cli) = begin().await;
    let dry = cli.run(&["purge", "case", "--closed-before", "30d", "--dry-run"]);
    assert_eq!((dry.ok(), dry.err.as_str()), ("1 instances would be purged", ""));
    cli.run(&["get", "case/old"]).ok();
    assert_eq!(cli.run(&["purge", "case", "--closed-before", "50d"]).ok(), "purged 0 instances with 0 changes");
    assert_eq!(cli.run(&["purge", "case", "--closed-before", "30d"]).ok(), "purged 1 instances with 2 changes");
    assert_eq!(cli.run(&["purge", "case", "--closed-before", "30d"]).ok(), "purged 0 instances with 0 changes");
    assert_eq!(cli.run(&["-o", "json", "get", "case/old"]).failed_json(1)["outcome"], "unknown_instance");
    let list = cli.run(&["-o", "json", "list", "case"]).json();
    let ids: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["young", "open"]);
    // Its history says that there was one.
    let history = cli.run(&["history", "case/old"]);
    history.ok();
    assert!(history.err.contains("versions 1 to 2 were purged: nothing of the history is kept"), "{history:?}");
    assert_eq!(cli.run(&["-o", "json", "history", "case/old"]).json()["oldest_version"], 3);
    assert_eq!(cli.run(&["-o", "json", "start", "case/old"]).json()["version"], 3);
    let history = cli.run(&["history", "case/old"]);
    assert!(history.err.contains("versions 1 to 2 were purged: the history is kept from version 3 on"), "{history:?}");
    let untouched = cli.run(&["history", "case/open"]);
    assert!(!untouched.err.contains("purged"), "{untouched:?}");
    assert_eq!(cli.run(&["-o", "json", "history", "case/open"]).json()["oldest_version"], 1);
}

/// `watch` says what is missing, as `history` does.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_says_what_was_purged() {
    let (_store, _server, cli) = begin().await;
    cli.run(&["purge", "case", "--closed-before", "30d"]).ok();
    cli.run(&["start", "case/old"]).ok();
    cli.run(&["terminate", "case/old", "--reason", "r"]).ok();
    let watch = cli.run(&["watch", "case/old", "--until-closed"]);
    watch.ok();
    assert_eq!(watch.err.trim_end(), "versions 1 to 2 were purged: the history is kept from version 3 on");
    let lines = cli.run(&["watch", "case/old", "--until-closed", "-o", "json"]);
    let lines: Vec<Value> = lines.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "gap": "purged", "oldest_version": 3 }));
    assert_eq!((&lines[1]["version"], &lines[2]["version"], lines.len()), (&json!(3), &json!(4), 3));
    let from = cli.run(&["watch", "case/old", "--until-closed", "--from", "3"]);
    assert_eq!((from.ok().lines().count(), from.err.as_str()), (3, ""), "nothing is missing there");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_just_ended_stays_and_it_is_said_why() {
    let (_store, _server, cli) = begin().await;
    for target in ["case/young", "case"] {
        let said = cli.run(&["purge", target, "--closed-before", "0s", "--dry-run"]);
        let others = usize::from(target == "case");
        assert_eq!(said.ok(), format!("{others} instances would be purged"));
        assert!(said.err.contains("1 ended within the last two minutes and stay"), "{said:?}");
    }
    let said = cli.run(&["-o", "json", "purge", "case/young", "--closed-before", "0s"]);
    assert_eq!(said.json(), json!({ "instances": 0, "events": 0, "too_young": 1, "unreadable": 0, "dry_run": false }));
    assert_eq!(said.err, "");
    cli.run(&["get", "case/young"]).ok();
    // One that runs is not even too young.
    let said = cli.run(&["-o", "json", "purge", "case/open", "--closed-before", "0s"]);
    assert_eq!((&said.json()["too_young"], &said.json()["instances"]), (&json!(0), &json!(0)));
    cli.run(&["get", "case/open"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_makes_no_sense_is_refused() {
    let (_store, server, cli) = begin().await;
    for args in [
        &["purge"][..],
        &["purge", "case"],
        &["purge", "case", "--closed-before"],
        &["purge", "case", "--closed-before", "1w"],
        &["purge", "case", "--closed-before", "-1d"],
        &["purge", "case", "--closed-before", ""],
        &["purge", "case", "--closed-before", "forever"],
        &["purge", "case/", "--closed-before", "1d"],
    ] {
        cli.run(args).failed(2);
    }
    for (target, outcome) in [("nothing", "unknown_workflow"), ("case/nobody", "unknown_instance")] {
        let said = cli.run(&["-o", "json", "purge", target, "--closed-before", "1d"]);
        assert_eq!(said.failed_json(1)["outcome"], outcome);
    }
    let said = cli.run(&["purge", "case", "--closed-before", "18446744073709551615ms"]);
    assert!(said.failed(1).contains("longer ago than any time"), "{said:?}");
    let api = server.api();
    for body in [
        json!({}),
        json!({ "closed_before_ms": -1 }),
        json!({ "closed_before_ms": "30d" }),
        json!({ "closed_before_ms": 1.5 }),
        json!({ "closed_before_ms": 1_000, "dry_run": "yes" }),
        json!({ "closed_before_ms": 1_000, "before": "2026" }),
        json!({ "closed_before_ms": 1_000, "cursor": "x" }),
        json!({ "closed_before_ms": 1_000, "cursor": "9-" }),
        json!({ "closed_before_ms": 1_000, "cursor": "0-x" }),
    ] {
        api.call(&Call::post("/v1/workflows/case/purge", &body)).await.problem(400, "malformed");
    }
    cli.run(&["get", "case/old"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_says_how_long_before_the_server_does() {
    let store = Store::new();
    let args = ["--retention-closed", "30d", "--retention-history", "36h"];
    let server = Server::start_with(store.dir(), &store.url(), &args);
    let (cli, api) = (server.cli(), server.api());
    let file = store.dir().join("case.yaml");
    let apply = |block: &str| {
        std::fs::write(&file, format!("{CASE}{block}")).unwrap();
        cli.run(&["apply", "-f", file.to_str().unwrap()])
    };
    let kept = async |query: &str| api.get(&format!("/v1/workflows/case{query}")).await.ok()["retention"].clone();
    let expected = |closed: Value, closed_by: &str, history: Value, history_by: &str| json!({ "closed_ms": closed, "closed_by": closed_by, "history_ms": history, "history_by": history_by });
    let day_ms = 86_400_000_u64;
    apply("").ok();
    assert_eq!(kept("").await, expected(json!(30 * day_ms), "server", json!(36 * 3_600_000), "server"));
    apply("retention: {closed: 90d}\n").ok();
    assert_eq!(kept("").await, expected(json!(90 * day_ms), "definition", json!(36 * 3_600_000), "server"));
    apply("retention: {closed: 90d, history: forever}\n").ok();
    let newest = expected(json!(90 * day_ms), "definition", Value::Null, "definition");
    assert_eq!(kept("").await, newest);
    assert_eq!(kept("?version=1").await, newest, "the newest counts");
    let text = api.get("/v1/workflows/case").await.ok()["text"].clone();
    assert_eq!(text, format!("{CASE}retention: {{closed: 90d, history: forever}}\n"), "as it was put");
    let shown = cli.run(&["show", file.to_str().unwrap()]);
    assert!(shown.ok().contains("\nkept: closed instances 90d, history forever\n"), "{shown:?}");
    assert_eq!(cli.run(&["show", "--text", file.to_str().unwrap()]).ok(), text.as_str().unwrap().trim_end());
    let document = cli.run(&["-o", "json", "show", file.to_str().unwrap()]).json();
    assert_eq!(document["retention"], json!({ "closed": "90d", "history": "forever" }));
    for (block, message) in [
        ("retention: {closed: 30m}", "at least 1h is allowed"),
        ("retention: {closed: none}", "did you mean \"forever\"?"),
        ("retention: {history: 90}", "expected a duration or `forever`"),
    ] {
        let said = apply(block);
        assert!(said.failed(1).contains(message), "{said:?}");
        assert!(cli.run(&["show", file.to_str().unwrap()]).failed(1).contains(message));
    }
    assert_eq!(kept("").await, newest, "what was refused changes nothing");
}

#[test]
fn a_server_that_is_told_nonsense_does_not_start() {
    let store = Store::new();
    for flag in ["--retention-closed", "--retention-history"] {
        for (time, message) in [
            ("0s", "write 1h to 3660d"),
            ("59m", "write 1h to 3660d"),
            ("3661d", "write 1h to 3660d"),
            ("18446744073709551615ms", "write 1h to 3660d"),
            ("90", "for example 90d"),
            ("forever", "for example 90d"),
        ] {
            let said = store.cli().run(&["serve", "--listen", "127.0.0.1:0", "--store", &store.url(), flag, time]);
            assert!(said.failed(2).contains(message), "{flag} {time}: {said:?}");
        }
    }
    assert!(!store.file().exists());
}

/// What the page says is counted, and what is counted.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_lists_all_metrics() {
    let (_store, server, cli) = begin().await;
    cli.run(&["purge", "case", "--closed-before", "30d"]).ok();
    let ask = json!({ "owner": "ann", "ttl_ms": 1_000 });
    server.api().call(&Call::post("/v1/locks/x/acquire", &ask)).await.ok();
    let text = server.api().get("/metrics").await.text;
    for line in [
        "# HELP lockkeeper_purged_instances Closed instances that this node has purged, by itself or by hand.",
        "# TYPE lockkeeper_purged_instances counter",
        "lockkeeper_purged_instances_total 1",
        "lockkeeper_purged_events_total 2",
        "lockkeeper_timers_fired_total 0",
        "# TYPE lockkeeper_timers_firing gauge",
        "lockkeeper_timers_firing 0",
        "lockkeeper_commands_waiting 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut counted: Vec<String> =
        kinds.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() }).collect();
    counted.sort_unstable();
    let page = include_str!("../../../../docs/operations.md");
    let mut listed: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `lockkeeper_")?.split_once('`'))
        .map(|(name, _)| format!("lockkeeper_{}", name.split('{').next().unwrap()))
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, counted);
}
