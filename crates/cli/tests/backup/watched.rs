//! Who watches is told when the store begins another life.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::COUNTER;
use crate::support::program::command;
use crate::support::server::{Server, Store};

struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(server: &Server, store: &Store, args: &[&str]) -> Self {
        let mut command = command(store.dir());
        command.arg("watch").args(args).args(["-o", "json"]).env("LOCKKEEPER_URL", server.url());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Option<Value> {
        self.lines.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A backup of version 1 takes the place of version 4; then versions 2 to `moves + 1` are given out again.
async fn a_watch_is_told_of_another_life(moves: usize) {
    let store = Store::shared();
    let server = block_in_place(|| store.serve());
    let api = server.api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "a", "data": { "n": 0 } })).await;
    let file = store.dir().join("monday").display().to_string();
    let url = store.url();
    block_in_place(|| server.cli().run(&["backup", &file]).ok().to_owned());
    let mut watch = Watch::start(&server, &store, &["counter/a"]);
    for _ in 2..=4 {
        api.send("counter", "a", &json!({ "event": "count" })).await.ok();
    }
    for version in 1..=4 {
        assert_eq!(block_in_place(|| watch.next()).unwrap()["version"], version);
    }
    // The node goes on.
    block_in_place(|| store.cli().run(&["restore", &file, "--store", &url, "--replace"]).ok().to_owned());
    for _ in 0..moves {
        api.send("counter", "a", &json!({ "event": "count" })).await.ok();
    }
    assert_eq!(block_in_place(|| watch.next()), None, "nothing of the other life is shown as if it followed");
    let (code, said) = block_in_place(|| watch.end());
    assert!(code == Some(1) && said.contains("another life"), "{code:?}: {said}");
    // A new watch shows what happened in this one.
    let mut watch = Watch::start(&server, &store, &["counter/a"]);
    for version in 1..=moves + 1 {
        assert_eq!(block_in_place(|| watch.next()).unwrap()["version"], version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_are_given_out_again_are_no_continuation() {
    a_watch_is_told_of_another_life(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_gone_is_noticed_though_nothing_happens() {
    a_watch_is_told_of_another_life(0).await;
}
