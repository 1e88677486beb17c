//! `watch` without an instance.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::COUNTER;
use crate::follower::LONG;
use crate::support::cli::Cli;
use crate::support::program::command;
use crate::support::server::Store;

struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watch {
    fn start(store: &Store, url: &str, args: &[&str]) -> Self {
        let mut command = command(store.dir());
        command.arg("watch").args(args).args(["-o", "json"]).env("LOCKKEEPER_URL", url);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a line").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_all_goes_on_where_it_ended_and_through_restarts() {
    let store = Store::new();
    let server = store.serve();
    let api = server.api();
    let address = server.address().to_owned();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "a", "data": { "n": 0 } })).await;
    api.start("counter", &json!({ "id": "b", "data": { "n": 0 } })).await;
    let mut watch = Watch::start(&store, server.url(), &["--after", "begin"]);
    let (first, second) = (watch.next(), watch.next());
    assert_eq!((&first["id"], &second["id"]), (&json!("a"), &json!("b")));
    server.stop();
    let mut server = store.start(&address);
    server.wait_for("listening on http://", LONG);
    let (url, cli) = (format!("http://{address}"), Cli::new(store.dir(), &format!("http://{address}")));
    api.send("counter", "a", &json!({ "event": "count" })).await.ok();
    let third = watch.next();
    assert_eq!((&third["id"], &third["version"]), (&json!("a"), &json!(2)), "nothing was repeated");
    drop(watch);
    let cursor = first["cursor"].as_str().expect("a cursor");
    let mut watch = Watch::start(&store, &url, &["counter", "--after", cursor]);
    assert_eq!(watch.next(), second);
    assert_eq!(watch.next(), third);
    let mut watch = Watch::start(&store, &url, &["counter/a", "--after", cursor]);
    assert_eq!(watch.next(), third, "one instance alone");
    let said = store.cli().run(&["watch", "--until-closed"]);
    assert!(said.failed(2).contains("WORKFLOW/ID"), "{said:?}");
    let said = cli.run(&["watch", "--after", "7-0-0-0-0"]);
    assert!(said.code == Some(1) && said.err.contains("LK0034"), "{said:?}");
}
