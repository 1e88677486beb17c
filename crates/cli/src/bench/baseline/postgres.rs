//! The usual strategies on PostgreSQL, without a combiner: a row lock; a read and a conditional write that is tried three
//! times. Each client has a connection of its own, up to eighty, and prepared statements.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::sync::{Mutex, Semaphore};
use tokio_postgres::{Client, Error, NoTls, Statement};

use crate::bench::clients::{self, Load};
use crate::bench::row::Row;
use crate::bench::target::Target;
use crate::failure::Failure;

/// As many connections as a server lets in by default, less those that this engine's own rows may use.
const CONNECTIONS_MAX: usize = 80;

/// Attempts of the conditional write, and its first backoff: what the engine's own optimistic strategy does.
const ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_millis(50);

/// How a move is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    RowLock,
    ConditionalWrite,
}

/// Measures both.
///
/// # Errors
/// The database cannot be used.
pub(crate) async fn measure(url: &str, schema: &str, load: &Load, next: impl Fn(&str)) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, way) in [
        ("peer: row lock, a transaction each", Way::RowLock),
        ("peer: conditional write, 3 attempts", Way::ConditionalWrite),
    ] {
        next(name);
        let peer = Arc::new(Peer::prepare(url, schema, load, way).await?);
        rows.push(clients::measure(name, peer, load).await?.into_peer());
    }
    Ok(rows)
}

struct Peer {
    way: Way,
    table: String,
    free: Semaphore,
    sessions: Mutex<Vec<Session>>,
}

/// A connection with its statements.
struct Session {
    client: Client,
    read: Statement,
    read_locked: Statement,
    write: Statement,
}

impl Peer {
    async fn prepare(url: &str, schema: &str, load: &Load, way: Way) -> Result<Self, Failure> {
        let failed = |error: Error| Failure::failed(format!("the peer cannot use the database: {error}"));
        let table = format!("\"{schema}\".bench_peer");
        let first = connect(url).await.map_err(failed)?;
        let start = format!(
            "CREATE SCHEMA IF NOT EXISTS \"{schema}\"; DROP TABLE IF EXISTS {table};
             CREATE TABLE {table} (id integer PRIMARY KEY, state text NOT NULL, version bigint NOT NULL);
             INSERT INTO {table} SELECT n, 'a', 0 FROM generate_series(0, {}) n",
            load.keys.saturating_sub(1)
        );
        first.batch_execute(&start).await.map_err(failed)?;
        let count = (load.clients as usize).min(CONNECTIONS_MAX);
        let mut sessions = Vec::with_capacity(count);
        for _ in 0..count {
            sessions.push(Session::open(url, &table).await.map_err(failed)?);
        }
        Ok(Self { way, table, free: Semaphore::new(count), sessions: Mutex::new(sessions) })
    }

    async fn session(&self) -> Option<Session> {
        self.sessions.lock().await.pop()
    }

    async fn turn(&self, key: u32) -> bool {
        let key = i32::try_from(key).unwrap_or(i32::MAX);
        for attempt in 0..ATTEMPTS {
            let Ok(permit) = self.free.acquire().await else { return false };
            let Some(mut session) = self.session().await else { return false };
            let moved = match self.way {
                Way::RowLock => session.locked(key).await,
                Way::ConditionalWrite => session.conditional(key).await,
            };
            self.sessions.lock().await.push(session);
            match moved {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
            drop(permit);
            // The second attempt at once, the third after a backoff with full jitter.
            if attempt + 2 < ATTEMPTS {
                continue;
            }
            if attempt + 1 < ATTEMPTS {
                let pause = BACKOFF.mul_f64(rand::rng().random_range(0.0..=1.0));
                tokio::time::sleep(pause).await;
            }
        }
        false
    }
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Session {
    async fn open(url: &str, table: &str) -> Result<Self, Error> {
        let client = connect(url).await?;
        client.batch_execute("SET lock_timeout = '5s'; SET synchronous_commit = on").await?;
        let read = client.prepare(&format!("SELECT state, version FROM {table} WHERE id = $1")).await?;
        let read_locked =
            client.prepare(&format!("SELECT state, version FROM {table} WHERE id = $1 FOR UPDATE")).await?;
        let write = format!("UPDATE {table} SET state = $3, version = $2 + 1 WHERE id = $1 AND version = $2");
        let write = client.prepare(&write).await?;
        Ok(Self { client, read, read_locked, write })
    }

    async fn locked(&mut self, key: i32) -> Result<bool, Error> {
        let transaction = self.client.transaction().await?;
        let row = transaction.query_one(&self.read_locked, &[&key]).await?;
        let moved = transaction.execute(&self.write, &[&key, &row.get::<_, i64>(1), &next(row.get(0))]).await?;
        transaction.commit().await?;
        Ok(moved == 1)
    }

    async fn conditional(&mut self, key: i32) -> Result<bool, Error> {
        let row = self.client.query_one(&self.read, &[&key]).await?;
        let moved = self.client.execute(&self.write, &[&key, &row.get::<_, i64>(1), &next(row.get(0))]).await?;
        Ok(moved == 1)
    }
}

fn next(state: &str) -> &'static str {
    if state == "a" { "b" } else { "a" }
}

impl Target for Peer {
    fn step(&self, _client: u32, key: u32) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(self.turn(key))
    }

    fn versions(&self) -> Pin<Box<dyn Future<Output = Result<i64, Failure>> + Send + '_>> {
        Box::pin(async move {
            let session = self.session().await.ok_or_else(|| Failure::failed("the peer has no connection"))?;
            let sum = format!("SELECT coalesce(sum(version), 0)::bigint FROM {}", self.table);
            let row = session.client.query_one(&sum, &[]).await.map_err(Failure::failed)?;
            self.sessions.lock().await.push(session);
            Ok(row.get(0))
        })
    }
}
