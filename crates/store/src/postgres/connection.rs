//! Connections: made, checked, pooled, and thrown away when their state is not known.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Timeouts};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, Row};

use super::options::PostgresOptions;
use super::{failure, tls};
use crate::OpenError;

/// The oldest server that is known to do what is asked of it.
const SERVER_VERSION_MIN: i64 = 140_000;

/// What a server must be, asked once a connection.
const CHECK: &str = "SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(),
    current_setting('fsync')::boolean, pg_encoding_to_char(encoding), system_identifier
    FROM pg_database, pg_control_system() WHERE datname = current_database()";

/// The connections of one store.
#[derive(Debug)]
pub(super) struct Connections {
    pool: Pool,
    wait: Duration,
}

/// A connection that is thrown away unless [`Connection::done`] is called: one whose last answer was not heard may still
/// be at work.
#[derive(Debug)]
pub(super) struct Connection(Option<Object>);

impl Connections {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, OpenError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = if options.wants_tls() {
            Manager::from_config(options.config.clone(), tls::connector(options)?, config)
        } else {
            Manager::from_config(options.config.clone(), tokio_postgres::NoTls, config)
        };
        let first = Arc::new(OnceLock::new());
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(options.connection_wait),
                create: Some(options.connection_wait),
                recycle: Some(options.connection_wait),
            })
            .post_create(Hook::async_fn(move |client, _| {
                let first = first.clone();
                Box::pin(async move { check(client, &first).await.map_err(HookError::message) })
            }))
            .build()
            .map_err(|error| OpenError::NoDatabase { url: options.describe(), detail: error.to_string() })?;
        Ok(Self { pool, wait: options.connection_wait })
    }

    /// A connection, from the pool or new.
    ///
    /// # Errors
    /// Why there is none; nothing was sent.
    pub(super) async fn get(&self) -> Result<Connection, String> {
        // The pool bounds its own waits; this bounds the checks after them.
        match timeout(self.wait * 2, self.pool.get()).await {
            Ok(Ok(object)) => Ok(Connection(Some(object))),
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(format!("no connection within {:?}", self.wait * 2)),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    fn explain(&self, error: &PoolError) -> String {
        match error {
            PoolError::Backend(error) => failure::explain(error),
            PoolError::Closed => "the store is closed".to_owned(),
            PoolError::PostCreateHook(HookError::Message(message)) => message.to_string(),
            PoolError::PostCreateHook(HookError::Backend(error)) => failure::explain(error),
            PoolError::Timeout(_) => format!(
                "no connection within {:?} ({} of {} are in use)",
                self.wait,
                self.pool.status().size.saturating_sub(self.pool.status().available),
                self.pool.status().max_size
            ),
            other => other.to_string(),
        }
    }
}

impl Connection {
    pub(super) fn client(&self) -> &Client {
        // Emptied by `done` and `drop` only, which end it.
        self.0.as_ref().unwrap_or_else(|| unreachable!("a connection in use has its client"))
    }

    /// The last answer was heard: others may use it.
    pub(super) fn done(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// Refuses a server that would not keep what it acknowledges, and one that is not the one of before.
async fn check(client: &Client, first: &OnceLock<i64>) -> Result<(), String> {
    let row = client.query_typed(CHECK, &[]).await.map_err(|error| failure::explain(&error))?;
    let row = row.first().ok_or("the server does not know its own database")?;
    let told: Result<(i64, bool, bool, String, i64), Error> = read_check(row);
    let (version, in_recovery, fsync, encoding, system) = told.map_err(|error| failure::explain(&error))?;
    if version < SERVER_VERSION_MIN {
        return Err(format!("the server is PostgreSQL {}; 14 or newer is needed", version / 10_000));
    }
    if in_recovery {
        return Err("the server is in recovery (a standby): name the primary, or several hosts with \
                    target_session_attrs=read-write"
            .to_owned());
    }
    if !fsync {
        return Err("the server runs with fsync=off and would lose what it acknowledges: turn it on".to_owned());
    }
    if encoding != "UTF8" {
        return Err(format!("the database's encoding is {encoding}: create one with ENCODING 'UTF8'"));
    }
    if *first.get_or_init(|| system) != system {
        return Err("another database cluster answers than when this node was started: restart the node if that is \
                    meant"
            .to_owned());
    }
    Ok(())
}

fn read_check(row: &Row) -> Result<(i64, bool, bool, String, i64), Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?))
}
