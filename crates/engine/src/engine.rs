//! The front hall: the handle that every door calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_locks::Locks;
use lockkeeper_model::{Act, Action, Command, InstanceKey, Refusal, Success, WorkflowName};
use lockkeeper_store::Store;
use lockkeeper_store::limits::{ENDED_LEASES_KEPT, FENCES_KEPT};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::{InstanceCache, Remembered};
use crate::clock::{Clock, SystemClock};
use crate::codec;
use crate::combiner::{Combiner, Driver, Work};
use crate::contention::hot_key::HotKeys;
use crate::contention::{Contention, Now};
use crate::definitions::{DefinitionText, Definitions, PutDefinition};
use crate::feed::FeedHub;
use crate::leases::Leases;
use crate::limits::{
    ACTIVE_KEYS_MAX, CACHE_BYTES_MAX, DEADLINE_MAX, KEY_LIFE, LEASES_GIVEN_BACK, LOOK_PAUSE_MAX, PURGE,
    QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX, SHUTDOWN_MAX,
};
use crate::memory;
use crate::pending::{Budget, Pending};
use crate::retention::{self, Retention};
use crate::strategy::Attempt;
use crate::timers::{self, TimerFigures, Timers};
use crate::watchers::Watchers;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of instances kept in memory.
    pub cache_bytes_max: u64,
    /// Commands that may wait, over all instances.
    pub queue_commands_max: usize,
    /// Bytes of their data.
    pub queue_bytes_max: usize,
    /// How long an idempotency key is kept.
    pub key_life: Duration,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// How long it may take until this node looks at timers of another node, which has died; none: it fires no timers,
    /// and leaves them to other nodes.
    pub timers_poll: Option<Duration>,
    /// Where leases come from; none: whatever asks for one goes by its `on_lock_loss`.
    pub locks: Option<Locks>,
    /// How long things are kept, where a workflow's definition does not say.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes_max: CACHE_BYTES_MAX,
            queue_commands_max: QUEUE_COMMANDS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            key_life: KEY_LIFE,
            clock: Arc::new(SystemClock),
            timers_poll: Some(LOOK_PAUSE_MAX),
            locks: None,
            retention: Retention::default(),
        }
    }
}

/// The typed answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What came of it.
    pub result: Result<Success, Refusal>,
    /// The command had taken effect earlier, under the same idempotency key; this is its first outcome.
    pub replayed: bool,
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { result: Err(refusal), replayed: false }
    }
}

/// The engine of one node. Clones share it.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) definitions: Definitions,
    pub(crate) cache: InstanceCache,
    pub(crate) combiner: Arc<Combiner>,
    pub(crate) watchers: Watchers,
    pub(crate) feed: Arc<FeedHub>,
    pub(crate) contention: Contention<InstanceKey>,
    pub(crate) hot_keys: HotKeys,
    pub(crate) leases: Option<Leases>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) timers: Arc<Timers>,
    active: Semaphore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) tasks: TaskTracker,
    /// What was forgotten since this node began. A std mutex: held to add or read.
    pub(crate) purged: Mutex<retention::Purged>,
    closing: AtomicBool,
    pub(crate) stopped: CancellationToken,
}

