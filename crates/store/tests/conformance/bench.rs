//! What the cases are written with.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use chrono::DateTime;
use lockkeeper_store::{
    Alarm, AllVerdict, ChangeSet, CommitError, Event, Facets, Fence, ListOrder, ListQuery, NewKey, Record, RecordKey,
    Requirement, Store, Timestamp, Verdict,
};
use uuid::Uuid;

/// An empty store.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) back_door: Box<dyn BackDoor>,
}

/// What only the backend's own means can do.
pub(crate) trait BackDoor: Send + Sync {
    /// Gives a record with one event another version.
    fn renumber(&self, key: &RecordKey, version: i64);
    /// Makes the backend refuse events with this body as a broken constraint.
    fn forbid_event(&self, text: &str);
    /// Keeps every commit waiting until it is dropped, so that those sent meanwhile come together.
    fn hold_writes(&self) -> Box<dyn Send>;
}

impl Bench {
    pub(crate) async fn commit(&self, set: &Set) -> Verdict {
        self.store.commit(set.0.clone()).await.expect("a verdict")
    }

    pub(crate) async fn must_commit(&self, set: &Set) {
        assert_eq!(self.commit(set).await, Verdict::Committed, "{}", set.0.key);
    }

    pub(crate) async fn commit_all(&self, sets: &[Set]) -> AllVerdict {
        self.store.commit_all(sets.iter().map(|set| set.0.clone()).collect()).await.expect("a verdict")
    }

    pub(crate) async fn read(&self, key: &RecordKey) -> Option<Record> {
        self.store.read(key).await.expect("an answer")
    }

    pub(crate) async fn version(&self, key: &RecordKey) -> i64 {
        self.read(key).await.map_or(0, |record| record.version)
    }

    /// All events, page by page.
    pub(crate) async fn all_events(&self, key: &RecordKey) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.version);
            let page = self.store.events(key, after, 1000).await.expect("an answer");
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }

    /// The ids of a list, page by page; and how many pages it took.
    pub(crate) async fn all_ids(&self, query: &ListQuery) -> (Vec<String>, usize) {
        let mut query = query.clone();
        let (mut ids, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.store.list(&query).await.expect("an answer");
            pages += 1;
            ids.extend(page.records.iter().map(|record| record.key.id.to_string()));
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return (ids, pages),
            }
        }
    }
}

/// A commit that was sent and not yet awaited.
pub(crate) type Sent = Pin<Box<dyn Future<Output = Result<Verdict, CommitError>> + Send>>;

/// Sends a commit: when this returns, the backend has accepted it.
pub(crate) fn send(bench: &Bench, set: &Set) -> Sent {
    let (store, set) = (Arc::clone(&bench.store), set.0.clone());
    // Unconstrained: the first poll must reach the queue, whatever this task has done before.
    let mut commit: Sent = Box::pin(tokio::task::unconstrained(async move { store.commit(set).await }));
    assert!(matches!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    commit
}

/// A moment, the same in every run.
pub(crate) fn moment(ms: i64) -> Timestamp {
    DateTime::from_timestamp_millis(1_800_000_000_000 + ms).expect("a moment")
}

/// A record of the space that most cases use.
pub(crate) fn key(id: &str) -> RecordKey {
    RecordKey::new("things", id)
}

/// A list of that space.
pub(crate) fn query(order: ListOrder) -> ListQuery {
    ListQuery::all("things", order, 50)
}

/// A change set in the making.
#[derive(Clone)]
pub(crate) struct Set(pub(crate) ChangeSet);

/// One event on the record at `expected`, with a body that says the new version.
pub(crate) fn set(key: &RecordKey, expected: i64) -> Set {
    Set(ChangeSet {
        key: key.clone(),
        commit_id: Uuid::new_v4(),
        expected_version: expected,
        facets: Facets::default(),
        body: Bytes::from(format!("body {}", expected.saturating_add(1))),
        events: vec![Bytes::from(format!("event {}", expected.saturating_add(1)))],
        keys: Vec::new(),
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: Alarm::Keep,
        at: moment(0),
        life: None,
    })
}

impl Set {
    pub(crate) fn at(mut self, ms: i64) -> Self {
        self.0.at = moment(ms);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.0.body = body.into();
        self
    }

    pub(crate) fn facets(mut self, primary: &str, secondary: &str) -> Self {
        self.0.facets = Facets { primary: primary.to_owned(), secondary: secondary.to_owned() };
        self
    }

    pub(crate) fn events<B: Into<Bytes>>(mut self, events: impl IntoIterator<Item = B>) -> Self {
        self.0.events = events.into_iter().map(Into::into).collect();
        self
    }

    /// A key of the set's first event, kept until `expires_ms`.
    pub(crate) fn key(self, name: &str, expires_ms: i64) -> Self {
        let version = self.0.expected_version.saturating_add(1);
        self.key_at(name, expires_ms, version)
    }

    pub(crate) fn key_at(mut self, name: &str, expires_ms: i64, version: i64) -> Self {
        self.0.keys.push(NewKey {
            key: name.to_owned(),
            fingerprint: [7; 32],
            outcome: Bytes::from(format!("outcome of {name} in {version}")),
            version,
            expires_at: moment(expires_ms),
        });
        self
    }

    pub(crate) fn fence(mut self, resource: &str, fence: i64) -> Self {
        self.0.fences.push(Fence::new(resource, fence));
        self
    }

    pub(crate) fn requires(mut self, key: &RecordKey, version: i64) -> Self {
        self.0.requires.push(Requirement { key: key.clone(), version });
        self
    }
}
