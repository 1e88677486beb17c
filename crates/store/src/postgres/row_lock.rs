//! A row lock: a transaction that holds one row while the engine decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::calls::{Told, told};
use super::connection::Connection;
use super::failure::{self, Fate};
use super::store::Shared;
use super::values::{One, name};
use super::{queries, rows, single};
use crate::{
    ChangeSet, CommitError, LockError, Locked, OnLocked, ReadError, RecordKey, RowLock, StoredKey, Timestamp, Verdict,
    verify,
};

/// A decision takes milliseconds. A holder that is silent for so long is gone, or stopped: the server ends its session,
/// so that the row does not wait for it.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'";

/// How long giving a lock back may take before the connection is thrown away, which gives it back too.
const ROLLBACK_WAIT: Duration = Duration::from_secs(5);

/// An open transaction that has one row locked.
struct Held {
    shared: Arc<Shared>,
    key: RecordKey,
    /// None: given back.
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

/// Locks a row and reads it, in one round trip if nobody has it.
pub(super) async fn lock(
    shared: &Arc<Shared>,
    key: &RecordKey,
    keys: &[String],
    now: Timestamp,
    on_locked: OnLocked,
) -> Result<Locked, LockError> {
    let begun = Instant::now();
    let bound = match on_locked {
        OnLocked::Wait(bound) => bound,
        OnLocked::GiveUp => shared.options.connection_wait,
    };
    let too_many = || LockError::Unavailable("all connections for row locks are in use".to_owned());
    let permit = match timeout(bound, shared.row_waits.clone().acquire_owned()).await {
        Ok(permit) => permit.map_err(|_closed| LockError::Unavailable("the store is closed".to_owned()))?,
        Err(_) if on_locked == OnLocked::GiveUp => return Err(too_many()),
        Err(_) => return Err(LockError::Locked { waited: begun.elapsed() }),
    };
    let connection = shared.connections.get().await.map_err(LockError::Unavailable)?;
    let held = Held { shared: shared.clone(), key: key.clone(), connection: Some(connection), _permit: permit };
    let lock_ms = match on_locked {
        OnLocked::Wait(bound) => {
            let left = bound.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
        }
        OnLocked::GiveUp => 0,
    };
    held.take(key, keys, now, lock_ms, begun).await
}

impl Held {
    async fn take(
        mut self,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        lock_ms: i32,
        begun: Instant,
    ) -> Result<Locked, LockError> {
        let unavailable = |detail: String| LockError::Unavailable(detail);
        let Some(connection) = &self.connection else { return Err(unavailable("it was given back".to_owned())) };
        let (space, id) = name(key);
        let (none, at, empty): (Option<i64>, i64, [&str; 0]) = (None, now.timestamp_millis(), []);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let no_versions: [i64; 0] = [];
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 10] = [
            (&space, Type::TEXT),
            (&id, Type::TEXT),
            (&none, Type::INT8),
            (&none, Type::INT8),
            (&at, Type::INT8),
            (&keys, Type::TEXT_ARRAY),
            (&&empty[..], Type::TEXT_ARRAY),
            (&&empty[..], Type::TEXT_ARRAY),
            (&&no_versions[..], Type::INT8_ARRAY),
            (&lock_ms, Type::INT4),
        ];
        let client = connection.client();
        // Both are sent before either is answered.
        let call = join(client.batch_execute(BEGIN), client.query_typed(&self.shared.calls.check_one, &parameters));
        let bound = Duration::from_millis(u64::try_from(lock_ms).unwrap_or(0)) + self.shared.options.verdict_wait;
        let answer = match timeout(bound, call).await {
            Ok((Ok(()), Ok(rows))) => rows,
            Ok((Err(error), _) | (_, Err(error))) => {
                return Err(match failure::fate(&error) {
                    Fate::Locked => LockError::Locked { waited: begun.elapsed() },
                    fate => {
                        if matches!(fate, Fate::Unknown(_)) {
                            self.connection = None;
                        }
                        unavailable(failure::explain(&error))
                    }
                });
            }
            Err(_) => {
                // The server may still be waiting for the row: only the end of the session ends that.
                self.connection = None;
                return Err(unavailable(self.shared.no_verdict()));
            }
        };
        let row = answer.first().ok_or_else(|| unavailable("the database gave no answer".to_owned()))?;
        self.read(row, key, begun).map_err(|error| unavailable(failure::explain(&error)))?
    }

