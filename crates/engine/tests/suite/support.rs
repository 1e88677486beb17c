//! A store that fails as it is told to, and a workflow to move.

use std::any::Any;
use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_engine::{Answer, DefinitionText, Engine, HistoryItem, Options};
use lockkeeper_locks::{LockService, Locks};
use lockkeeper_model::{Action, Actor, Command, Data, Format, InstanceKey, Send, Start, WorkflowName};
use lockkeeper_store::lease::{Edge, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest};
use lockkeeper_store::{
    Alarm, AllVerdict, BackupError, BackupSummary, ChangeSet, CommitError, Confirmation, DateOf, Dated, DatedQuery,
    Due, Event, FeedFrom, FeedPage, Fence, Forget, Forgotten, ListQuery, LockError, Locked, OnLocked, Page, ReadError,
    Record, RecordKey, RowLock, Store, StoredKey, Timestamp, Verdict,
};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::faulty_locks::FaultyLocks;

/// How the next commit goes wrong.
pub enum Fault {
    /// It takes place, and the answer is lost.
    AnswerLost,
    /// It never arrives, and nobody can know.
    NeverArrives,
    /// It arrives only when [`FaultyStore::deliver`] is called; its sender cannot know.
    ArrivesLater,
    /// The store says at once that it cannot.
    Unavailable,
    /// This happens at another node first; then the commit goes on.
    Before(Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()> + std::marker::Send>> + std::marker::Send>),
}

/// A store with faults on order.
pub struct FaultyStore {
    me: Weak<FaultyStore>,
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Vec<Vec<ChangeSet>>>,
    /// Commits wait here while it is set.
    closed: watch::Sender<bool>,
    /// Commits that have arrived while it was set.
    held: watch::Sender<usize>,
    pub commits: AtomicUsize,
    pub reads: AtomicUsize,
    pub locks: AtomicUsize,
    /// Events that contain this text are rejected, as a constraint would.
    pub rejects: Mutex<Option<&'static str>>,
    /// Whether a rejection names the event.
    pub names_culprit: std::sync::atomic::AtomicBool,
    /// The commits that were delayed arrive within the next read.
    pub deliver_in_read: std::sync::atomic::AtomicBool,
    /// What it adds to the life of the store below.
    pub life: AtomicI64,
    /// Reads fail while it is set.
    pub blind: std::sync::atomic::AtomicBool,
    /// What is current is not told while it is set.
    pub unconfirmed: std::sync::atomic::AtomicBool,
    /// The fences of what was committed here, in order.
    pub fences: Mutex<Vec<Fence>>,
    /// Alarms that were set without a change.
    pub alarms: watch::Sender<usize>,
    /// Events of this version come damaged out of the store; 0: none.
    pub garbled: AtomicI64,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            inner,
            faults: Mutex::default(),
            late: Mutex::default(),
            closed: watch::Sender::new(false),
            held: watch::Sender::new(0),
            commits: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            locks: AtomicUsize::new(0),
            rejects: Mutex::default(),
            names_culprit: true.into(),
            deliver_in_read: false.into(),
            life: AtomicI64::new(0),
            blind: false.into(),
            unconfirmed: false.into(),
            fences: Mutex::default(),
            alarms: watch::Sender::new(0),
            garbled: AtomicI64::new(0),
        })
    }

    pub fn next(&self, fault: Fault) {
        self.faults.lock().unwrap().push_back(fault);
    }

    /// Holds commits back, so that what is sent meanwhile is decided together.
    pub fn hold(&self) {
        self.held.send_replace(0);
        self.closed.send_replace(true);
    }

    pub fn release(&self) {
        self.closed.send_replace(false);
    }

    /// Waits until a commit has arrived at the held store.
    pub async fn arrived(&self) {
        let mut held = self.held.subscribe();
        let arrival = tokio::time::timeout(Duration::from_secs(10), held.wait_for(|held| *held > 0)).await;
        arrival.expect("no commit arrived").expect("the store is alive");
    }

    /// The commits that were delayed arrive now: whether any took effect.
    pub async fn deliver(&self) -> bool {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut any = false;
        for sets in late {
            any |= self.inner.commit_all(sets).await == Ok(AllVerdict::Committed);
        }
        any
    }

    fn garble(&self, event: &mut Event) {
        if event.version == self.garbled.load(Ordering::SeqCst) {
            event.body = event.body.slice(..event.body.len() / 2);
        }
    }

    fn life(&self) -> i64 {
        self.life.load(Ordering::SeqCst)
    }

    fn living(&self, record: Record) -> Record {
        Record { life: record.life + self.life(), ..record }
    }

    fn check_read(&self) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.blind.load(Ordering::SeqCst) {
            return Err(ReadError::Unavailable("blind".into()));
        }
        Ok(())
    }

    fn rejected(&self, set: &ChangeSet) -> Option<Verdict> {
        let text = (*self.rejects.lock().unwrap())?;
        let event = set.events.iter().position(|event| String::from_utf8_lossy(event).contains(text))?;
        let event = self.names_culprit.load(Ordering::SeqCst).then_some(event);
        Some(Verdict::Rejected { event, reason: format!("no {text} here") })
    }
}

