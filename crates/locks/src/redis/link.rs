//! The connection to the server: one at a time, made anew when it is lost.
//!
//! What is first said on each connection is [`Link::meet`]: it finds out whether the server still lives the life that was
//! known, so that nothing is asked of one that has forgotten leases as if it had not. That is why this is not
//! `redis::aio::ConnectionManager`, which reconnects where nobody sees it. Each script also names the life that it was
//! meant for, which covers what happens while a connection lasts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, PushInfo, PushKind, RedisError, Value};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::answer::{Meeting, Strange, met, woken};
use super::floor::Remembered;
use super::life::{self, Unfit};
use super::options::RedisOptions;
use super::script::{MEET, Script, WAKE_CHANNEL};
use crate::served::PLACE_MAX;
use crate::{LeaseId, Unavailable, Waiters};

/// How long a connection may take until it can be used: some round trips, and the store's answer about fences.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// How long an answer may take. Above the time that other work on a healthy server takes, below what a lease of some
/// seconds can wait for.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// After a failure nobody tries to connect for so long: those who ask meanwhile are told of that failure.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Requests that wait to be written to the socket. Beyond it those who ask wait, within their time.
const REQUESTS_MAX: usize = 1_024;

/// One server, however often it is connected to.
#[derive(Debug)]
pub(super) struct Link {
    options: RedisOptions,
    /// This node's name; others tell it who is to ask again.
    node: String,
    waiters: Arc<Waiters>,
    // Std mutexes: never over an await.
    current: Mutex<Option<Arc<Met>>>,
    /// The life that was last known, and when it was last heard of.
    known: Mutex<Option<(Life, Instant)>>,
    /// The longest time to live that any node was known to give, in milliseconds.
    longest: AtomicU64,
    /// Why the server gets no new leases, as it was last looked at.
    unfit: Arc<Mutex<Option<String>>>,
    /// Held by whoever connects; the last failure.
    connecting: tokio::sync::Mutex<Option<(Instant, Unmet)>>,
    /// Told when a connection is lost, or the server has become unfit: it is to be looked at sooner.
    pub(super) changed: Arc<Notify>,
    closed: AtomicBool,
}

/// The token of a life of a server: it ends when leases may have been forgotten.
type Life = Arc<str>;

/// A connection whose server has been met.
#[derive(Debug)]
struct Met {
    connection: MultiplexedConnection,
    life: Life,
    dead: Arc<AtomicBool>,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) enum Unmet {
    /// The server cannot be used with its settings.
    Unfit(String),
    /// It does not answer, or not yet.
    Unavailable(String),
    /// The floor of fences cannot be kept.
    Unkept(String),
}

impl From<Unmet> for Unavailable {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Unfit(detail) | Unmet::Unavailable(detail) | Unmet::Unkept(detail) => Self(detail),
        }
    }
}

