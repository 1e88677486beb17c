//! A row lock: a transaction that holds one row while the engine decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::calls::Told;
use super::failure::{self, Fate};
use super::pool::{Connection, Share};
use super::single::Care;
use super::store::Shared;
use super::values::{One, Parameter, Waits, name};
use super::{queries, rows, single};
use crate::{
    ChangeSet, CommitError, LockError, Locked, OnLocked, ReadError, RecordKey, RowLock, StoredKey, Timestamp, Verdict,
    verify,
};

/// An open transaction that has one row locked.
pub(super) struct Held {
    shared: Arc<Shared>,
    connection: Connection,
    record: RecordKey,
    /// A question failed, and the transaction with it.
    broken: bool,
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
    let unavailable = |why: &str| LockError::Unavailable(why.to_owned());
    // This node's own commands have them all: that is no lock of somebody else's.
    let full = || unavailable("all connections for row locks are in use");
    let place = place(shared, bound).await.map_err(unavailable)?.ok_or_else(full)?;
    let on_locked = match on_locked {
        OnLocked::Wait(bound) => OnLocked::Wait(bound.saturating_sub(begun.elapsed())),
        OnLocked::GiveUp => OnLocked::GiveUp,
    };
    let (held, row) = Held::take(shared, place, key, keys, now, on_locked, begun).await?;
    let locked = held.read(&row, begun);
    locked.map_err(|error| LockError::Unavailable(failure::explain(&error)))?
}

/// Commits a set when its row is given back by whoever has it; at most so long after `begun`.
pub(super) async fn commit_waiting(
    shared: &Arc<Shared>,
    set: &ChangeSet,
    begun: Instant,
) -> Result<Verdict, CommitError> {
    let left = || shared.options.lock_wait.saturating_sub(begun.elapsed());
    let place = place(shared, left()).await.map_err(|why| CommitError::Unavailable(why.to_owned()))?;
    // Without a place it was waited for in vain all the same: the row was seen to be locked.
    let Some(place) = place else { return Ok(verdict_of(Told::Locked, begun.elapsed())) };
    let held = Held::take(shared, place, &set.key, &[], set.at, OnLocked::Wait(left()), begun).await;
    let verdict = match held {
        // A record that is not there yet may be about to be made by another.
        Ok((held, _row)) => held.commit_within(set, left()).await?,
        Err(LockError::Locked { .. }) => Told::Locked,
        Err(LockError::Unavailable(detail)) => return Err(CommitError::Unavailable(detail)),
    };
    Ok(verdict_of(verdict, begun.elapsed()))
}

/// A place among those who may hold a row, or wait for one: a share of the pool only, so that they keep nobody else
/// from a connection.
pub(super) async fn place(shared: &Shared, bound: Duration) -> Result<Option<OwnedSemaphorePermit>, &'static str> {
    match timeout(bound, shared.row_waits.clone().acquire_owned()).await {
        Ok(Ok(permit)) => Ok(Some(permit)),
        Ok(Err(_)) => Err("the store is closed"),
        Err(_) => Ok(None),
    }
}

impl Held {
    /// Gets the lock, or says why not; then nothing is held.
    async fn take(
        shared: &Arc<Shared>,
        place: OwnedSemaphorePermit,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        on_locked: OnLocked,
        begun: Instant,
    ) -> Result<(Self, Row), LockError> {
        let unavailable = LockError::Unavailable;
        let asked = Instant::now();
        let mut connection = shared.connections.get(Share::Others).await.map_err(unavailable)?;
        connection.hold(place);
        connection.waits_for_rows();
        let (left, waits) = match on_locked {
            OnLocked::Wait(bound) => {
                let left = bound.min(A_LONG_TIME).saturating_sub(asked.elapsed());
                (left, Waits::up_to(left))
            }
            OnLocked::GiveUp => (Duration::ZERO, Waits::skipping(shared.options.lock_wait)),
        };
        let begin = begin(shared, left + shared.options.verdict_wait);
        // Both are sent before either is answered.
        let call = join(connection.client().batch_execute(&begin), check(&connection, shared, key, keys, now, &waits));
        let answer = match timeout(left + shared.options.verdict_wait, call).await {
            Ok((Ok(()), Ok(rows))) => rows,
            Ok((Err(error), _) | (_, Err(error))) => {
                connection.in_transaction();
                return Err(match failure::fate(&error) {
                    Fate::Locked => LockError::Locked { waited: begun.elapsed() },
                    _ => unavailable(failure::explain(&error)),
                });
            }
            Err(_) => {
                connection.give_up_reading();
                return Err(unavailable(shared.no_verdict()));
            }
        };
        connection.in_transaction();
        let Some(row) = answer.into_iter().next() else {
            return Err(unavailable("the database gave no answer".to_owned()));
        };
        Ok((Self { shared: shared.clone(), connection, record: key.clone(), broken: false }, row))
    }

    fn read(self, row: &Row, begun: Instant) -> Result<Result<Locked, LockError>, tokio_postgres::Error> {
        const LOCKED: i32 = 4;
        if row.try_get::<_, i32>("verdict")? == LOCKED {
            return Ok(Err(LockError::Locked { waited: Duration::ZERO }));
        }
        let exists = row.try_get::<_, Option<i64>>("version")?.is_some();
        Ok(Ok(Locked {
            record: exists.then(|| rows::record(row, self.record.clone())).transpose()?,
            keys: rows::taken_keys(row)?,
            contended: row.try_get("contended")?,
            waited: begun.elapsed(),
            life: row.try_get("life")?,
            hold: Box::new(self),
        }))
    }

