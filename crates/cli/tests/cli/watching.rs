//! `watch`: an instance is followed until its run has ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::begin;
use crate::support::program::command;
use crate::support::server::{Server, Store};

/// A watch under way; ended when dropped.
struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watch {
    fn start(store: &Store, server: &Server, args: &[&str]) -> Self {
        let mut command = command(store.dir());
        command.arg("watch").args(args).env("LOCKKEEPER_URL", server.url());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line, as soon as it is written.
    fn next(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn each_change_is_a_line_as_it_happens() {
    let (store, server, cli) = begin("ticket");
    cli.run(&["start", "ticket/7", "--as", "zoe"]).ok();
    let mut watch = Watch::start(&store, &server, &["ticket/7", "--until-closed", "-o", "json"]);
    let next = |watch: &mut Watch| -> Value { serde_json::from_str(&watch.next().expect("a line")).unwrap() };
    assert_eq!(next(&mut watch)["kind"], "start", "what was there before comes first");
    cli.run(&["send", "ticket/7", "escalate", "--data", r#"{"reason": "r"}"#]).ok();
    let row = next(&mut watch);
    assert_eq!((&row["event"], &row["to"]), (&Value::from("escalate"), &Value::from("escalated")));
    cli.run(&["terminate", "ticket/7", "--reason", "r"]).ok();
    assert_eq!(next(&mut watch)["kind"], "terminate");
    assert_eq!(watch.next(), None, "the run has ended");
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_that_has_ended_is_shown_and_left() {
    let (_store, _server, cli) = begin("ticket");
    cli.run(&["start", "ticket/7"]).ok();
    cli.run(&["cancel", "ticket/7", "--reason", "r"]).ok();
    let said = cli.run(&["watch", "ticket/7", "--until-closed"]);
    let lines: Vec<&str> = said.ok().lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("VERSION"), "{said:?}");
    assert!(lines[1].contains("start") && lines[2].contains("cancel"), "{said:?}");
    let said = cli.run(&["watch", "ticket/7", "--until-closed", "--from", "2", "-o", "json"]);
    assert_eq!(said.json()["kind"], "cancel");
    let said = cli.run(&["watch", "ticket/8", "--until-closed"]);
    assert!(said.failed(1).starts_with("error: unknown_instance (LK0005)"), "{said:?}");
}

/// Its name may be wrong, or it may come.
#[test]
fn an_unknown_workflow_is_told_and_waited_for() {
    let (store, server, cli) = begin("ticket");
    let mut command = command(store.dir());
    command.args(["watch", "tickets"]).env("LOCKKEEPER_URL", server.url());
    let mut watch = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    let note = notes.next().unwrap().unwrap();
    assert!(note.contains("tickets") && note.contains("waiting until it is put"), "{note}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(notes.count(), 0);
    drop(cli);
}

/// The server restarts under the watch, on another store's port it would not be found: the address is kept.
#[test]
fn a_watch_survives_a_restart_of_the_server() {
    let (store, mut server, cli) = begin("ticket");
    cli.run(&["start", "ticket/7"]).ok();
    let address = server.address().to_owned();
    let mut watch = Watch::start(&store, &server, &["ticket/7", "--until-closed", "-o", "json"]);
    assert!(watch.next().unwrap().contains("start"));
    server.program.kill();
    let mut program = store.start(&address);
    program.wait_for("listening on", crate::support::server::END_MAX);
    cli.run(&["cancel", "ticket/7", "--reason", "r", "--key", "k"]).ok();
    assert!(watch.next().unwrap().contains("cancel"));
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}