impl From<RedisError> for Unmet {
    fn from(error: RedisError) -> Self {
        // Until somebody changes a password, or what its user may do.
        let refused = error.kind() == ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"));
        if refused { Self::Unfit(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

impl From<Strange> for Unmet {
    fn from(_: Strange) -> Self {
        Self::Unavailable(crate::served::STRANGE.to_owned())
    }
}

impl From<Unfit> for Unmet {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Settings(detail) => Self::Unfit(detail),
            Unfit::State(detail) => Self::Unavailable(detail),
        }
    }
}

impl Link {
    pub(super) fn new(options: RedisOptions, waiters: Arc<Waiters>) -> Self {
        Self {
            options,
            node: LeaseId::random().to_string(),
            waiters,
            current: Mutex::default(),
            known: Mutex::default(),
            longest: AtomicU64::default(),
            unfit: Arc::default(),
            connecting: tokio::sync::Mutex::default(),
            changed: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Connects if there is no connection.
    pub(super) async fn connect(&self) -> Result<(), Unmet> {
        self.met().await.map(drop)
    }

    /// Whether the server may be given new leases: it may have been set since it was met to throw some away.
    pub(super) async fn fit(&self) -> Result<(), Unavailable> {
        self.met().await?;
        self.unfit().map_or(Ok(()), |detail| Err(Unavailable(detail)))
    }

    pub(super) fn unfit(&self) -> Option<String> {
        lock(&self.unfit).clone()
    }

    /// Runs a script; `args` are those that follow the token of the life.
    pub(super) async fn call(&self, script: &Script, args: Vec<Vec<u8>>) -> Result<Value, Unavailable> {
        let mut args = [vec![Vec::new()], args].concat();
        // Once more where it met a life that it was not meant for: nothing was done then.
        let mut again = true;
        loop {
            let met = self.met().await?;
            args[0] = met.life.as_bytes().to_vec();
            let answer = timeout(ANSWER_MAX, script.run(&mut met.connection.clone(), &args)).await;
            match answer {
                Ok(Ok(value)) => {
                    self.remember(&met.life);
                    return Ok(value);
                }
                Ok(Err(error)) if error.code() == Some("LIFE") && again => again = false,
                Ok(Err(error)) => {
                    if ends_connection(&error) {
                        self.discard(&met);
                    }
                    return Err(Unavailable(error.to_string()));
                }
                Err(_) => {
                    self.discard(&met);
                    return Err(Unavailable(format!("no answer in {ANSWER_MAX:?}")));
                }
            }
            self.discard(&met);
        }
    }

    /// Whether leases can be had, asked of the server; sees to it that its settings and its life are still known.
    pub(super) async fn check(&self) -> Result<(), Unmet> {
        let met = self.met().await?;
        let outcome = timeout(CONNECT_MAX, self.meet(&mut met.connection.clone())).await;
        let failure = match outcome {
            Ok(Ok((life, closed))) if life == met.life => {
                self.remember(&life);
                // The connection stays: what is held there is renewed and released.
                if let Some(detail) = self.unfit() {
                    return Err(Unmet::Unfit(detail));
                }
                return if closed.is_zero() { Ok(()) } else { Err(Unmet::Unavailable(super::closed(closed))) };
            }
            Ok(Ok(_)) => Unmet::Unavailable("the server has begun another life".to_owned()),
            // Whatever happens to the store, leases are renewed; until it is back a lift covers the fences that are given.
            Ok(Err(unmet @ Unmet::Unkept(_))) => return Err(unmet),
            Ok(Err(unmet)) => unmet,
            Err(_) => Unmet::Unavailable(format!("no answer in {CONNECT_MAX:?}")),
        };
        self.discard(&met);
        Err(failure)
    }

    /// Lets go of the connection, and makes no other.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        lock(&self.current).take();
    }

    async fn met(&self) -> Result<Arc<Met>, Unmet> {
        if let Some(met) = self.current() {
            return Ok(met);
        }
        let begun = Instant::now();
        let mut failed = self.connecting.lock().await;
        if let Some(met) = self.current() {
            return Ok(met);
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Unmet::Unavailable("it is shut down".to_owned()));
        }
        // Whoever waited while another one tried shares what came of it, so that no wait is longer than two tries.
        if let Some((at, unmet)) = &*failed
            && (*at >= begun || at.elapsed() < RETRY_PAUSE)
        {
            return Err(unmet.clone());
        }
        let outcome = timeout(CONNECT_MAX, self.establish()).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Unmet::Unavailable(format!("no connection in {CONNECT_MAX:?}"))));
        *failed = outcome.as_ref().err().map(|unmet| (Instant::now(), unmet.clone()));
        outcome
    }

