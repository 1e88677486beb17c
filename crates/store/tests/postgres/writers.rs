//! Writers that go on whatever happens to the server, and keep a record of what they were told.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper_store::{AllVerdict, ChangeSet, CommitError, OnLocked, PostgresStore, RecordKey, Store, Verdict};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::tools::{LONG, key, next};

/// Between two tries while there is no server.
const PAUSE: Duration = Duration::from_millis(10);

/// Many tasks: some have a record each, some share one, some commit two records at once; some lock the row first.
pub(crate) struct Writers {
    store: Arc<PostgresStore>,
    tasks: JoinSet<Told>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    acknowledged: AtomicUsize,
    unknown: AtomicUsize,
    /// Why the last commit did not take place.
    told_last: Mutex<String>,
}

/// How a writer commits.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Alone,
    /// Under the row's lock.
    Locked,
    /// Together with the same of another record.
    Both,
}

/// What one writer was told of one record.
struct Told {
    key: RecordKey,
    way: Way,
    /// These took place.
    acknowledged: Vec<(i64, Uuid)>,
    /// These were found not to have taken place.
    missing: HashSet<Uuid>,
    /// Of these that is not known, each with the version that it expected.
    unsettled: Vec<(i64, Uuid)>,
}

impl Writers {
    /// Starts as many writers.
    pub(crate) fn start(store: &Arc<PostgresStore>, count: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for writer in 0..count {
            let (id, way) = match writer % 4 {
                0 => ("hot".to_owned(), Way::Alone),
                1 => (format!("own{writer}"), Way::Alone),
                2 => ("hot".to_owned(), Way::Locked),
                _ => (format!("pair{writer}"), Way::Both),
            };
            tasks.spawn(write(store.clone(), key(&id), way, shared.clone()));
        }
        Self { store: store.clone(), tasks, shared }
    }

