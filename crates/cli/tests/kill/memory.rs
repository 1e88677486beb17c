//! A node that remembers what a promoted standby never had decides nothing from it.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, Replication};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::failover::{either, part, until};
use crate::support::api::Api;
use crate::support::call::{Answer, Call, instance};
use crate::support::history::history;
use crate::support::server::Server;

const CASE: &str = "
workflow: case
initial: draft
states:
  draft: {on: {submit: review, note: {assign: {note: event.text}}}}
  review: {on: {approve: approved, reject: draft}}
  approved: {type: final}
";

/// How long a node may take to find the new primary.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// The pause after an answer that says "later".
const PAUSE: Duration = Duration::from_millis(100);

/// A primary whose standby no longer hears of changes, and two nodes that know both.
struct Scene {
    primary: Postgres,
    standby: Postgres,
    nodes: [Server; 2],
    _dir: TempDir,
}

impl Scene {
    /// The workflow and its instances `1` to `3` are on both servers, in version 1.
    async fn begin() -> Self {
        let dir = TempDir::new().unwrap();
        let primary = block_in_place(Postgres::start);
        let standby = block_in_place(|| primary.standby(Replication::Asynchronous));
        let url = either(&primary, &standby);
        let nodes = block_in_place(|| [Server::start(dir.path(), &url), Server::start(dir.path(), &url)]);
        let scene = Self { primary, standby, nodes, _dir: dir };
        let api = scene.api(0);
        api.put("case", CASE).await;
        for id in ["1", "2", "3"] {
            api.start("case", &json!({ "id": id })).await;
        }
        block_in_place(|| scene.part());
        scene
    }

    /// Waits until the standby has everything, and lets it hear of nothing more.
    fn part(&self) {
        let upto = self.primary.execute("SELECT pg_current_wal_lsn()");
        until(&self.standby, &format!("SELECT pg_last_wal_replay_lsn() >= '{upto}'"));
        part(&self.primary, &self.standby);
    }

    fn promote(&mut self) {
        self.primary.kill();
        self.standby.promote();
    }

    fn api(&self, node: usize) -> Api {
        self.nodes[node].api()
    }
}

/// Sends an event under a key until it is decided.
async fn decided(api: &Api, id: &str, key: &str, body: &Value) -> Answer {
    let call = Call::send("case", id, body).key(key);
    let begin = Instant::now();
    loop {
        let answer = api.call(&call).await;
        if !matches!(answer.status, 503 | 504) {
            return answer;
        }
        assert!(begin.elapsed() < FOUND_WITHIN, "not decided in time: {answer:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_remembers_the_old_life_decides_nothing_from_it() {
    let mut scene = Scene::begin().await;
    let (one, two) = (scene.api(0), scene.api(1));
    // Acknowledged by the primary alone, and remembered by the second node.
    for id in ["1", "2", "3"] {
        let lost = decided(&two, id, "lost", &json!({ "event": "submit" })).await;
        assert_eq!((lost.outcome().as_str(), lost.version()), ("applied", 2));
    }
    block_in_place(|| scene.promote());

    // The first node goes on with what is there: version 2 now means something else.
    let note = json!({ "event": "note", "data": { "text": "in the new life" } });
    let noted = decided(&one, "2", "note", &note).await;
    assert_eq!((noted.outcome().as_str(), noted.version()), ("applied", 2));
    // What the second remembers would allow this; what is there does not.
    for (id, version) in [("1", 1), ("2", 2)] {
        let refused = decided(&two, id, "approve", &json!({ "event": "approve" })).await;
        let problem = refused.problem(409, "state_mismatch");
        assert_eq!(problem["actual"], json!("draft"), "{problem}");
        assert_eq!(two.instance("case", id).await["version"], json!(version));
    }
    // A key that was lost with its effect is free again; the command takes effect once.
    let again = decided(&two, "3", "lost", &json!({ "event": "submit" })).await;
    assert_eq!((again.outcome().as_str(), again.version(), again.replayed()), ("applied", 2, false));
    let replay = decided(&one, "3", "lost", &json!({ "event": "submit" })).await;
    assert!(replay.replayed() && replay.version() == 2, "{replay:?}");
    for (id, versions) in [("1", 1), ("2", 2), ("3", 2)] {
        for api in [&one, &two] {
            assert_eq!(history(api, "case", id).await.len(), versions, "{id}");
        }
    }
    // A stale answer may be old, but not of a life that is over.
    let stale = two.get(&instance("case", "2", "?stale=ok")).await.ok();
    assert_eq!((&stale["state"], &stale["version"]), (&json!("draft"), &json!(2)), "{stale}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_primary_that_returns_is_not_written_to() {
    let mut scene = Scene::begin().await;
    let (one, two) = (scene.api(0), scene.api(1));
    decided(&two, "1", "lost", &json!({ "event": "submit" })).await.ok();
    block_in_place(|| scene.promote());
    let note = |text: &str| json!({ "event": "note", "data": { "text": text } });
    for (node, api) in [&one, &two].into_iter().enumerate() {
        assert_eq!(decided(api, "1", &format!("after-{node}"), &note("x")).await.outcome(), "applied");
    }
    let count = "SELECT count(*), max(version) FROM lockkeeper.events";
    block_in_place(|| scene.primary.restart());
    let left = block_in_place(|| scene.primary.execute(count));
    // New connections, too: those that are there end.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockkeeper'";
    for round in 0..5 {
        block_in_place(|| scene.standby.execute(end));
        for (node, api) in [&one, &two].into_iter().enumerate() {
            let noted = decided(api, "1", &format!("round-{round}-{node}"), &note("y")).await;
            assert_eq!(noted.outcome(), "applied");
        }
    }
    assert_eq!(block_in_place(|| scene.primary.execute(count)), left, "nothing was written to the former primary");
    assert_eq!(history(&one, "case", "1").await.len(), 1 + 2 + 10);
}
