//! Several change sets that stand or fall together: one transaction, the rows locked in the order of their names, so
//! that two such requests over the same records never wait for each other in a circle.

use std::time::Instant;

use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::calls::{Told, told};
use super::failure::{self, Fate};
use super::store::Shared;
use super::values::One;
use super::{queries, single};
use crate::{AllVerdict, ChangeSet, CommitError, Verdict};

/// Tries when the server takes a transaction back for the sake of another: a deadlock with somebody else's
/// transactions, a serialization failure.
const TRIES: u32 = 3;

/// How a try ended that wrote nothing, or all.
enum Ended {
    Committed,
    /// This set could not be.
    Failed(usize, Verdict),
    /// This set's record was made by somebody else between its check and its write.
    Overtaken(usize),
    /// This set breaks a rule of the database.
    Rejected(usize, String),
    /// The server chose this transaction to give way.
    Yielded(String),
}

/// Commits all sets or none.
pub(super) async fn commit(shared: &Shared, sets: &[ChangeSet]) -> Result<AllVerdict, CommitError> {
    if sets.is_empty() {
        return Ok(AllVerdict::Committed);
    }
    let mut why = String::new();
    for _ in 0..TRIES {
        let connection = shared.connections.get().await.map_err(CommitError::Unavailable)?;
        let bound = shared.options.lock_wait + shared.options.verdict_wait;
        let ended = match timeout(bound, transact(shared, connection.client(), sets)).await {
            Ok(ended) => ended?,
            Err(_) => return Err(CommitError::Unknown(shared.no_verdict())),
        };
        let failed = |index: usize, verdict: Verdict| Ok(AllVerdict::Failed { index, verdict });
        let verdict = match ended {
            Ended::Committed => Ok(AllVerdict::Committed),
            Ended::Failed(index, verdict) => failed(index, verdict),
            Ended::Rejected(index, reason) => {
                let verdict = single::rejection(connection.client(), &shared.calls, &sets[index], reason).await;
                failed(index, verdict)
            }
            Ended::Overtaken(index) => {
                connection.done();
                let current = queries::read(shared, &sets[index].key).await;
                let current = current.map_err(|error| CommitError::Unavailable(error.to_string()))?;
                return failed(index, Verdict::Lost(current));
            }
            Ended::Yielded(reason) => {
                connection.done();
                why = reason;
                continue;
            }
        };
        connection.done();
        return verdict;
    }
    Err(CommitError::Unavailable(format!("{TRIES} tries met other transactions: {why}")))
}

/// One transaction. All sets are checked before any is written, so that a requirement on a record of the same commit
/// means its state before.
async fn transact(shared: &Shared, client: &Client, sets: &[ChangeSet]) -> Result<Ended, CommitError> {
    let before = |error: Error| CommitError::Unavailable(failure::explain(&error));
    client.batch_execute("BEGIN").await.map_err(before)?;
    let written = match check(shared, client, sets).await {
        Ok(records) => write(shared, client, sets, &records).await,
        Err(ended) => Err(ended),
    };
    let ended = match written {
        Ok(()) => return commit_open(client).await,
        Err(ended) => ended,
    };
    // Nothing has been committed, whatever becomes of this.
    client.batch_execute("ROLLBACK").await.map_err(before)?;
    ended
}

/// COMMIT is where the fate becomes unknown.
async fn commit_open(client: &Client) -> Result<Ended, CommitError> {
    match client.batch_execute("COMMIT").await {
        Ok(()) => Ok(Ended::Committed),
        Err(error) if yielded(&error) => Ok(Ended::Yielded(failure::explain(&error))),
        Err(error) => Err(failure::commit_error(&error)),
    }
}

/// Locks and checks every set: the records' numbers, in the order of `sets`; or why not.
async fn check(
    shared: &Shared,
    client: &Client,
    sets: &[ChangeSet],
) -> Result<Vec<Option<i64>>, Result<Ended, CommitError>> {
    let begun = Instant::now();
    let lock_ms = i32::try_from(shared.options.lock_wait.as_millis()).unwrap_or(i32::MAX);
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_unstable_by(|left, right| sets[*left].key.cmp(&sets[*right].key));
    let ones: Vec<(usize, One<'_>)> = order.into_iter().map(|place| (place, One::new(&sets[place]))).collect();
    // Sent one after another without waiting for the answers; the server works through them in this order.
    let calls = ones.iter().map(|(place, one)| {
        let lock_ms = &lock_ms;
        async move { (*place, client.query_typed(&shared.calls.check_one, &one.check(lock_ms)).await) }
    });
    let answers = join_all(calls).await;
    // The first error is the cause; what was sent after it only hears that the transaction has failed.
    let mut failures: Vec<(usize, Verdict)> = Vec::new();
    let mut records = vec![None; sets.len()];
    for (place, answer) in answers {
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) if yielded(&error) => return Err(Ok(Ended::Yielded(failure::explain(&error)))),
            Err(error) => {
                return Err(match failure::fate(&error) {
                    Fate::Locked => Ok(Ended::Failed(place, Verdict::LockTimeout { waited: begun.elapsed() })),
                    Fate::Rejected(reason) => Ok(Ended::Rejected(place, reason)),
                    // Nothing was sent to be committed.
                    Fate::TakenBack(detail) | Fate::Unknown(detail) => Err(CommitError::Unavailable(detail)),
                });
            }
        };
        let answer = rows.first().map(|row| told(row, &sets[place]));
        match answer {
            Some(Ok(Told::Passed { record })) => records[place] = record,
            Some(Ok(Told::Verdict(verdict))) => failures.push((place, verdict)),
            Some(Ok(Told::Locked)) => {
                failures.push((place, Verdict::LockTimeout { waited: begun.elapsed() }));
            }
            Some(Err(error)) => return Err(Err(CommitError::Unavailable(failure::explain(&error)))),
            None => return Err(Err(CommitError::Unavailable("the database gave no answer".to_owned()))),
        }
    }
    match failures.into_iter().min_by_key(|(place, _)| *place) {
        Some((place, verdict)) => Err(Ok(Ended::Failed(place, verdict))),
        None => Ok(records),
    }
}

/// Writes every set, in the same order.
async fn write(
    shared: &Shared,
    client: &Client,
    sets: &[ChangeSet],
    records: &[Option<i64>],
) -> Result<(), Result<Ended, CommitError>> {
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_unstable_by(|left, right| sets[*left].key.cmp(&sets[*right].key));
    let ones: Vec<(usize, One<'_>)> = order.into_iter().map(|place| (place, One::new(&sets[place]))).collect();
    let calls = ones.iter().map(|(place, one)| async move {
        (*place, client.query_typed(&shared.calls.write_one, &one.write(&records[*place])).await)
    });
    for (place, answer) in join_all(calls).await {
        let wrote = answer.and_then(|rows| rows.first().map_or(Ok(false), |row| row.try_get(0)));
        match wrote {
            Ok(true) => {}
            Ok(false) => return Err(Ok(Ended::Overtaken(place))),
            Err(error) if yielded(&error) => return Err(Ok(Ended::Yielded(failure::explain(&error)))),
            Err(error) => {
                return Err(match failure::fate(&error) {
                    Fate::Rejected(reason) => Ok(Ended::Rejected(place, reason)),
                    Fate::Locked => Ok(Ended::Failed(place, Verdict::LockTimeout { waited: shared.options.lock_wait })),
                    Fate::TakenBack(detail) | Fate::Unknown(detail) => Err(CommitError::Unavailable(detail)),
                });
            }
        }
    }
    Ok(())
}

fn yielded(error: &Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::T_R_DEADLOCK_DETECTED) || code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
}