impl Engine {
    /// An engine on `store`. Must be called within a tokio runtime.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        let feed = Arc::new(FeedHub::default());
        let inner = Arc::new(Inner {
            definitions: Definitions::new(store.clone()),
            cache: InstanceCache::new(options.cache_bytes_max),
            combiner: Arc::new(Combiner::new()),
            watchers: Watchers::new(feed.clone()),
            feed,
            contention: Contention::new(),
            hot_keys: HotKeys::new(),
            leases: options.locks.clone().map(Leases::new),
            budget: Arc::new(Budget::new(options.queue_commands_max, options.queue_bytes_max)),
            timers: Arc::default(),
            active: Semaphore::new(ACTIVE_KEYS_MAX),
            clock: options.clock.clone(),
            options,
            tasks: TaskTracker::new(),
            purged: Mutex::default(),
            closing: AtomicBool::new(false),
            stopped: CancellationToken::new(),
            store,
        });
        if let Some(poll) = inner.options.timers_poll {
            inner.tasks.spawn(timers::run(Arc::downgrade(&inner), inner.timers.clone(), poll, inner.stopped.clone()));
        }
        inner.tasks.spawn(purge(inner.store.clone(), inner.clock.clone(), inner.stopped.clone()));
        inner.tasks.spawn(retention::run(Arc::downgrade(&inner), inner.stopped.clone()));
        Self { inner }
    }

    /// Sends one command to one instance and waits for its answer, at most `wait` (and at most [`DEADLINE_MAX`]).
    ///
    /// Dropping the future takes the command back, unless its commit is already under way; then it may take effect,
    /// and its idempotency key tells.
    pub async fn send(&self, command: Command, wait: Option<Duration>) -> Answer {
        if let Err(refusal) = self.inner.accepts().and_then(|()| codec::check_key(&command)) {
            return refusal.into();
        }
        let permit = match self.inner.budget.enter(data_bytes(&command)) {
            Ok(permit) => permit,
            Err(refusal) => return refusal.into(),
        };
        let deadline = deadline(wait);
        let (pending, waiter) = Pending::new(command, deadline, permit);
        self.inner.run(self.inner.combiner.push(pending));
        waiter.wait(deadline).await
    }

    /// Checks and keeps a definition.
    ///
    /// # Errors
    /// `invalid_definition` with every problem; `unavailable`; `unknown` (putting it again is safe).
    pub async fn put_definition(&self, workflow: &WorkflowName, put: DefinitionText) -> Result<PutDefinition, Refusal> {
        self.inner.accepts()?;
        self.inner.definitions.put(workflow, put, &*self.inner.clock).await
    }

    /// Whether the store can take a write now.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self) -> Result<(), Refusal> {
        self.inner.accepts()?;
        self.inner.store.ping().await.map_err(|error| Refusal::Unavailable { detail: error.to_string() })
    }

    /// What the engine decides the time by.
    pub fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// What timers have come to on this node.
    pub fn timer_figures(&self) -> TimerFigures {
        self.inner.timers.figures()
    }

    /// Commands that wait, or are being committed, now.
    pub fn waiting(&self) -> usize {
        self.inner.budget.waiting()
    }

    /// Refuses new commands, finishes those accepted (bounded by their deadlines), gives its leases back, and closes the
    /// store. The lock service stays open.
    pub async fn shutdown(&self) {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.stopped.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(SHUTDOWN_MAX, self.inner.tasks.wait()).await.is_err() {
            tracing::warn!(waiting = self.waiting(), "some commands were still under way at the end of the shutdown");
        }
        // Others wait for what is not given back until its time to live is over.
        if let Some(locks) = &self.inner.options.locks
            && tokio::time::timeout(LEASES_GIVEN_BACK, locks.settled()).await.is_err()
        {
            tracing::warn!(leases = locks.kept(), "some leases were not given back; they end by themselves");
        }
        self.inner.store.close().await;
    }
}

impl Inner {
    pub(crate) fn accepts(&self) -> Result<(), Refusal> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Refusal::Unavailable { detail: "this node is shutting down; nothing was written".to_owned() });
        }
        Ok(())
    }

    /// This moment, for contention control.
    pub(crate) fn moment(&self) -> Now {
        Now { elapsed: self.clock.elapsed(), wall: self.clock.now() }
    }

    /// What this node remembers of an instance, if the store is still in the life that it was in.
    pub(crate) fn remembered(&self, key: &InstanceKey) -> Option<Remembered> {
        self.cache.get(key).filter(|remembered| self.definitions.life() == Some(remembered.life))
    }

    /// Starts serving a key, if it is not being served.
    pub(crate) fn run(self: &Arc<Self>, driver: Option<Driver>) {
        if let Some(driver) = driver {
            let inner = self.clone();
            self.tasks.spawn(drive(inner, driver));
        }
    }

    /// Watches for an instance that keeps its whole workflow waiting: so many commands, of which so many had to wait.
    pub(crate) fn observe(&self, key: &InstanceKey, commands: usize, waited: usize) {
        let count = |commands: usize| u32::try_from(commands).unwrap_or(u32::MAX);
        let workflow = key.workflow.as_str();
        let warning = self.hot_keys.observe(workflow, key, count(commands), count(waited), self.moment());
        if let Some(warning) = warning {
            tracing::warn!("{}", warning.text);
        }
    }

    /// Queues a command again after a pause; nothing is held meanwhile.
    pub(crate) fn retry_later(self: &Arc<Self>, pending: Pending, pause: Duration) {
        let inner = self.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause.min(pending.deadline.saturating_duration_since(Instant::now()))).await;
            inner.run(inner.combiner.push_front(pending));
        });
    }
}

