//! What a commit costs: `cargo bench -p lockkeeper-store [-- FOLDER]`.
//!
//! The folder decides what is measured: on a disk, commits with their syncs; in memory (`/dev/shm`), the work without
//! them. `work` is the time that the writer's thread was running (Linux), for each set: what is left when the disk and
//! the other programs of the machine are taken away.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_store::{Alarm, ChangeSet, Facets, NewKey, RecordKey, SqliteOptions, SqliteStore, Store, Verdict};
use uuid::Uuid;

const EVENT_BYTES: usize = 250;
const BODY_BYTES: usize = 500;
const SECONDS: u64 = 4;

fn main() {
    let argument = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = argument.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("a folder to measure in");
    println!("in {}", folder.path().display());
    sync_alone(folder.path());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        one_hot_record(folder.path(), 1, false).await;
        one_hot_record(folder.path(), 256, false).await;
        one_hot_record(folder.path(), 256, true).await;
        many_records(folder.path(), 100, 100, false).await;
        many_records(folder.path(), 100, 1000, false).await;
        many_records(folder.path(), 100, 1000, true).await;
        many_records(folder.path(), 256, 10_000, true).await;
    });
}

/// The disk's own cost: a small append and its sync.
fn sync_alone(folder: &Path) {
    let mut file = std::fs::File::create(folder.join("sync")).expect("a file");
    let mut times = Times::default();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[7; 8192]).and_then(|()| file.sync_data()).expect("a synced append");
        times.0.push(start.elapsed());
    }
    println!("append of 8 KiB and sync             {times}");
}

/// One set after another on one record.
async fn one_hot_record(folder: &Path, events: usize, keys: bool) {
    let path = folder.join(format!("hot-{events}-{keys}.db"));
    let store = SqliteStore::open(&path, SqliteOptions::default()).expect("a store");
    let key = RecordKey::new("bench", "hot");
    let mut times = Times::default();
    let mut version = 0;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(SECONDS) {
        let set = change(&key, version, events, keys);
        let sent = Instant::now();
        assert_eq!(store.commit(set).await, Ok(Verdict::Committed));
        times.0.push(sent.elapsed());
        version += events as i64;
    }
    let rate = version as f64 / start.elapsed().as_secs_f64();
    let with = if keys { ", a key each" } else { "" };
    println!("one record, {events:3} events a set{with:12} {times}  {rate:9.0} events/s  {}", after(&path, &times));
    store.close().await;
}

/// Many clients, each set one event on a record of its own choice.
async fn many_records(folder: &Path, clients: usize, records: usize, keys: bool) {
    let path = folder.join(format!("many-{clients}-{records}-{keys}.db"));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path, SqliteOptions::default()).expect("a store"));
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| tokio::spawn(commit_in_turn(Arc::clone(&store), client, clients, records, end, keys)))
        .collect();
    let mut times = Times::default();
    for task in tasks {
        times.0.append(&mut task.await.expect("an end").0);
    }
    let rate = times.0.len() as f64 / start.elapsed().as_secs_f64();
    let with = if keys { ", a key each" } else { "" };
    println!(
        "{clients} clients over {records:5} records{with:12} {times}  {rate:9.0} sets/s    {}",
        after(&path, &times)
    );
    store.close().await;
}

async fn commit_in_turn(
    store: Arc<dyn Store>,
    client: usize,
    clients: usize,
    records: usize,
    end: Instant,
    keys: bool,
) -> Times {
    let own: Vec<RecordKey> =
        (client..records).step_by(clients).map(|n| RecordKey::new("bench", &format!("record-{n:08}"))).collect();
    let mut times = Times::default();
    for version in 0.. {
        for key in &own {
            if Instant::now() > end {
                return times;
            }
            let set = change(key, version, 1, keys);
            let sent = Instant::now();
            assert_eq!(store.commit(set).await, Ok(Verdict::Committed));
            times.0.push(sent.elapsed());
        }
    }
    times
}

fn change(key: &RecordKey, expected: i64, events: usize, keys: bool) -> ChangeSet {
    let at = chrono::Utc::now();
    let new_key = |version| NewKey {
        key: Uuid::new_v4().to_string(),
        fingerprint: [7; 32],
        outcome: Bytes::from_static(&[b'o'; 100]),
        version,
        expires_at: at + chrono::TimeDelta::days(7),
    };
    let last = expected + events as i64;
    ChangeSet {
        key: key.clone(),
        commit_id: Uuid::new_v4(),
        expected_version: expected,
        facets: Facets { primary: format!("state-{}", expected % 4), secondary: "running".to_owned() },
        body: Bytes::from_static(&[b'b'; BODY_BYTES]),
        events: vec![Bytes::from_static(&[b'e'; EVENT_BYTES]); events],
        keys: if keys { (expected + 1..=last).map(new_key).collect() } else { Vec::new() },
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: Alarm::Keep,
        at,
        life: None,
    }
}

/// What it took and what it left: the writer's work for each set, and the size of the log.
fn after(path: &Path, times: &Times) -> String {
    let bytes = std::fs::metadata(format!("{}-wal", path.display())).map_or(0, |log| log.len());
    let work = writer_work().as_secs_f64() * 1e6 / times.0.len().max(1) as f64;
    format!("work {work:7.1} us  log {:.1} MiB", bytes as f64 / 1024.0 / 1024.0)
}

/// How long the writer's thread has been running; zero where that cannot be told.
fn writer_work() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads
        .filter(|thread| std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "store-writer\n"))
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok());
    Duration::from_nanos(nanos.sum())
}

#[derive(Default)]
struct Times(Vec<Duration>);

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |share: f64| {
            let index = (sorted.len() as f64 * share) as usize;
            sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default().as_secs_f64() * 1000.0
        };
        write!(f, "p50 {:6.2}  p99 {:6.2}  p99.9 {:6.2}  max {:6.2} ms", at(0.5), at(0.99), at(0.999), at(1.0))
    }
}
