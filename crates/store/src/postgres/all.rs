//! Several change sets that stand or fall together: one transaction, everything locked in the order of the names, so
//! that two such requests over the same records never wait for each other in a circle.
//!
//! Nothing is held while a row is waited for: the first try passes over what is locked; if something was, the next one
//! begins with it, waiting, and passes over the others. Only after some of these is everything waited for in order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all, join4};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use super::calls::{Told, fenced, told};
use super::failure::{self, Fate};
use super::pool::{Connection, Share};
use super::row_lock::{self, begin};
use super::single::TRIES;
use super::store::Shared;
use super::values::{Fences, One, Parameter, Waits, name};
use super::{queries, single};
use crate::{AllVerdict, ChangeSet, CommitError, Fence, RecordKey, Verdict};

/// How long a first try waits for a record of the same name that is being made.
const INSERT_WAIT: Duration = Duration::from_millis(100);

/// How a try ended that was not committed; it has been taken back.
enum Ended {
    /// This set could not be.
    Failed(usize, Box<Verdict>),
    /// Another session has the row of this step.
    Locked(usize),
    /// This set's record was made by somebody else between its check and its write.
    Overtaken(usize),
    /// This set breaks a rule of the database.
    Rejected(usize, String),
    /// The server chose this transaction to give way.
    Yielded(String),
    /// No answer, or none that helps; nothing was sent to be committed.
    Unavailable(String),
    /// COMMIT was sent.
    Unknown(String),
    /// As the two before, and the connection is silent.
    Silent(CommitError),
}

/// One request, with what it has used up of its bounds.
struct Request<'a> {
    shared: &'a Shared,
    sets: &'a [ChangeSet],
    steps: Vec<Step<'a>>,
    waiting: Option<Waiting>,
}

/// A row to be locked; in the order of names.
struct Step<'a> {
    key: &'a RecordKey,
    /// The set that it is locked for.
    place: usize,
    /// Whether it is written; else it is only required to stay as it is.
    written: bool,
}

/// Some row was locked by another session.
#[derive(Clone, Copy)]
struct Waiting {
    since: Instant,
    /// The row's step.
    step: usize,
    /// How often one was.
    times: u32,
}

/// Tries that hold nothing while they wait, before those that do.
const POLITE: u32 = 3;

/// Commits all sets or none.
pub(super) async fn commit(shared: &Shared, sets: &[ChangeSet]) -> Result<AllVerdict, CommitError> {
    if sets.is_empty() {
        return Ok(AllVerdict::Committed);
    }
    let mut request = Request { shared, sets, steps: steps(sets), waiting: None };
    let mut why = String::new();
    let mut tries = 0;
    while tries < TRIES {
        let mut connection = request.connect().await?;
        let ended = match request.transact(&mut connection).await {
            Ok(()) => {
                connection.done();
                return Ok(AllVerdict::Committed);
            }
            Err(ended) => ended,
        };
        let failed = |index: usize, verdict: Verdict| Ok(AllVerdict::Failed { index, verdict });
        match ended {
            Ended::Unavailable(detail) => return Err(CommitError::Unavailable(detail)),
            Ended::Unknown(detail) => return Err(CommitError::Unknown(detail)),
            Ended::Silent(error) => {
                connection.give_up();
                return Err(error);
            }
            Ended::Failed(index, verdict) => {
                connection.done();
                return failed(index, *verdict);
            }
            Ended::Rejected(index, reason) => {
                let event = request.culprit(&mut connection, index).await;
                return failed(index, Verdict::Rejected { event, reason });
            }
            Ended::Overtaken(index) => {
                connection.done();
                let current = queries::read(shared, &sets[index].key).await;
                let current = current.map_err(|error| CommitError::Unavailable(error.to_string()))?;
                return failed(index, Verdict::Lost(current));
            }
            Ended::Yielded(reason) => {
                why = reason;
                tries += 1;
            }
            Ended::Locked(step) => {
                let times = request.waiting.map_or(0, |waiting| waiting.times) + 1;
                let since = request.waiting.map_or_else(Instant::now, |waiting| waiting.since);
                if since.elapsed() >= shared.options.lock_wait {
                    connection.done();
                    return failed(request.steps[step].place, Verdict::LockTimeout { waited: since.elapsed() });
                }
                request.waiting = Some(Waiting { since, step, times });
            }
        }
        connection.done();
    }
    Err(CommitError::Unavailable(format!("{TRIES} tries met other transactions: {why}")))
}

