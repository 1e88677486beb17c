//! How a connection is made: host by host, until one is found that will do.

use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{LoadBalanceHosts, SslMode};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::cancel::{self, Peer, by_name};
use super::check;
use super::failure;
use super::options::PostgresOptions;
use super::schema::quoted;
use super::socket::{self, Address, Peephole};
use super::tls;
use crate::OpenError;

/// A session with the server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    /// See [`check::Passed::particular`].
    pub(super) particular: bool,
    /// The life of the store that it was made in; 0: there was none yet.
    pub(super) life: i64,
    /// Up to which of the pool's doubts it was found to answer.
    pub(super) doubts: u64,
    /// A commit of its own did not wait for the synchronous standby to the end.
    cut_short: Arc<AtomicBool>,
    peephole: Peephole,
    peer: Peer,
    task: JoinHandle<()>,
}

/// Where a session passes on what its server notifies it of.
pub(super) type News = mpsc::Sender<String>;

/// No connection could be made.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) detail: String,
    /// The server has no room for one more: there may be when another ends.
    pub(super) full: bool,
}

/// Makes connections.
pub(super) struct Maker {
    hosts: Vec<Address>,
    config: Config,
    tls: Option<MakeRustlsConnect>,
    ask_life: String,
    /// The host that was found to do last.
    last: AtomicUsize,
    system: OnceLock<i64>,
    newest_life: AtomicI64,
    /// Whether the schema is there, and can be asked for its life.
    opened: AtomicBool,
}

impl Maker {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, OpenError> {
        let tls = options.config.get_ssl_mode() != SslMode::Disable;
        Ok(Self {
            hosts: Address::all(&options.config),
            config: options.config.clone(),
            tls: tls.then(|| tls::connector(options)).transpose()?,
            ask_life: format!("SELECT {}.life()", quoted(&options.schema)),
            last: AtomicUsize::new(first(&options.config)),
            system: OnceLock::new(),
            newest_life: AtomicI64::new(0),
            opened: AtomicBool::new(false),
        })
    }

    /// The schema is there.
    pub(super) fn opened(&self) {
        self.opened.store(true, Ordering::Release);
    }

    /// The newest life of the store that was seen.
    pub(super) fn newest_life(&self) -> i64 {
        self.newest_life.load(Ordering::Acquire)
    }

