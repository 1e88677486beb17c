//! The feed under load, while servers are killed and streams broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

use crate::COUNTER;
use crate::follower::{Follower, LONG};
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::server::{Server, Store};

const CLIENTS: usize = 8;
const INSTANCES: usize = 5;
const KILLS: usize = 3;

/// Commands that are acknowledged between two kills.
const BETWEEN: usize = 60;

/// Clients that send one command after another, to whichever server answers.
struct Load {
    clients: JoinSet<()>,
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn begin(api: &Api, urls: &watch::Sender<Vec<String>>) -> Self {
        let (acknowledged, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (api, urls, acknowledged, stop) = (api.clone(), urls.subscribe(), acknowledged.clone(), stop.clone());
            clients.spawn(async move {
                for n in 0.. {
                    let id = format!("c{}", (client + n) % INSTANCES);
                    let call = Call::send("counter", &id, &json!({ "event": "count" })).key(format!("{client}-{n}"));
                    for attempt in client.. {
                        let url = {
                            let urls = urls.borrow();
                            urls[attempt % urls.len()].clone()
                        };
                        match api.at(&url).try_call(&call).await {
                            Ok(answer) if answer.status == 200 => break,
                            _ => tokio::time::sleep(Duration::from_millis(10)).await,
                        }
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        Self { clients, acknowledged, stop }
    }

    async fn more(&self, commands: usize) {
        let target = self.acknowledged.load(Ordering::SeqCst) + commands;
        let begun = std::time::Instant::now();
        while self.acknowledged.load(Ordering::SeqCst) < target {
            assert!(begun.elapsed() < LONG, "nothing is acknowledged");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.join_all().await;
    }
}

async fn each_change_is_told_once(store: Store, nodes: usize) {
    let mut servers: Vec<Server> = block_in_place(|| (0..nodes).map(|_| store.serve()).collect());
    let urls = watch::Sender::new(servers.iter().map(|server| server.url().to_owned()).collect::<Vec<_>>());
    let api = servers[0].api();
    api.put("counter", COUNTER).await;
    for n in 0..INSTANCES {
        api.start("counter", &json!({ "id": format!("c{n}"), "data": { "n": 0 } })).await;
    }
    let mut follower = Follower::begin(urls.subscribe());
    let load = Load::begin(&api, &urls);
    for kill in 0..KILLS {
        load.more(BETWEEN).await;
        let node = kill % nodes;
        let server = block_in_place(|| store.serve());
        urls.send_modify(|urls| server.url().clone_into(&mut urls[node]));
        std::mem::replace(&mut servers[node], server).kill();
    }
    load.more(BETWEEN).await;
    load.end().await;
    let api = servers[0].api();
    let mut expected = Vec::new();
    for n in 0..INSTANCES {
        let versions: Vec<i64> =
            history(&api, "counter", &format!("c{n}")).await.iter().map(|row| row.version).collect();
        expected.push((format!("counter/c{n}"), versions));
    }
    follower.until(expected.iter().map(|(_, versions)| versions.len()).sum()).await;
    assert_eq!(follower.told().into_iter().collect::<Vec<_>>(), expected);
    assert!(follower.streams() > 1, "no stream was broken");
}

/// On a file a server has to be gone before the next one can begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_node_each_change_is_told_once() {
    let store = Store::new();
    let mut server = block_in_place(|| store.serve());
    let urls = watch::Sender::new(vec![server.url().to_owned()]);
    let api = server.api();
    api.put("counter", COUNTER).await;
    for n in 0..INSTANCES {
        api.start("counter", &json!({ "id": format!("c{n}"), "data": { "n": 0 } })).await;
    }
    let mut follower = Follower::begin(urls.subscribe());
    let load = Load::begin(&api, &urls);
    for _ in 0..KILLS {
        load.more(BETWEEN).await;
        block_in_place(|| server.kill());
        server = block_in_place(|| store.serve());
        urls.send_modify(|urls| server.url().clone_into(&mut urls[0]));
    }
    load.more(BETWEEN).await;
    load.end().await;
    let mut expected = Vec::new();
    for n in 0..INSTANCES {
        let rows = history(&server.api(), "counter", &format!("c{n}")).await;
        expected.push((format!("counter/c{n}"), rows.iter().map(|row| row.version).collect::<Vec<_>>()));
    }
    follower.until(expected.iter().map(|(_, versions)| versions.len()).sum()).await;
    assert_eq!(follower.told().into_iter().collect::<Vec<_>>(), expected);
    assert!(follower.streams() > KILLS, "each kill breaks the stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_two_nodes_each_change_is_told_once() {
    each_change_is_told_once(Store::shared(), 2).await;
}