    fn read(
        self,
        row: &tokio_postgres::Row,
        key: &RecordKey,
        begun: Instant,
    ) -> Result<Result<Locked, LockError>, tokio_postgres::Error> {
        const LOCKED: i32 = 4;
        if row.try_get::<_, i32>("verdict")? == LOCKED {
            return Ok(Err(LockError::Locked { waited: Duration::ZERO }));
        }
        let exists = row.try_get::<_, Option<i64>>("version")?.is_some();
        Ok(Ok(Locked {
            record: exists.then(|| rows::record(row, key.clone())).transpose()?,
            keys: rows::taken_keys(row)?,
            contended: row.try_get("contended")?,
            waited: begun.elapsed(),
            life: row.try_get("life")?,
            hold: Box::new(self),
        }))
    }
}

#[async_trait]
impl RowLock for Held {
    async fn taken(&mut self, keys: &[String], now: Timestamp) -> Result<Vec<StoredKey>, ReadError> {
        let gone = || ReadError::Unavailable("the row lock was given back".to_owned());
        // Put back once the answer was heard: a connection whose answer nobody heard is thrown away.
        let connection = self.connection.take().ok_or_else(gone)?;
        let query = queries::ask_confirm(&self.shared, connection.client(), &self.key, keys, now);
        let confirmed = match timeout(self.shared.options.verdict_wait, query).await {
            Ok(confirmed) => confirmed?,
            Err(_) => return Err(ReadError::Unavailable(self.shared.no_verdict())),
        };
        self.connection = Some(connection);
        Ok(confirmed.keys)
    }

    async fn commit(mut self: Box<Self>, set: ChangeSet) -> Result<Verdict, CommitError> {
        if let Err(breach) = verify::change_set(&set) {
            return Ok(breach.into());
        }
        // From here on the connection is thrown away if this future is dropped: the commit may be under way.
        let Some(connection) = self.connection.take() else {
            return Err(CommitError::Unavailable("the row lock was given back".to_owned()));
        };
        let shared = self.shared.clone();
        let client = connection.client();
        let one = One::new(&set);
        let lock_ms = i32::try_from(shared.options.lock_wait.as_millis()).unwrap_or(i32::MAX);
        let parameters = one.commit(&lock_ms);
        // Without an effect if the call has failed: COMMIT then takes everything back.
        let both = join(client.query_typed(&shared.calls.commit_one, &parameters), client.batch_execute("COMMIT"));
        let Ok((call, ended)) = timeout(shared.options.verdict_wait, both).await else {
            return Err(CommitError::Unknown(shared.no_verdict()));
        };
        let rows = match call {
            Ok(rows) => rows,
            Err(error) => {
                let told = single::failed(client, &shared.calls, &set, failure::fate(&error)).await?;
                if ended.is_ok() {
                    connection.done();
                }
                return Ok(verdict(told, Duration::ZERO));
            }
        };
        ended.map_err(|error| failure::commit_error(&error))?;
        let row = rows.first().ok_or_else(|| CommitError::Unknown("the database gave no answer".to_owned()))?;
        let told = told(row, &set).map_err(|error| CommitError::Unknown(failure::explain(&error)))?;
        connection.done();
        Ok(verdict(told, Duration::ZERO))
    }
}

fn verdict(told: Told, waited: Duration) -> Verdict {
    match told {
        Told::Passed { .. } => Verdict::Committed,
        Told::Verdict(verdict) => verdict,
        Told::Locked => Verdict::LockTimeout { waited },
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Without a runtime nobody could wait for the answer: the connection is closed, which gives the row back too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Ok(Ok(())) = timeout(ROLLBACK_WAIT, connection.client().batch_execute("ROLLBACK")).await {
                connection.done();
            }
        });
    }
}