/// Serves one key until nobody waits there.
async fn drive(inner: Arc<Inner>, mut driver: Driver) {
    let key = driver.key().clone();
    while let Some(work) = driver.next() {
        match work {
            Work::Batch(batch) => {
                // Whoever shares a batch waited for the one before; alone in it, a command found the key free.
                inner.observe(&key, batch.len(), if batch.len() > 1 { batch.len() } else { 0 });
                // Never closed, so a permit always comes; those who wait for it have their own deadlines.
                let active = inner.active.acquire().await;
                Attempt::new(&inner, &key, &mut driver).run(batch).await;
                drop(active);
                // Those who were just answered may have more to send: let them, so that it shares the next commit.
                tokio::task::yield_now().await;
            }
            // The holder is bounded by its own deadline, and its guard is dropped even if it dies.
            Work::Exclusive(until_done) => {
                let _dropped = until_done.await;
            }
        }
    }
}

/// Forgets expired idempotency keys, leases that ended long ago, and fences that nobody can be late with any more, a
/// bounded number at a time.
async fn purge(store: Arc<dyn Store>, clock: Arc<dyn Clock>, stopped: CancellationToken) {
    let (every, limit) = PURGE;
    while stopped.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        for what in [Purged::Keys, Purged::Leases, Purged::Fences] {
            purge_all(what, &*store, &*clock, (limit, &stopped)).await;
        }
    }
}

/// What is forgotten when it is old.
#[derive(Clone, Copy, Debug)]
enum Purged {
    Keys,
    Leases,
    Fences,
}

async fn purge_all(what: Purged, store: &dyn Store, clock: &dyn Clock, (limit, stopped): (usize, &CancellationToken)) {
    loop {
        let purged = match what {
            Purged::Keys => store.purge_keys(clock.now(), limit).await,
            Purged::Leases => store.purge_leases(clock.now() - ENDED_LEASES_KEPT, limit).await,
            Purged::Fences => store.purge_fences(clock.now() - FENCES_KEPT, limit).await,
        };
        match purged {
            Ok(purged) if purged >= limit && !stopped.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => return tracing::warn!(%error, ?what, "cannot forget what is old; trying again later"),
        }
    }
}

pub(crate) fn deadline(wait: Option<Duration>) -> Instant {
    Instant::now() + wait.unwrap_or(DEADLINE_MAX).min(DEADLINE_MAX)
}

/// About how many bytes a command holds while it waits.
pub(crate) fn data_bytes(command: &Command) -> usize {
    /// The command itself, its channel and its place in the queue.
    const OVERHEAD_BYTES: usize = 1_024;
    /// A fence beside its name.
    const FENCE_BYTES: usize = 64;
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let roles: usize = command.actor.roles.iter().map(String::len).sum();
    let action = match &command.action {
        Action::Start(start) => memory::of_data(&start.data) + text(&start.request_id),
        Action::Send(send) => {
            let fences: usize = send.fences.keys().map(|resource| resource.len() + FENCE_BYTES).sum();
            let act = match &send.act {
                Some(Act::Delegate { to: id } | Act::AddApprover { id }) => id.len(),
                Some(Act::Recall) | None => 0,
            };
            text(&send.event) + text(&send.to) + text(&send.from) + memory::of_data(&send.data) + fences + act
        }
        Action::Terminate(close) | Action::Cancel(close) => close.reason.len(),
        Action::Migrate(migrate) => {
            let map: usize = migrate.state_map.iter().map(|(from, to)| from.len() + to.len() + FENCE_BYTES).sum();
            migrate.reason.len() + map
        }
        Action::Fire(_) => 0,
    };
    OVERHEAD_BYTES + roles + action
}