/// Everything that is locked, by name. A record that is required and changed is checked before it is.
fn steps(sets: &[ChangeSet]) -> Vec<Step<'_>> {
    let step = |key, place, written| (key, Step { key, place, written });
    let sets = || sets.iter().enumerate();
    let required =
        sets().flat_map(|(place, set)| set.requires.iter().map(move |required| step(&required.key, place, false)));
    // Of one name the later stays.
    let by_name: BTreeMap<_, _> = required.chain(sets().map(|(place, set)| step(&set.key, place, true))).collect();
    by_name.into_values().collect()
}

impl Request<'_> {
    async fn connect(&self) -> Result<Connection, CommitError> {
        let permit = match self.waiting {
            Some(_) => row_lock::place(self.shared, self.left()).await.map_err(unavailable)?,
            None => None,
        };
        let mut connection = self.shared.connections.get(Share::Others).await.map_err(CommitError::Unavailable)?;
        permit.into_iter().for_each(|permit| connection.hold(permit));
        Ok(connection)
    }

    /// How long rows may still be waited for.
    fn left(&self) -> Duration {
        let bound = self.shared.options.lock_wait;
        self.waiting.map_or(bound, |waiting| bound.saturating_sub(waiting.since.elapsed()))
    }

    /// One transaction. All sets are checked before any is written, so that a requirement on a record of the same commit
    /// means its state before.
    async fn transact(&self, connection: &mut Connection) -> Result<(), Ended> {
        connection.waits_for_rows();
        let bound = self.left() + self.shared.options.verdict_wait;
        let written = match timeout(bound, self.write(connection)).await {
            Ok(written) => written,
            Err(_) => Err(Ended::Silent(CommitError::Unavailable(self.shared.no_verdict()))),
        };
        connection.in_transaction();
        match written {
            Ok(()) => {
                connection.committing();
                self.end(connection).await
            }
            Err(ended @ Ended::Silent(_)) => Err(ended),
            Err(ended) => {
                // Nothing has been committed, whatever becomes of this.
                let rollback = connection.client().batch_execute("ROLLBACK");
                match timeout(self.shared.options.verdict_wait, rollback).await {
                    Ok(Ok(())) => Err(ended),
                    Ok(Err(error)) => Err(Ended::Unavailable(failure::explain(&error))),
                    Err(_) => Err(Ended::Silent(CommitError::Unavailable(self.shared.no_verdict()))),
                }
            }
        }
    }

    /// COMMIT is where the fate becomes unknown.
    async fn end(&self, connection: &Connection) -> Result<(), Ended> {
        let fate = match timeout(self.shared.options.verdict_wait, connection.client().batch_execute("COMMIT")).await {
            Ok(Ok(())) => match connection.proven() {
                Ok(()) => return Ok(()),
                Err(fate) => fate,
            },
            Ok(Err(error)) => failure::fate(&error),
            Err(_) => return Err(Ended::Silent(CommitError::Unknown(self.shared.no_verdict()))),
        };
        Err(match fate {
            Fate::Unknown(detail) => Ended::Unknown(detail),
            // A rule that is looked at in the end; whose fault it is, is not said.
            fate => self.ended(0, 0, fate),
        })
    }

    async fn write(&self, connection: &Connection) -> Result<(), Ended> {
        let begin = begin(self.shared, self.left() + self.shared.options.verdict_wait);
        connection
            .client()
            .batch_execute(&begin)
            .await
            .map_err(|error| Ended::Unavailable(failure::explain(&error)))?;
        let records = self.check(connection).await?;
        // An insert waits for one of the same name that is under way; a fence for a commit that carries another.
        let insert_wait = if self.waiting.is_some() { self.left() } else { INSERT_WAIT };
        let bound = format!("SET LOCAL lock_timeout = {}", insert_wait.as_millis().clamp(1, i32::MAX as u128));
        let written = || self.steps.iter().enumerate().filter(|(_, step)| step.written);
        let ones: Vec<One<'_>> = written().map(|(_, step)| One::new(&self.sets[step.place])).collect();
        let calls = written().zip(&ones).map(|((number, step), one)| {
            let (sql, parameters) = (&self.shared.calls.write_one, one.write(&records[step.place]));
            async move { (number, step.place, connection.client().query_typed(sql, &parameters).await) }
        });
        let client = connection.client();
        let alarms = written().zip(&ones).filter_map(|((number, step), one)| {
            let parameters = one.put_alarm()?;
            Some(async move {
                let put = client.query_typed(&self.shared.calls.put_alarm_of, &parameters).await;
                put.map_err(|error| self.ended(step.place, number, failure::fate(&error)))
            })
        });
        // In this order: whoever has a fence's row waits for nothing more.
        let (bounded, answers, alarmed, kept) =
            join4(client.batch_execute(&bound), join_all(calls), join_all(alarms), self.fences(client)).await;
        bounded.map_err(|error| Ended::Unavailable(failure::explain(&error)))?;
        for (step, place, answer) in answers {
            let wrote = answer.and_then(|rows| rows.first().map_or(Ok(false), |row| row.try_get(0)));
            if !wrote.map_err(|error| self.ended(place, step, failure::fate(&error)))? {
                return Err(Ended::Overtaken(place));
            }
        }
        alarmed.into_iter().collect::<Result<Vec<_>, _>>()?;
        kept
    }

    /// Holds all fences against the latest that were seen, and keeps them.
    async fn fences(&self, client: &Client) -> Result<(), Ended> {
        // The first set that carries it is the one that fails.
        let all: BTreeMap<&str, (usize, &Fence)> = (self.sets.iter().enumerate().rev())
            .flat_map(|(place, set)| set.fences.iter().map(move |fence| (&*fence.resource, (place, fence))))
            .collect();
        let all: Vec<(usize, &Fence)> = all.into_values().collect();
        let Some((first, _)) = all.first() else { return Ok(()) };
        let (columns, at) = (Fences::new(all.iter().map(|(_, fence)| *fence)), self.sets[*first].at.timestamp_millis());
        let mut parameters: Vec<Parameter<'_>> = columns.parameters().into();
        parameters.push((&at, Type::INT8));
        let step = self.steps.iter().position(|step| step.written && step.place == *first).unwrap_or(0);
        let rows = client.query_typed(&self.shared.calls.keep_fences, &parameters).await;
        match rows.and_then(|rows| rows.first().map(late).transpose()) {
            // Places count from 1.
            Ok(Some((Some(place), Some(last)))) => {
                let late = usize::try_from(place).ok().and_then(|place| all.get(place.checked_sub(1)?));
                let unknown = || Ended::Unavailable("the database named no fence of this commit".to_owned());
                late.map_or_else(
                    || Err(unknown()),
                    |(set, late)| Err(Ended::Failed(*set, Box::new(fenced(late, last)))),
                )
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Ended::Unavailable("the database gave no answer".to_owned())),
            Err(error) => Err(self.ended(*first, step, failure::fate(&error))),
        }
    }

    /// Locks and checks everything: the records' numbers, in the order of `sets`; or why not.
    async fn check(&self, connection: &Connection) -> Result<Vec<Option<i64>>, Ended> {
        let mut found = Found { records: vec![None; self.sets.len()], failed: None, locked: None };
        let mut rest: Vec<usize> = (0..self.steps.len()).collect();
        let waited_for = match self.waiting {
            None => Vec::new(),
            Some(waiting) if waiting.times <= POLITE => vec![rest.remove(waiting.step)],
            Some(_) => std::mem::take(&mut rest),
        };
        let mut checked = Ok(());
        for step in waited_for {
            let answer = self.lock(connection, step, Waits::up_to(self.left())).await;
            checked = found.take(self, step, answer);
            if checked.is_err() || found.failed.is_some() {
                rest.clear();
                break;
            }
        }
        // Sent without waiting for the answers; the server works through them in this order.
        let waits = Waits::skipping(self.shared.options.lock_wait);
        let answers = join_all(rest.iter().map(|step| self.lock(connection, *step, waits))).await;
        for (step, answer) in rest.into_iter().zip(answers) {
            // The first error is the cause; what came after it only hears that the transaction has failed.
            checked = checked.and_then(|()| found.take(self, step, answer));
        }
        // What is known to fail need not wait for anybody.
        match (found.failed, found.locked) {
            (Some((place, verdict)), _) => Err(Ended::Failed(place, Box::new(verdict))),
            (None, Some(step)) => Err(Ended::Locked(step)),
            (None, None) => checked.map(|()| found.records),
        }
    }

    /// Locks one row: to be written, with its checks; or to stay as it is until this ends.
    async fn lock(&self, connection: &Connection, step: usize, waits: Waits) -> Result<Vec<Row>, Error> {
        let (client, calls) = (connection.client(), &self.shared.calls);
        let step = &self.steps[step];
        if step.written {
            let one = One::new(&self.sets[step.place]);
            return client.query_typed(&calls.check_one, &one.check(&waits)).await;
        }
        let (space, id) = name(step.key);
        let parameters: [Parameter<'_>; 2] = [(&space, Type::TEXT), (&id, Type::TEXT)];
        let bound = format!("SET LOCAL lock_timeout = {}", waits.bound_ms());
        let share = if waits.skips() { &calls.share_now } else { &calls.share };
        let (bounded, rows) = join(client.batch_execute(&bound), client.query_typed(share, &parameters)).await;
        bounded?;
        rows
    }

    /// What an error before COMMIT means.
    fn ended(&self, place: usize, step: usize, fate: Fate) -> Ended {
        match fate {
            Fate::Rejected(reason) => Ended::Rejected(place, reason),
            Fate::Locked => Ended::Locked(step),
            Fate::Yielded(reason) => Ended::Yielded(reason),
            // Nothing was sent to be committed.
            Fate::TakenBack(detail) | Fate::Unknown(detail) => Ended::Unavailable(detail),
        }
    }

    /// Which event of a set breaks a rule: it is tried again, and taken back. None: that is not known.
    async fn culprit(&self, connection: &mut Connection, index: usize) -> Option<usize> {
        connection.in_transaction();
        let begin = begin(self.shared, self.shared.options.verdict_wait);
        let (one, waits) = (One::new(&self.sets[index]), Waits::skipping(self.shared.options.lock_wait));
        let client = connection.client();
        let find = async {
            client.batch_execute(&begin).await?;
            client.query_typed(&self.shared.calls.commit_carefully, &one.commit(&waits)).await
        };
        // The connection is brought to rest when it is dropped: with a ROLLBACK.
        let rows = timeout(self.shared.options.verdict_wait, find).await.ok()?.ok()?;
        match single::answer(&rows, &self.sets[index]).ok()? {
            Told::Verdict(Verdict::Rejected { event, .. }) => event,
            _ => None,
        }
    }
}