    /// Commits under the lock, and gives it back.
    async fn commit_within(self, set: &ChangeSet, lock_wait: Duration) -> Result<Told, CommitError> {
        let Self { shared, mut connection, .. } = self;
        if connection.is_over() {
            // A holder that was silent for too long, most likely. Nothing was sent.
            return Err(CommitError::Unavailable("the session that held the row has ended".to_owned()));
        }
        let waits = Waits::up_to(lock_wait);
        let one = One::new(set);
        let (sql, parameters) = single::call(&shared.calls, &one, Care::Bold, &waits);
        // Whoever leaves from here on may leave a commit behind.
        connection.committing();
        let client = connection.client();
        // Without an effect if the call has failed: COMMIT then takes everything back.
        let both = join(client.query_typed(sql, &parameters), client.batch_execute("COMMIT"));
        let Ok((call, ended)) = timeout(lock_wait + shared.options.verdict_wait, both).await else {
            connection.give_up();
            return Err(CommitError::Unknown(shared.no_verdict()));
        };
        let told = match (call, ended) {
            (Ok(rows), Ok(())) => match connection.proven() {
                Ok(()) => single::answer(&rows, set),
                Err(fate) => Err(fate.into()),
            },
            (Ok(_), Err(error)) => {
                single::taken_back(&connection, &shared.calls, set, waits, failure::fate(&error)).await
            }
            (Err(error), _) => {
                single::taken_back(&connection, &shared.calls, set, waits, failure::fate_within(&error)).await
            }
        };
        if !matches!(told, Err(CommitError::Unknown(_))) {
            connection.done();
        }
        told
    }
}

/// Far above every bound that is asked for.
const A_LONG_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Begins a transaction that locks rows. A decision takes milliseconds: a holder that is silent for longer is gone, or
/// stopped, and the server ends its session, so that nobody waits for it. The role's own bounds are replaced.
pub(super) fn begin(shared: &Shared, bound: Duration) -> String {
    // Of these 0 would be none, and more than 31 bits an error.
    let ms = |bound: Duration| bound.as_millis().clamp(1, i32::MAX as u128);
    let (silence, bound) = (ms(shared.options.row_lock_silence), ms(bound));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp;
         SET LOCAL idle_in_transaction_session_timeout = {silence}; SET LOCAL statement_timeout = {bound}"
    )
}

/// Locks the row, whatever its version, and finds the keys.
async fn check(
    connection: &Connection,
    shared: &Shared,
    key: &RecordKey,
    keys: &[String],
    now: Timestamp,
    waits: &Waits,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let (space, id) = name(key);
    let (none, at): (Option<i64>, i64) = (None, now.timestamp_millis());
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (no_names, no_versions): ([&str; 0], [i64; 0]) = ([], []);
    let (no_names, no_versions) = (&no_names[..], &no_versions[..]);
    let mut parameters: Vec<Parameter<'_>> = vec![
        (&space, Type::TEXT),
        (&id, Type::TEXT),
        (&none, Type::INT8),
        (&none, Type::INT8),
        (&at, Type::INT8),
        (&keys, Type::TEXT_ARRAY),
        (&no_names, Type::TEXT_ARRAY),
        (&no_names, Type::TEXT_ARRAY),
        (&no_versions, Type::INT8_ARRAY),
    ];
    parameters.extend(waits.parameters());
    connection.client().query_typed(&shared.calls.check_one, &parameters).await
}

#[async_trait]
impl RowLock for Held {
    async fn taken(&mut self, keys: &[String], now: Timestamp) -> Result<Vec<StoredKey>, ReadError> {
        let bound = self.shared.options.verdict_wait;
        let question = queries::ask_confirm(&self.shared, self.connection.client(), &self.record, keys, now);
        // Whatever is left of it when this ends early is brought to rest with the transaction.
        let answer = match timeout(bound, question).await {
            Ok(confirmed) => confirmed.map(|confirmed| confirmed.keys),
            Err(_) => Err(ReadError::Unavailable(self.shared.no_verdict())),
        };
        self.broken |= answer.is_err();
        answer
    }

    async fn release(self: Box<Self>, told: bool) -> Result<(), ReadError> {
        let Self { shared, mut connection, broken, .. } = *self;
        if broken {
            // COMMIT would be answered, and mean ROLLBACK.
            return Err(ReadError::Unavailable("the row lock has failed".to_owned()));
        }
        // Nothing was written, so either end is right. Taking back needs no sync; committing waits for the synchronous
        // standby, as `taken_keys` has arranged.
        let end = if told { "COMMIT" } else { "ROLLBACK" };
        if connection.is_over() {
            return Err(ReadError::Unavailable("the session that held the row has ended".to_owned()));
        }
        if told {
            connection.committing();
        }
        let ended = match timeout(shared.options.verdict_wait, connection.client().batch_execute(end)).await {
            Ok(ended) => ended,
            Err(_) => {
                connection.give_up();
                return Err(ReadError::Unavailable(shared.no_verdict()));
            }
        };
        ended.map_err(|error| failure::read_error(&error))?;
        if told && let Err(fate) = connection.proven() {
            let error: CommitError = fate.into();
            return Err(ReadError::Unavailable(error.to_string()));
        }
        connection.done();
        Ok(())
    }

    async fn commit(self: Box<Self>, set: ChangeSet) -> Result<Verdict, CommitError> {
        if let Err(breach) = verify::change_set(&set) {
            return Ok(breach.into());
        }
        let lock_wait = self.shared.options.lock_wait;
        let begun = Instant::now();
        self.commit_within(&set, lock_wait).await.map(|told| verdict_of(told, begun.elapsed()))
    }
}

fn verdict_of(told: Told, waited: Duration) -> Verdict {
    match told {
        Told::Passed { .. } => Verdict::Committed,
        Told::Verdict(verdict) => verdict,
        Told::Locked => Verdict::LockTimeout { waited },
    }
}
