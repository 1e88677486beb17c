//! How a connection is made: host by host, until one is found that will do.

use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::check;
use super::failure;
use super::options::PostgresOptions;
use super::schema::quoted;
use super::tls;
use crate::OpenError;

/// How long a request to end a call may take.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

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
    task: JoinHandle<()>,
}

/// No connection could be made.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) detail: String,
    /// The server has no room for one more: there may be when another ends.
    pub(super) full: bool,
}

/// Makes connections.
pub(super) struct Maker {
    hosts: Vec<(String, Config)>,
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
            hosts: hosts(&options.config),
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
    /// that one that is silent does not use up that of the next.
    pub(super) async fn make(&self, bound: Duration) -> Result<Link, Refused> {
        let count = self.hosts.len();
        let each = bound / u32::try_from(count).unwrap_or(u32::MAX);
        let last = self.last.load(Ordering::Relaxed);
        let order = std::iter::once(last).chain((0..count).filter(|place| *place != last));
        let (mut why, mut full) = (Vec::new(), false);
        for place in order {
            let Some((name, config)) = self.hosts.get(place) else { continue };
            let refused = match timeout(each, self.connect(config)).await {
                Ok(Ok(link)) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(link);
                }
                Ok(Err(refused)) => refused,
                Err(_) => Refused::because(format!("no answer within {each:?}")),
            };
            full |= refused.full;
            why.push(if count > 1 { format!("{name}: {}", refused.detail) } else { refused.detail });
        }
        Err(Refused { detail: why.join("; "), full })
    }

    async fn connect(&self, config: &Config) -> Result<Link, Refused> {
        let cut_short = Arc::new(AtomicBool::new(false));
        let (client, task) = match &self.tls {
            Some(tls) => connect(config, tls.clone(), &cut_short).await?,
            None => connect(config, NoTls, &cut_short).await?,
        };
        // Made at once: it ends the task however this ends.
        let mut link = Link { client, particular: false, life: 0, doubts: 0, cut_short, task };
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

    /// Asks the server to end what a session is at, and waits until it was asked.
    pub(super) async fn cancel(&self, link: &Link) {
        let token = link.client.cancel_token();
        let asked = async {
            match &self.tls {
                Some(tls) => token.cancel_query(tls.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        };
        // Whatever came of it: the session is not used before it has answered.
        let _asked = timeout(CANCEL_WAIT, asked).await;
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

async fn connect<T>(config: &Config, tls: T, cut_short: &Arc<AtomicBool>) -> Result<(Client, JoinHandle<()>), Refused>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect(tls).await.map_err(|error| Refused {
        detail: failure::explain(&error),
        full: error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
    })?;
    let cut_short = cut_short.clone();
    let task = tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // Read before the answer that follows it.
                Some(Ok(AsyncMessage::Notice(notice))) if cuts_short(&notice) => {
                    tracing::error!(warning = notice.message(), "a commit may be missing on the synchronous standby");
                    cut_short.store(true, Ordering::Release);
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
    Ok((client, task))
}

/// By the place in the server's source: the text is in the server's language.
fn cuts_short(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// The hosts by their names, each with a configuration of its own.
fn hosts(config: &Config) -> Vec<(String, Config)> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    (0..count).map(|place| (name(config, place), only(config, place))).collect()
}

/// The host to begin with.
fn first(config: &Config) -> usize {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
    match config.get_load_balance_hosts() {
        LoadBalanceHosts::Random => RandomState::new().hash_one(()) as usize % count,
        _ => 0,
    }
}

/// `host:port`.
pub(super) fn name(config: &Config, place: usize) -> String {
    let port = port(config, place);
    match (config.get_hosts().get(place), config.get_hostaddrs().get(place)) {
        (Some(Host::Tcp(name)), _) => format!("{name}:{port}"),
        (Some(Host::Unix(path)), _) => format!("{}:{port}", path.display()),
        (None, Some(address)) => format!("{address}:{port}"),
        (None, None) => String::new(),
    }
}

fn port(config: &Config, place: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5432)
}

/// The configuration with one of its hosts.
fn only(config: &Config, place: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        Some(Host::Unix(path)) => {
            one.host_path(path);
        }
        None => {}
    }
    macro_rules! copy {
        ($($of:ident: $field:ident $(($star:tt))?),* $(,)?) => {
            $(if let Some(value) = config.$of() {
                one.$field($($star)? value);
            })*
        };
    }
    copy! {
        get_user: user, get_password: password, get_dbname: dbname, get_options: options,
        get_application_name: application_name, get_connect_timeout: connect_timeout(*),
        get_tcp_user_timeout: tcp_user_timeout(*), get_keepalives_interval: keepalives_interval,
        get_keepalives_retries: keepalives_retries,
    }
    if let Some(address) = config.get_hostaddrs().get(place) {
        one.hostaddr(*address);
    }
    one.port(port(config, place));
    one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    one.ssl_mode(config.get_ssl_mode()).ssl_negotiation(config.get_ssl_negotiation());
    one.target_session_attrs(config.get_target_session_attrs()).channel_binding(config.get_channel_binding());
    one
}
