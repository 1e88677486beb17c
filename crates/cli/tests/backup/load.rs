//! A backup that is made while senders are at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinSet, block_in_place};

use crate::COUNTER;
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::history::{Row, history};
use crate::support::server::Store;
use crate::support::world::{World, in_both_worlds};

const CLIENTS: usize = 8;
const INSTANCES: usize = 6;
/// Commands before, while and after the backup is made, at least.
const COMMANDS: usize = 100;
/// Far above what anything takes, even in a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn id(n: usize) -> String {
    format!("c{}", n % INSTANCES)
}

struct Senders {
    tasks: JoinSet<()>,
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Senders {
    fn begin(api: &Api) -> Self {
        let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for client in 0..CLIENTS {
            let (api, done, stop) = (api.clone(), done.clone(), stop.clone());
            tasks.spawn(async move {
                for n in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let call = Call::send("counter", &id(client + n), &json!({ "event": "count" }));
                    api.call(&call.key(format!("{client}-{n}"))).await.ok();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { tasks, done, stop }
    }

    async fn more(&self) {
        let (begun, target) = (Instant::now(), self.done.load(Ordering::SeqCst) + COMMANDS);
        while self.done.load(Ordering::SeqCst) < target {
            assert!(begun.elapsed() < LONG, "nothing is acknowledged");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
    }
}

async fn histories(api: &Api) -> Vec<Vec<Row>> {
    let mut all = Vec::new();
    for n in 0..INSTANCES {
        all.push(history(api, "counter", &id(n)).await);
    }
    all
}

fn raw(rows: &[Row]) -> Vec<&Value> {
    rows.iter().map(|row| &row.raw).collect()
}

/// Restores into an empty store, and looks whether everything is as it was in the source when the backup was made.
async fn is_restored_into(target: Store, file: &str, made: &Value, source: &[Vec<Row>]) {
    let url = target.url();
    let restored = block_in_place(|| target.cli().run(&["restore", file, "--store", &url, "-o", "json"])).json();
    assert_eq!(&restored, made);
    let server = block_in_place(|| target.serve());
    let api = server.api();
    let copied = histories(&api).await;
    for (n, (copied, source)) in copied.iter().zip(source).enumerate() {
        assert!(copied.len() <= source.len(), "more than ever happened");
        assert_eq!(raw(copied), raw(&source[..copied.len()]), "{} is a beginning of what happened", id(n));
        let instance = api.instance("counter", &id(n)).await;
        let last = copied.len() as i64;
        assert_eq!((&instance["version"], &instance["data"]["n"]), (&json!(last), &json!(last - 1)));
    }
    // The same again: a backup of what was restored.
    let again = target.dir().join("again").display().to_string();
    let again = block_in_place(|| server.cli().run(&["backup", &again, "--verify", "-o", "json"])).json();
    assert_eq!(&again, made, "the content is the same, whatever store it lies in");
    // It goes on; a key of before is known still.
    let version = copied[0].last().unwrap().version;
    let key = copied[0].last().unwrap().key.clone().expect("a key");
    let resent = api.call(&Call::send("counter", &id(0), &json!({ "event": "count" })).key(key)).await;
    assert!(resent.replayed() && resent.version() == version, "{resent:?}");
    let next = api.send("counter", &id(0), &json!({ "event": "count" })).await;
    assert_eq!(next.version(), version + 1);
    history(&api, "counter", &id(0)).await;
}

async fn made_under_load_it_is_restored_equal(world: World) {
    let api = world.api();
    api.put("counter", COUNTER).await;
    for n in 0..INSTANCES {
        api.start("counter", &json!({ "id": id(n), "data": { "n": 0 } })).await;
    }
    let senders = Senders::begin(&api);
    senders.more().await;
    let file = world.store.dir().join("made.backup").display().to_string();
    let (cli, arguments) = (world.cli(0), file.clone());
    let making = tokio::task::spawn_blocking(move || cli.run(&["backup", &arguments, "--verify", "-o", "json"]));
    senders.more().await;
    let made = making.await.unwrap().json();
    senders.more().await;
    senders.end().await;
    let source = histories(&api).await;
    let events: usize = source.iter().map(Vec::len).sum();
    assert!(made["events"].as_u64().unwrap() < events as u64, "moves went on");
    is_restored_into(Store::new(), &file, &made, &source).await;
    is_restored_into(Store::shared(), &file, &made, &source).await;
}

in_both_worlds!(made_under_load_it_is_restored_equal);