/// A lock whose commit goes wrong as the store's do.
struct FaultyLock {
    inner: Box<dyn RowLock>,
    store: Arc<FaultyStore>,
}

#[async_trait]
impl RowLock for FaultyLock {
    async fn taken(&mut self, keys: &[String], now: Timestamp) -> Result<Vec<StoredKey>, ReadError> {
        self.store.check_read()?;
        self.inner.taken(keys, now).await
    }

    async fn release(self: Box<Self>, told: bool) -> Result<(), ReadError> {
        self.inner.release(told).await
    }

    async fn commit(self: Box<Self>, set: ChangeSet) -> Result<Verdict, CommitError> {
        let Self { inner, store } = *self;
        store.commit_by(set, async move |set| inner.commit(set).await).await
    }
}

impl FaultyStore {
    async fn commit_by(
        &self,
        mut set: ChangeSet,
        commit: impl AsyncFnOnce(ChangeSet) -> Result<Verdict, CommitError>,
    ) -> Result<Verdict, CommitError> {
        set.life = set.life.map(|life| life - self.life());
        let fences = set.fences.clone();
        Ok(match self.commit_faultily(set, commit).await? {
            Verdict::Committed => {
                self.fences.lock().unwrap().extend(fences);
                Verdict::Committed
            }
            Verdict::Lost(record) => Verdict::Lost(record.map(|record| self.living(record))),
            other => other,
        })
    }

    async fn commit_faultily(
        &self,
        set: ChangeSet,
        commit: impl AsyncFnOnce(ChangeSet) -> Result<Verdict, CommitError>,
    ) -> Result<Verdict, CommitError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        if *self.closed.borrow() {
            self.held.send_modify(|held| *held += 1);
        }
        let mut closed = self.closed.subscribe();
        closed.wait_for(|closed| !closed).await.expect("the store is alive");
        if let Some(verdict) = self.rejected(&set) {
            return Ok(verdict);
        }
        let fault = self.faults.lock().unwrap().pop_front();
        let unknown = || Err(CommitError::Unknown("the connection broke".into()));
        match fault {
            None => commit(set).await,
            Some(Fault::AnswerLost) => {
                commit(set).await?;
                unknown()
            }
            Some(Fault::NeverArrives) => unknown(),
            Some(Fault::ArrivesLater) => {
                self.late.lock().unwrap().push(vec![set]);
                unknown()
            }
            Some(Fault::Unavailable) => Err(CommitError::Unavailable("refused".into())),
            Some(Fault::Before(other)) => {
                other().await;
                commit(set).await
            }
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, set: ChangeSet) -> Result<Verdict, CommitError> {
        self.commit_by(set, async |set| self.inner.commit(set).await).await
    }

    async fn lock(
        &self,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        on_locked: OnLocked,
    ) -> Result<Locked, LockError> {
        self.locks.fetch_add(1, Ordering::SeqCst);
        let locked = self.inner.lock(key, keys, now, on_locked).await?;
        let store = self.me.upgrade().expect("the store is alive");
        let (record, life) = (locked.record.map(|record| self.living(record)), locked.life + self.life());
        Ok(Locked { record, life, hold: Box::new(FaultyLock { inner: locked.hold, store }), ..locked })
    }

