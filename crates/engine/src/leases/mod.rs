//! Leases that this node holds for its commands: one for each lock, shared by all that need it at the time.
//!
//! A command that needs a lease leaves the combiner and waits in its lock's line, holding nothing: no slot, connection or
//! row lock. Each line has one task, which gets the lease, hands it to all that wait ([`line`]), and gives it back when
//! they are answered; or after a while, so that other nodes have their turn. A lease is advice: each write carries its
//! fence, and the condition on the version.

mod held;
mod line;
mod several;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_locks::{Acquire, AcquireError, Lease, Locks, Unavailable};
use lockkeeper_model::definition::OnLockLoss;
use lockkeeper_model::{InstanceKey, Refusal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use self::held::Share;
use self::held::{Held, Pace};
pub(crate) use self::several::{Leased, NotLeased};
use crate::contention::{Contention, Now};
use crate::engine::Inner;
use crate::limits::{LEASE_WAIT_MAX, LOCKS_GONE, LOCKS_PING};
use crate::pending::Pending;

/// The lines of a node, by their locks' names.
pub(crate) struct Leases {
    locks: Locks,
    // Std mutexes: held for some arithmetic, never across an await.
    lines: Mutex<HashMap<Arc<str>, Line>>,
    gone: Mutex<Option<Gone>>,
    /// When the lock service last answered a question. Held while it is asked.
    answered: tokio::sync::Mutex<Option<Instant>>,
    pace: Pace,
}

/// Those who wait for one lock. It is there exactly as long as its task.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Pending>,
    /// The lease, while it is shared with whoever comes.
    open: Option<Arc<Held>>,
    came: Arc<Notify>,
}

/// The lock service did not answer.
#[derive(Clone, Debug)]
struct Gone {
    until: Instant,
    detail: String,
}

impl Leases {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            lines: Mutex::default(),
            gone: Mutex::default(),
            answered: tokio::sync::Mutex::default(),
            pace: Pace::default(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease on `resource`, if this node has it and may share it further.
    pub(crate) fn share(&self, resource: &str) -> Option<Share> {
        let lines = self.lines();
        let open = lines.get(resource)?.open.as_ref()?;
        open.is_open().then(|| Share::of(open))
    }

    /// Why no lease can be had now, if the lock service did not answer a moment ago.
    pub(crate) fn gone(&self) -> Option<String> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.as_ref().filter(|gone| Instant::now() < gone.until).map(|gone| gone.detail.clone())
    }

    fn note_gone(&self, detail: &str) {
        let gone = Gone { until: Instant::now() + LOCKS_GONE, detail: detail.to_owned() };
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some(gone);
    }

    /// Lets a command wait for the lease on `resource`. It comes back to its instance with it, or is answered.
    pub(crate) fn wait(&self, inner: &Arc<Inner>, resource: &str, mut pending: Pending) {
        pending.waiting_for_lease.get_or_insert_with(Instant::now);
        let mut lines = self.lines();
        if let Some(line) = lines.get_mut(resource) {
            line.waiting.push_back(pending);
            line.came.notify_one();
            return;
        }
        let resource: Arc<str> = resource.into();
        let line = Line { waiting: VecDeque::from([pending]), ..Line::default() };
        let came = line.came.clone();
        lines.insert(resource.clone(), line);
        drop(lines);
        inner.tasks.spawn(line::serve(inner.clone(), resource, came));
    }

    /// Waits for a lease for as long as the lock service lives: who only waits cannot tell its silence from a lock that is
    /// held.
    async fn unless_gone<T>(&self, asking: impl Future<Output = Result<T, AcquireError>>) -> Result<T, AcquireError> {
        tokio::select! {
            biased;
            granted = asking => granted,
            detail = self.silence() => Err(AcquireError::Unavailable(detail)),
        }
    }

    /// Returns when the lock service does not answer, looking now and then. All that wait look together.
    async fn silence(&self) -> String {
        loop {
            sleep(LOCKS_PING.0).await;
            let mut answered = self.answered.lock().await;
            if let Some(detail) = self.gone() {
                return detail;
            }
            if answered.is_some_and(|at| at.elapsed() < LOCKS_PING.0) {
                continue;
            }
            let detail = match timeout(LOCKS_PING.1, self.locks.service().ping()).await {
                Ok(Ok(())) => {
                    *answered = Some(Instant::now());
                    continue;
                }
                Ok(Err(Unavailable(detail))) => detail,
                Err(_elapsed) => format!("no answer within {:?}", LOCKS_PING.1),
            };
            // Noted before the next one looks: a dead server is not to be waited for by one after another.
            self.note_gone(&detail);
            return detail;
        }
    }

    /// Asks for a lease; how long that took, and whether somebody else seems to have been in the way.
    async fn acquire(&self, resource: &str, ttl: Duration) -> Result<Granted, AcquireError> {
        let begun = Instant::now();
        let lease =
            self.unless_gone(self.locks.acquire(resource, Acquire::new().ttl(ttl).wait(LEASE_WAIT_MAX))).await?;
        let waited = begun.elapsed();
        Ok(Granted { lease, waited, contended: self.pace.is_slow(waited) })
    }
}

/// A lease that was got.
struct Granted {
    lease: Lease,
    waited: Duration,
    contended: bool,
}

/// What a command does whose lock service is gone: its refusal, or none, and then it goes under the row lock.
pub(crate) fn without_locks(
    pending: &mut Pending,
    why: &str,
    contention: &Contention<InstanceKey>,
    now: Now,
) -> Option<Refusal> {
    pending.lease = None;
    pending.waiting_for_lease = None;
    if let Some(switch) = contention.lose_locks(&pending.command.instance, now) {
        tracing::info!(key = %switch.key, "{switch}");
    }
    match pending.concurrency.on_lock_loss {
        OnLockLoss::RowLock => {
            pending.locks_gone = true;
            None
        }
        OnLockLoss::Refuse => Some(Refusal::Unavailable {
            detail: format!("{why}, and the definition asks for a lease (`on_lock_loss: refuse`); nothing was written"),
        }),
    }
}