    /// Waits until so many more commits were acknowledged.
    pub(crate) async fn progress(&self, more: usize) {
        let (begun, before) = (Instant::now(), self.shared.acknowledged.load(Ordering::SeqCst));
        while self.shared.acknowledged.load(Ordering::SeqCst) < before + more {
            let why = || self.shared.told_last.lock().map(|told| told.clone());
            assert!(begun.elapsed() < LONG, "commits do not go on: {:?}", why());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// How many were told that their commit's fate is not known.
    pub(crate) fn unknown(&self) -> usize {
        self.shared.unknown.load(Ordering::SeqCst)
    }

    /// Ends the writers and holds the history against what they were told.
    pub(crate) async fn check(mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let mut all: Vec<Told> = Vec::new();
        while let Some(told) = self.tasks.join_next().await {
            all.push(told.expect("a writer does not panic"));
        }
        let keys: HashSet<RecordKey> = all.iter().map(|told| told.key.clone()).collect();
        for key in keys {
            let its: Vec<&Told> = all.iter().filter(|told| told.key == key).collect();
            self.check_record(&key, &its).await;
            if its[0].way == Way::Both {
                assert_eq!(history(&self.store, &key).await, history(&self.store, &twin(&key)).await, "{key}");
            }
        }
    }

    async fn check_record(&self, key: &RecordKey, its: &[&Told]) {
        let history = history(&self.store, key).await;
        for (place, (version, _)) in (1..).zip(&history) {
            assert_eq!(*version, place, "{key}: no gap");
        }
        let ids: HashSet<Uuid> = history.iter().map(|(_, id)| *id).collect();
        assert_eq!(ids.len(), history.len(), "{key}: nothing twice");
        let mut told = HashSet::new();
        for (version, id) in its.iter().flat_map(|told| &told.acknowledged) {
            assert!(told.insert(*id) && history.contains(&(*version, *id)), "{key} {version} was acknowledged");
        }
        for id in ids {
            assert!(told.contains(&id), "{key}: nobody was told of {id}");
        }
        assert!(its.iter().all(|its| its.missing.is_disjoint(&told)), "{key}: found missing, and yet there");
        let read = self.store.read(key).await.expect("an answer").map_or(0, |record| record.version);
        assert_eq!(read as usize, history.len(), "{key}: the record and its history say the same");
    }
}

/// All versions with their commits.
pub(crate) async fn history(store: &PostgresStore, key: &RecordKey) -> Vec<(i64, Uuid)> {
    let mut history: Vec<(i64, Uuid)> = Vec::new();
    loop {
        let after = history.last().map_or(0, |(version, _)| *version);
        let page = store.events(key, after, 1000).await.expect("an answer");
        if page.is_empty() {
            return history;
        }
        history.extend(page.iter().map(|event| (event.version, event.commit_id)));
    }
}

fn twin(key: &RecordKey) -> RecordKey {
    RecordKey::new(&key.space, &format!("twin of {}", key.id))
}

/// Commits the next version after `version`, or what the lock shows it to be.
async fn commit(store: &PostgresStore, way: Way, set: &mut ChangeSet) -> Result<Verdict, CommitError> {
    match way {
        Way::Alone => store.commit(set.clone()).await,
        Way::Both => {
            let other = ChangeSet { key: twin(&set.key), ..set.clone() };
            Ok(match store.commit_all(vec![set.clone(), other]).await? {
                AllVerdict::Committed => Verdict::Committed,
                AllVerdict::Failed { verdict, .. } => verdict,
            })
        }
        Way::Locked => match store.lock(&set.key, &[], set.at, OnLocked::Wait(LONG)).await {
            Ok(locked) => {
                set.expected_version = locked.record.as_ref().map_or(0, |record| record.version);
                locked.hold.commit(set.clone()).await
            }
            Err(error) => Err(CommitError::Unavailable(error.to_string())),
        },
    }
}

async fn write(store: Arc<PostgresStore>, key: RecordKey, way: Way, shared: Arc<Shared>) -> Told {
    let mut told = Told { key, way, acknowledged: Vec::new(), missing: HashSet::new(), unsettled: Vec::new() };
    let mut version = 0;
    while !shared.stopped.load(Ordering::SeqCst) {
        let mut set = next(&told.key, version);
        let id = set.commit_id;
        let verdict = commit(&store, way, &mut set).await;
        version = set.expected_version;
        match verdict {
            Ok(Verdict::Committed) => {
                version += 1;
                told.acknowledged.push((version, id));
                shared.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Verdict::Lost(current)) => version = current.map_or(0, |record| record.version),
            Err(CommitError::Unavailable(why)) => {
                *shared.told_last.lock().expect("nobody panics with it") = why;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(CommitError::Unknown(_)) => {
                shared.unknown.fetch_add(1, Ordering::SeqCst);
                told.unsettled.push((version, id));
                if settle(&store, &told.key, version, id).await {
                    version += 1;
                }
                continue;
            }
            Ok(other) => panic!("{other:?}"),
        }
        told.settle(&store, version).await;
    }
    // Nothing is under way any more.
    told.settle(&store, i64::MAX).await;
    told
}

impl Told {
    /// Learns what became of commits whose fate was not known, as far as the record is known to have gone on since. Before,
    /// that one is not there says nothing: a session that nobody hears any more may still be committing it.
    async fn settle(&mut self, store: &PostgresStore, version: i64) {
        for (expected, id) in std::mem::take(&mut self.unsettled) {
            if expected >= version {
                self.unsettled.push((expected, id));
            } else if settle(store, &self.key, expected, id).await {
                self.acknowledged.push((expected + 1, id));
            } else {
                self.missing.insert(id);
            }
        }
    }
}

/// Asks after a commit until the store answers.
async fn settle(store: &PostgresStore, key: &RecordKey, expected: i64, id: Uuid) -> bool {
    let begun = Instant::now();
    loop {
        match store.committed(key, expected, id).await {
            Ok(took_place) => return took_place,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