    async fn commit_all(&self, mut sets: Vec<ChangeSet>) -> Result<AllVerdict, CommitError> {
        for set in &mut sets {
            set.life = set.life.map(|life| life - self.life());
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        let fault = self.faults.lock().unwrap().pop_front();
        let unknown = || Err(CommitError::Unknown("the connection broke".into()));
        match fault {
            None => {
                let fences: Vec<Fence> = sets.iter().flat_map(|set| set.fences.clone()).collect();
                let verdict = self.inner.commit_all(sets).await;
                if verdict == Ok(AllVerdict::Committed) {
                    self.fences.lock().unwrap().extend(fences);
                }
                verdict
            }
            Some(Fault::ArrivesLater) => {
                self.late.lock().unwrap().push(sets);
                unknown()
            }
            Some(Fault::AnswerLost) => {
                self.inner.commit_all(sets).await?;
                unknown()
            }
            Some(Fault::NeverArrives) => unknown(),
            Some(Fault::Unavailable) => Err(CommitError::Unavailable("refused".into())),
            Some(Fault::Before(other)) => {
                other().await;
                self.inner.commit_all(sets).await
            }
        }
    }

    async fn read(&self, key: &RecordKey) -> Result<Option<Record>, ReadError> {
        self.check_read()?;
        if self.deliver_in_read.swap(false, Ordering::SeqCst) {
            assert!(self.deliver().await, "the delayed commit finds its version");
        }
        Ok(self.inner.read(key).await?.map(|record| self.living(record)))
    }

    async fn confirm(&self, key: &RecordKey, keys: &[String], now: Timestamp) -> Result<Confirmation, ReadError> {
        self.check_read()?;
        if self.unconfirmed.load(Ordering::SeqCst) {
            return Err(ReadError::Unavailable("unconfirmed".into()));
        }
        let confirmed = self.inner.confirm(key, keys, now).await?;
        Ok(Confirmation { life: confirmed.life + self.life(), ..confirmed })
    }

    async fn committed(&self, key: &RecordKey, expected_version: i64, commit_id: Uuid) -> Result<bool, ReadError> {
        self.check_read()?;
        self.inner.committed(key, expected_version, commit_id).await
    }

    async fn events(&self, key: &RecordKey, after: i64, limit: usize) -> Result<Vec<Event>, ReadError> {
        self.check_read()?;
        let mut events = self.inner.events(key, after, limit).await?;
        events.iter_mut().for_each(|event| self.garble(event));
        Ok(events)
    }

    async fn forget(&self, what: &Forget, limit: usize) -> Result<Forgotten, CommitError> {
        self.inner.forget(what, limit).await
    }

    async fn backup(&self, into: &Path) -> Result<BackupSummary, BackupError> {
        self.inner.backup(into).await
    }

    async fn feed(&self, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadError> {
        let mut page = self.inner.feed(from, limit).await?;
        page.items.iter_mut().for_each(|item| self.garble(&mut item.event));
        Ok(page)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        self.check_read()?;
        self.inner.list(query).await
    }

    async fn due(&self, limit: usize) -> Result<Due, ReadError> {
        self.inner.due(limit).await
    }

    async fn dated(&self, query: &DatedQuery) -> Result<Vec<Dated>, ReadError> {
        self.check_read()?;
        self.inner.dated(query).await
    }

    async fn set_dates(&self, of: DateOf, dates: Vec<(RecordKey, Timestamp)>) -> Result<(), CommitError> {
        self.inner.set_dates(of, dates).await
    }

    async fn set_alarm(&self, key: &RecordKey, version: i64, alarm: Alarm) -> Result<bool, CommitError> {
        let set = self.inner.set_alarm(key, version, alarm).await;
        self.alarms.send_modify(|alarms| *alarms += 1);
        set
    }

    async fn purge_keys(&self, now: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.inner.purge_keys(now, limit).await
    }

    async fn purge_fences(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.inner.purge_fences(before, limit).await
    }

    async fn purge_leases(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.inner.purge_leases(before, limit).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, CommitError> {
        self.inner.lease(request).await
    }

    async fn leases(&self, query: &LeaseQuery) -> Result<LeasePage, ReadError> {
        self.inner.leases(query).await
    }

    async fn lease_edges(&self) -> Result<Vec<Edge>, ReadError> {
        self.inner.lease_edges().await
    }

    fn woken(&self) -> broadcast::Receiver<LeaseId> {
        self.inner.woken()
    }

    async fn fence_floor(&self, at_least: i64) -> Result<i64, CommitError> {
        self.inner.fence_floor(at_least).await
    }

    async fn ping(&self) -> Result<(), CommitError> {
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// An engine on a faulty store, and another node on the same database.
pub struct House {
    /// The store below, which knows no faults.
    pub sound: Arc<dyn Store>,
    pub store: Arc<FaultyStore>,
    pub engine: Engine,
    pub other: Engine,
    /// Where both nodes get leases, and where it can be made to fail; used if asked for.
    pub locks: Arc<FaultyLocks>,
    _place: Box<dyn Any + std::marker::Send>,
}

/// What the engines stand on.
pub struct Ground {
    /// The first node's store.
    pub store: Arc<dyn Store>,
    /// The other's. One file belongs to one process: there it is the same store, and another node for all that the
    /// engine can tell.
    pub other: Arc<dyn Store>,
    /// A lock service that both nodes reach.
    pub locks: Arc<dyn LockService>,
    /// What goes with it.
    pub place: Box<dyn Any + std::marker::Send>,
}

/// A workflow with all that the tests move.
pub const WORKFLOW: &str = "
workflow: case
initial: open
concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}
states:
  open:
    on:
      note: {assign: {notes: '(has(data.notes) ? data.notes : 0) + 1'}}
      left: {assign: {left: event.value}}
      right: {assign: {right: event.value}}
      take: {guard: 'event.quantity > 0 && data.on_hand >= event.quantity', assign: {on_hand: data.on_hand - event.quantity}}
      review: review
      finish: done
  review:
    on:
      approve: {target: approved, approval: {quorum: 2}}
      reject: rejected
  approved: {type: final}
  rejected: {type: final, status: failed}
  done: {type: final}
";

impl House {
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        Self::on(crate::ground().await, options, false).await
    }

    /// Two nodes that get leases.
    pub async fn leased(options: Options) -> Self {
        Self::on(crate::ground().await, options, true).await
    }

    async fn on(ground: Ground, options: Options, leased: bool) -> Self {
        let Ground { store: sound, other, locks, place } = ground;
        let store = FaultyStore::new(sound.clone());
        let locks = FaultyLocks::new(locks);
        let leases = || leased.then(|| Locks::new(locks.clone()));
        let engine = Engine::new(store.clone(), Options { locks: leases(), ..options });
        let other = Engine::new(other, Options { locks: leases(), ..Options::default() });
        put(&engine, "case", WORKFLOW).await;
        store.commits.store(0, Ordering::SeqCst);
        Self { sound, store, engine, other, locks, _place: place }
    }

    pub async fn start(&self, id: &str, data: serde_json::Value) {
        let start = Start { run: Uuid::new_v4(), data: object(data), ..Start::default() };
        let answer = self.engine.send(command(id, Action::Start(start), "ann"), None).await;
        answer.result.expect("started");
    }

    /// A further node on the same store.
    pub fn another(&self, options: Options) -> Engine {
        Engine::new(self.sound.clone(), options)
    }

    /// Holds the store back, and sends a note to `a` that has arrived there.
    pub async fn held_note(&self) -> JoinHandle<Answer> {
        self.store.hold();
        let engine = self.engine.clone();
        let first = tokio::spawn(async move { engine.send(event("a", "note", "first"), None).await });
        self.store.arrived().await;
        first
    }

    pub async fn history(&self, id: &str) -> Vec<HistoryItem> {
        self.other.history(&key(id), 0, 999, Duration::ZERO).await.unwrap().items
    }
}

pub async fn put(engine: &Engine, name: &str, text: &str) {
    let workflow = WorkflowName::new(name).unwrap();
    engine.put_definition(&workflow, text_of(engine, text)).await.unwrap();
}

/// A definition as it is put.
pub fn text_of(engine: &Engine, text: &str) -> DefinitionText {
    let actor = Actor::new("test", [], false).unwrap();
    DefinitionText { format: Format::Yaml, text: text.to_owned(), actor, at: engine.clock().now() }
}

pub fn key(id: &str) -> InstanceKey {
    InstanceKey::new("case", id).unwrap()
}

pub fn object(value: serde_json::Value) -> Data {
    match value {
        serde_json::Value::Object(data) => data,
        other => panic!("{other} is not an object"),
    }
}

pub fn command(id: &str, action: Action, actor: &str) -> Command {
    Command { instance: key(id), action, actor: Actor::new(actor, [], false).unwrap(), idempotency_key: None }
}

pub fn event(id: &str, event: &str, actor: &str) -> Command {
    command(id, Action::Send(Send { event: Some(event.to_owned()), ..Send::default() }), actor)
}

pub fn with_data(mut command: Command, data: serde_json::Value) -> Command {
    match &mut command.action {
        Action::Send(send) => send.data = object(data),
        Action::Start(start) => start.data = object(data),
        other => panic!("{other:?} carries no data"),
    }
    command
}

pub fn keyed(mut command: Command, key: &str) -> Command {
    command.idempotency_key = Some(key.to_owned());
    command
}

/// `applied`, or the refusal's name.
pub fn name(answer: &Answer) -> &'static str {
    use lockkeeper_model::SuccessKind;
    match &answer.result {
        Ok(success) => match success.outcome {
            SuccessKind::Started => "started",
            SuccessKind::Attached => "attached",
            SuccessKind::Applied => "applied",
            SuccessKind::AlreadyApplied => "already_applied",
            SuccessKind::PendingApproval => "pending_approval",
        },
        Err(refusal) => refusal.outcome(),
    }
}

/// Starts a request: when this returns, its command has its place in the queue.
pub fn queued<T: std::marker::Send + 'static>(
    mut request: Pin<Box<dyn Future<Output = T> + std::marker::Send>>,
) -> JoinHandle<T> {
    // The first poll goes as far as the queue, whatever this task has done before.
    let mut first = tokio::task::unconstrained(request.as_mut());
    let polled = Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it was answered at once");
    tokio::spawn(request)
}