/// What the checks have found so far.
struct Found {
    records: Vec<Option<i64>>,
    /// The first set, by its place, that could not be.
    failed: Option<(usize, Verdict)>,
    /// A step whose row was passed over.
    locked: Option<usize>,
}

impl Found {
    fn take(&mut self, request: &Request<'_>, number: usize, answer: Result<Vec<Row>, Error>) -> Result<(), Ended> {
        let step = &request.steps[number];
        let rows = answer.map_err(|error| request.ended(step.place, number, failure::fate(&error)))?;
        if !step.written {
            return Ok(());
        }
        let row = rows.first().ok_or_else(|| Ended::Unavailable("the database gave no answer".to_owned()))?;
        let told = told(row, &request.sets[step.place]);
        match told.map_err(|error| Ended::Unavailable(failure::explain(&error)))? {
            Told::Passed { record } => self.records[step.place] = record,
            Told::Verdict(verdict) => {
                if self.failed.as_ref().is_none_or(|(first, _)| step.place < *first) {
                    self.failed = Some((step.place, verdict));
                }
            }
            Told::Locked => self.locked = self.locked.or(Some(number)),
        }
        Ok(())
    }
}

fn unavailable(why: &str) -> CommitError {
    CommitError::Unavailable(why.to_owned())
}

/// Which fence is late, and the latest that was seen.
fn late(row: &Row) -> Result<(Option<i32>, Option<i64>), Error> {
    Ok((row.try_get("place")?, row.try_get("last")?))
}