    async fn establish(&self) -> Result<Arc<Met>, Unmet> {
        let dead = Arc::new(AtomicBool::new(false));
        let client = Client::open(self.options.server.clone())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(ANSWER_MAX))
            .set_pipeline_buffer_size(REQUESTS_MAX)
            .set_push_sender(self.listener(dead.clone()));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let (life, closed) = self.meet(&mut connection).await?;
        connection.subscribe(format!("{WAKE_CHANNEL}{}", self.node)).await?;
        if !closed.is_zero() {
            tracing::warn!(server = self.options.describe(), "{}", super::closed(closed));
        }
        let met = Arc::new(Met { connection, life, dead });
        *lock(&self.current) = Some(met.clone());
        self.remember(&met.life);
        // News that came while there was no connection were missed.
        self.waiters.wake_all();
        Ok(met)
    }

    /// Learns which life of the server this is, and for how long nobody gets a lease in it; raises its floor of fences.
    async fn meet(&self, connection: &mut MultiplexedConnection) -> Result<(Life, Duration), Unmet> {
        let info: String = redis::cmd("INFO").query_async(connection).await?;
        let info = life::read(&info)?;
        if let (Some(detail), None) = (&info.unfit, &*lock(&self.known)) {
            // There is nothing yet that could be renewed.
            return Err(Unmet::Unfit(detail.clone()));
        }
        self.note(info.unfit);
        let remembered = kept(Remembered::read(&*self.options.floor)).await?;
        let known = self.known_lately();
        let lifted = remembered.lifted(!known.is_empty());
        let args = [
            info.run,
            info.replication,
            u8::from(info.promoted).to_string(),
            info.uptime.to_string(),
            self.options.max_ttl.as_millis().to_string(),
            PLACE_MAX.as_millis().to_string(),
            known,
            u8::from(remembered.used).to_string(),
            LeaseId::random().to_string(),
            remembered.floor.to_string(),
            lifted.to_string(),
        ];
        let meeting = met(MEET.run(connection, &args.map(String::into_bytes)).await?)?;
        let Meeting { token, closed, max_ttl, fence } = meeting;
        kept(remembered.keep(&*self.options.floor, fence)).await?;
        self.longest.fetch_max(u64::try_from(max_ttl.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
        Ok((token, closed))
    }

    /// Says once when the server may not be given leases any more, and once when it may again.
    fn note(&self, unfit: Option<String>) {
        let mut noted = lock(&self.unfit);
        if *noted == unfit {
            return;
        }
        let server = self.options.describe();
        match &unfit {
            Some(detail) => tracing::error!(server, "no new locks are granted: {detail}"),
            None => tracing::info!(server, "locks are granted again"),
        }
        *noted = unfit;
        self.changed.notify_one();
    }

    /// The token of the life that was known; empty if all leases of that time have run out.
    fn known_lately(&self) -> String {
        let longest = Duration::from_millis(self.longest.load(Ordering::SeqCst));
        let lately = |(_, heard): &&(Life, Instant)| heard.elapsed() < longest + ANSWER_MAX;
        let known = lock(&self.known);
        known.as_ref().filter(lately).map(|(life, _)| life.to_string()).unwrap_or_default()
    }

    fn remember(&self, life: &Life) {
        *lock(&self.known) = Some((life.clone(), Instant::now()));
    }

    fn current(&self) -> Option<Arc<Met>> {
        lock(&self.current).clone().filter(|met| !met.dead.load(Ordering::SeqCst))
    }

    /// Hears what the server says unasked: who is to ask again, or has been granted what it waits for. And what the
    /// library says: that the connection is lost.
    fn listener(
        &self,
        dead: Arc<AtomicBool>,
    ) -> impl Fn(PushInfo) -> Result<(), std::convert::Infallible> + Send + Sync + 'static {
        let (waiters, unfit, lost) = (self.waiters.clone(), self.unfit.clone(), self.changed.clone());
        move |push| {
            match (push.kind, push.data.as_slice()) {
                (PushKind::Message, [_channel, Value::BulkString(text)]) => {
                    // Of what is not from a node of ours nothing is believed.
                    if let Ok(mut woken) = woken(text) {
                        // Of a server that may throw leases away no new ones are taken: whoever asks is told why.
                        woken.granted = woken.granted.filter(|_| lock(&unfit).is_none());
                        waiters.tell(woken);
                    }
                }
                (PushKind::Disconnection, _) => {
                    dead.store(true, Ordering::SeqCst);
                    lost.notify_one();
                }
                _ => {}
            }
            Ok(())
        }
    }

    /// Those who still wait for answers on it keep it until then.
    fn discard(&self, met: &Arc<Met>) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, met)) {
            *current = None;
            self.changed.notify_one();
        }
    }
}

/// Whether nothing more is to be asked on the connection that this came from. A server that cannot do something says so
/// and can be asked again; one that has become a replica, or somebody else's, is to be met anew.
fn ends_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_unrecoverable_error()
        || matches!(error.code(), Some("LIFE" | "MASTERDOWN" | "LOADING" | "NOAUTH"))
        // Before version 7 the code of an error within a script was not its own.
        || error.to_string().contains("READONLY")
}

/// What is asked of the memory of the floor, in its time.
async fn kept<T>(asked: impl Future<Output = Result<T, Unavailable>>) -> Result<T, Unmet> {
    let answer = timeout(ANSWER_MAX, asked).await;
    let answer = answer.unwrap_or_else(|_| Err(Unavailable(format!("no answer in {ANSWER_MAX:?}"))));
    answer.map_err(|Unavailable(detail)| Unmet::Unkept(format!("the floor of fences cannot be kept: {detail}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
