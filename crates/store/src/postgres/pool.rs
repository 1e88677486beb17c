//! The connections of one node: a bounded number, lent out, taken back when they are known to be at rest, and thrown
//! away when they cannot be brought there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join3;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::{Client, Error, Row};

use super::connect::{Link, Maker, Refused};
use super::failure::{self, Fate};
use super::options::PostgresOptions;
use super::values::Parameter;
use crate::OpenError;

/// How long a connection that was left in the middle of something may take to come to rest.
const REST_WAIT: Duration = Duration::from_secs(5);

/// How long a connection may take to show that it still answers, after another did not.
const PROOF_WAIT: Duration = Duration::from_secs(1);

/// Between two tries to connect to a server that has no room for one more.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// What a call must say where the role's or the database's settings are others.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp";

/// Who asks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// A lane: one is always kept for each.
    Lane,
    /// Everybody else.
    Others,
}

/// The connections of one store.
#[derive(Debug)]
pub(super) struct Connections {
    maker: Maker,
    wait: Duration,
    lanes: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// At rest; the last one used comes first, so that its server process has its plans at hand.
    // A std mutex: held to push or pop, never over an await.
    idle: Mutex<Vec<Link>>,
    /// How often a connection has not answered: those at rest must then show that they do.
    doubts: AtomicU64,
}

/// A connection that is lent. Dropped before [`Connection::done`] it is brought to rest in the background, and takes up
/// its room in the pool until then.
#[derive(Debug)]
pub(super) struct Connection {
    pool: Arc<Connections>,
    /// None: given up.
    link: Option<Link>,
    left: Left,
    /// What was taken for it, to be given back with it.
    permits: Vec<OwnedSemaphorePermit>,
}

/// What there is to do when it is left where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The last answer is to be heard.
    Call,
    /// And a transaction is to be rolled back.
    Transaction,
    /// And the session may be waiting for a row: it is told not to.
    RowWait,
}

impl Connections {
    pub(super) fn new(options: &PostgresOptions) -> Result<Arc<Self>, OpenError> {
        let lanes = options.lanes.max(1);
        Ok(Arc::new(Self {
            maker: Maker::new(options)?,
            wait: options.connection_wait,
            lanes: Arc::new(Semaphore::new(lanes)),
            others: Arc::new(Semaphore::new(options.connections.saturating_sub(lanes).max(2))),
            idle: Mutex::new(Vec::new()),
            doubts: AtomicU64::new(0),
        }))
    }

    /// A session beside the pool; what its server tells unasked goes to `news`, as far as there is room.
    pub(super) async fn listener(&self, news: mpsc::Sender<String>) -> Result<Link, String> {
        if self.others.is_closed() {
            return Err("the store is closed".to_owned());
        }
        self.maker.make(self.wait, Some(&news)).await.map_err(|refused| refused.detail)
    }

    /// The newest life of the store that was seen.
    pub(super) fn newest_life(&self) -> i64 {
        self.maker.newest_life()
    }

    /// The schema is there.
    pub(super) fn opened(&self) {
        self.maker.opened();
    }

    /// A connection, at rest or new, within the bound for it.
    ///
    /// # Errors
    /// Why there is none; nothing was sent.
    pub(super) async fn get(self: &Arc<Self>, share: Share) -> Result<Connection, String> {
        let deadline = Instant::now() + self.wait;
        let semaphore = match share {
            Share::Lane => &self.lanes,
            Share::Others => &self.others,
        };
        let permit = match timeout_at(deadline, semaphore.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err("the store is closed".to_owned()),
            Err(_) => return Err(format!("all connections were in use for {:?}", self.wait)),
        };
        let link = self.link(deadline).await.map_err(|refused| refused.detail)?;
        Ok(Connection { pool: self.clone(), link: Some(link), left: Left::Call, permits: vec![permit] })
    }