    /// Connects to the host that did last, else to the others in their order; each has an equal part of the time, so
    /// that one that is silent does not use up that of the next. What the server notifies of goes to `news`.
    pub(super) async fn make(&self, bound: Duration, news: Option<&News>) -> Result<Link, Refused> {
        let count = self.hosts.len();
        let each = bound / u32::try_from(count).unwrap_or(u32::MAX);
        let last = self.last.load(Ordering::Relaxed);
        let order = std::iter::once(last).chain((0..count).filter(|place| *place != last));
        let (mut why, mut full) = (Vec::new(), false);
        for place in order {
            let Some(host) = self.hosts.get(place) else { continue };
            let refused = match timeout(each, self.connect(host, each, news)).await {
                Ok(Ok(link)) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(link);
                }
                Ok(Err(refused)) => refused,
                Err(_) => Refused::because(format!("no answer within {each:?}")),
            };
            full |= refused.full;
            why.push(if count > 1 { format!("{}: {}", host.describe(), refused.detail) } else { refused.detail });
        }
        Err(Refused { detail: why.join("; "), full })
    }

    async fn connect(&self, host: &Address, bound: Duration, news: Option<&News>) -> Result<Link, Refused> {
        let unreachable = |error: std::io::Error| Refused::because(format!("it cannot be reached: {error}"));
        let mut link = match host {
            Address::Tcp { host, port, name } => {
                let (stream, address) = socket::tcp(&self.config, host, *port, bound).await.map_err(unreachable)?;
                let peephole = Peephole::of(&stream).map_err(unreachable)?;
                let peer = Peer::Tcp(address, name.clone());
                match &self.tls {
                    Some(tls) => {
                        let tls = by_name(tls, name).map_err(Refused::because)?;
                        begin(&self.config, stream, tls, peephole, peer, news).await?
                    }
                    None => begin(&self.config, stream, NoTls, peephole, peer, news).await?,
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                let peephole = Peephole::of(&stream).map_err(unreachable)?;
                // There is nobody in between: libpq does not ask for TLS here either, whatever `sslmode` says.
                let mut config = self.config.clone();
                config.ssl_mode(SslMode::Disable);
                begin(&config, stream, NoTls, peephole, Peer::Unix(path.clone()), news).await?
            }
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(Refused::because("there are no such sockets here".to_owned())),
        };
        let passed = check::session(&link.client).await.map_err(Refused::because)?;
        link.particular = passed.particular;
        if *self.system.get_or_init(|| passed.system) != passed.system {
            let why = "another database cluster answers than when this node was started: restart the node if that is \
                       meant";
            return Err(Refused::because(why.to_owned()));
        }
        if self.opened.load(Ordering::Acquire) {
            link.life = self.life(&link.client).await?;
        }
        Ok(link)
    }

    /// Refuses a server whose history has been continued elsewhere, as far as this node has seen.
    async fn life(&self, client: &Client) -> Result<i64, Refused> {
        let told = client.query_typed(&self.ask_life, &[]).await;
        let told = told.and_then(|rows| rows.first().map_or(Ok(0), |row| row.try_get(0)));
        let life = told.map_err(|error| Refused::because(failure::explain(&error)))?;
        let newest = self.newest_life.fetch_max(life, Ordering::AcqRel);
        if life < newest {
            let why = format!("a former primary answers (life {life} of the store; this node has seen {newest})");
            return Err(Refused::because(why));
        }
        if newest != 0 && life > newest {
            tracing::warn!(before = newest, now = life, "the store has begun another life");
        }
        Ok(life)
    }

    /// Asks the server to end what a session is at, and waits until it has told it.
    pub(super) async fn cancel(&self, link: &Link) {
        cancel::ask(link.client.cancel_token(), link.peer.clone(), self.tls.clone()).await;
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Refused {
    fn because(detail: String) -> Self {
        Self { detail, full: false }
    }
}

impl Link {
    /// Whether a session at rest is still there, as far as can be seen without asking.
    pub(super) fn is_quiet(&self) -> bool {
        !self.client.is_closed() && self.peephole.is_quiet()
    }

    /// The process at the other end, by what it said when the session began; none: it said nothing of use. Behind a pooler
    /// that is another than the one that answers.
    pub(super) async fn process(&self) -> Option<i32> {
        cancel::process(&self.client.cancel_token()).await
    }

    /// Whether a commit of this session was told to be done before the synchronous standby had it: somebody cancelled
    /// its wait, which the server says in a warning only.
    pub(super) fn was_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Acquire)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closes the connection, which ends the session.
        self.task.abort();
    }
}

/// Makes a session over a socket.
async fn begin<S, T>(
    config: &Config,
    stream: S,
    tls: T,
    peephole: Peephole,
    peer: Peer,
    news: Option<&News>,
) -> Result<Link, Refused>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsConnect<S>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect_raw(stream, tls).await.map_err(|error| Refused {
        detail: failure::explain(&error),
        full: error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
    })?;
    let cut_short = Arc::new(AtomicBool::new(false));
    let (seen, news) = (cut_short.clone(), news.cloned());
    let task = tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // Read before the answer that follows it.
                Some(Ok(AsyncMessage::Notice(notice))) if cuts_short(&notice) => {
                    tracing::error!(warning = notice.message(), "a commit may be missing on the synchronous standby");
                    seen.store(true, Ordering::Release);
                }
                Some(Ok(AsyncMessage::Notification(told))) => {
                    // Full: whoever is to hear of it is slow, and asks again anyway.
                    let _lost = news.as_ref().map(|news| news.try_send(told.payload().to_owned()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(error = failure::explain(&error), "a connection to the database has ended");
                    return;
                }
                None => return,
            }
        }
    });
    Ok(Link { client, particular: false, life: 0, doubts: 0, cut_short, peephole, peer, task })
}

/// By the place in the server's source: the text is in the server's language.
fn cuts_short(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// The host to begin with.
fn first(config: &Config) -> usize {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
    match config.get_load_balance_hosts() {
        LoadBalanceHosts::Random => RandomState::new().hash_one(()) as usize % count,
        _ => 0,
    }
}