    async fn link(&self, deadline: Instant) -> Result<Link, Refused> {
        loop {
            while let Some(mut link) = self.pop() {
                if self.will_do(&mut link, deadline).await {
                    return Ok(link);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let doubts = self.doubts.load(Ordering::Acquire);
            match self.maker.make(left, None).await {
                Ok(mut link) => {
                    link.doubts = doubts;
                    return Ok(link);
                }
                // One of this node's own may come to rest meanwhile.
                Err(refused) if refused.full && left > FULL_PAUSE => sleep(FULL_PAUSE).await,
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Whether a connection at rest can be used: it is open, of no former life, and answers if there is doubt.
    async fn will_do(&self, link: &mut Link, deadline: Instant) -> bool {
        if !link.is_quiet() || link.was_cut_short() || link.life < self.maker.newest_life() {
            return false;
        }
        let doubts = self.doubts.load(Ordering::Acquire);
        if link.doubts == doubts {
            return true;
        }
        let until = deadline.min(Instant::now() + PROOF_WAIT);
        if matches!(timeout_at(until, link.client.batch_execute("")).await, Ok(Ok(()))) {
            link.doubts = doubts;
            return true;
        }
        // The others lay beside it all the while. A new one shows whether there is a server.
        self.idle().retain(|other| other.doubts == doubts);
        false
    }

    fn pop(&self) -> Option<Link> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, link: Link) {
        let mut idle = self.idle();
        if !link.client.is_closed() && !link.was_cut_short() && !self.others.is_closed() {
            idle.push(link);
        }
    }

    /// Closes what is at rest, and the rest when it comes back.
    pub(super) fn close(&self) {
        self.lanes.close();
        self.others.close();
        self.idle().clear();
    }
}

impl Connection {
    pub(super) fn client(&self) -> &Client {
        &self.link().client
    }

    fn link(&self) -> &Link {
        // Emptied by what takes the connection itself only.
        self.link.as_ref().unwrap_or_else(|| unreachable!("a connection that is lent has its link"))
    }

    /// Gives a permit back together with the connection.
    pub(super) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permits.push(permit);
    }

    /// From here on a transaction is open, in which nothing has been sent to be committed.
    pub(super) fn in_transaction(&mut self) {
        self.left = Left::Transaction;
    }

    /// From here on COMMIT may be under way.
    pub(super) fn committing(&mut self) {
        self.left = Left::Call;
    }

    /// From here on it may be waiting for a row; as [`Self::in_transaction`].
    pub(super) fn waits_for_rows(&mut self) {
        self.left = Left::RowWait;
    }

    /// Whether the session is over, while nothing is under way; then nothing that is sent arrives.
    pub(super) fn is_over(&self) -> bool {
        !self.link().is_quiet()
    }

    /// Runs one call in a transaction of its own.
    pub(super) async fn call(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        let client = self.client();
        if !self.link().particular {
            return client.query_typed(sql, parameters).await;
        }
        let call = client.query_typed(sql, parameters);
        // Sent at once. COMMIT after a call that failed takes it back.
        let (begun, rows, ended) = join3(client.batch_execute(BEGIN), call, client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }

    /// Runs one call that changes something.
    pub(super) async fn change(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fate> {
        let rows = self.call(sql, parameters).await.map_err(|error| failure::fate(&error))?;
        self.proven()?;
        Ok(rows)
    }

    /// Whether what was answered as committed may be told so.
    pub(super) fn proven(&self) -> Result<(), Fate> {
        match self.link().was_cut_short() {
            true => Err(Fate::Unknown("its wait for the synchronous standby was cancelled".to_owned())),
            false => Ok(()),
        }
    }

    /// The last answer was heard, and no transaction is open: others may use it.
    pub(super) fn done(mut self) {
        if let Some(link) = self.link.take() {
            self.pool.give_back(link);
        }
    }

    /// It did not answer in time. It is closed at once, and those at rest have to show that they still answer.
    pub(super) fn give_up(mut self) {
        self.pool.doubts.fetch_add(1, Ordering::AcqRel);
        self.link = None;
    }

    /// As [`Self::give_up`], for what may be ended at any time: a read. Never for a commit, which may be waiting for a
    /// synchronous standby.
    pub(super) fn give_up_reading(mut self) {
        self.pool.doubts.fetch_add(1, Ordering::AcqRel);
        let Some(link) = self.link.take() else { return };
        let pool = self.pool.clone();
        // It has no room in the pool any more: what does not answer must not fill it.
        tokio::spawn(async move { pool.maker.cancel(&link).await });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(link) = self.link.take() else { return };
        // Without a runtime nobody could wait for the answer: it is closed, which ends everything too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if link.client.is_closed() {
            return;
        }
        let (pool, left, permits) = (self.pool.clone(), self.left, std::mem::take(&mut self.permits));
        runtime.spawn(async move {
            if left == Left::RowWait {
                pool.maker.cancel(&link).await;
            }
            let rest = if left == Left::Call { "" } else { "ROLLBACK" };
            // Answered after everything that was sent before.
            if let Ok(Ok(())) = timeout(REST_WAIT, link.client.batch_execute(rest)).await {
                pool.give_back(link);
            }
            drop(permits);
        });
    }
}
