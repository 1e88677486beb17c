//! Many jobs in one transaction, each for itself.
//!
//! Invariants:
//! - An answer leaves only once the fate of its transaction is known.
//! - What one job wrote is in the transaction as a whole or not at all.
//!
//! The jobs are tried without savepoints first: a savepoint copies each page that is changed under it, a third of the
//! writer's work for small commits, and what needs one (a broken constraint, a fault of ours) hardly ever comes. If it
//! comes, everything is taken back and done again, with a savepoint for each job.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;

use super::failure::{self, Phase};
use super::queue::{Effect, Job};

/// Performs jobs in one transaction and answers them; says whether anything was written.
pub(super) fn run(connection: &Connection, mut jobs: Vec<Box<dyn Job>>) -> bool {
    jobs.retain(|job| !job.is_abandoned());
    match perform(connection, &mut jobs) {
        Ok(true) => commit(connection, jobs),
        Ok(false) => {
            // Nothing to sync: what was read is what is committed.
            roll_back(connection);
            jobs.into_iter().for_each(Job::answer);
            false
        }
        Err(reason) => {
            roll_back(connection);
            refuse(jobs, &reason);
            false
        }
    }
}

/// Performs all jobs in a transaction that it leaves open; says whether there is something to commit.
fn perform(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<bool, String> {
    execute(connection, "BEGIN IMMEDIATE")?;
    if let Some(wrote) = bare(connection, jobs) {
        return Ok(wrote);
    }
    roll_back(connection);
    execute(connection, "BEGIN IMMEDIATE")?;
    guarded(connection, jobs)
}

/// Performs jobs one after another. None: one of them must be taken back, and with it all.
fn bare(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Option<bool> {
    let mut wrote = false;
    for job in jobs {
        match caught(connection, job.as_mut()) {
            Ok(Effect::Nothing) => {}
            Ok(Effect::Wrote) => wrote = true,
            Ok(Effect::Undo) | Err(_) => return None,
        }
    }
    Some(wrote)
}

/// Performs jobs, each in a savepoint.
fn guarded(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<bool, String> {
    let mut wrote = false;
    for job in jobs {
        execute(connection, "SAVEPOINT job")?;
        let effect = caught(connection, job.as_mut());
        if connection.is_autocommit() {
            // SQLite has taken the whole transaction back, as it does when the disk is full
            // (https://www.sqlite.org/lang_transaction.html, "response to errors within a transaction").
            return Err(effect.err().unwrap_or_else(|| "the transaction was taken back".to_owned()));
        }
        match &effect {
            Ok(Effect::Nothing) => {}
            Ok(Effect::Wrote) => wrote = true,
            Ok(Effect::Undo) | Err(_) => execute(connection, "ROLLBACK TO job")?,
        }
        execute(connection, "RELEASE job")?;
        if let Err(reason) = effect {
            job.fail(reason);
        }
    }
    Ok(wrote)
}

/// Performs one job. A panic is a fault of ours, and is to cost its own job only.
fn caught(connection: &Connection, job: &mut dyn Job) -> Result<Effect, String> {
    match catch_unwind(AssertUnwindSafe(|| job.perform(connection))) {
        Ok(result) => result.map_err(|error| explain(&error)),
        Err(_) => Err("the store failed internally; its log has the message".to_owned()),
    }
}

fn commit(connection: &Connection, mut jobs: Vec<Box<dyn Job>>) -> bool {
    jobs.iter_mut().for_each(|job| job.mark_sent());
    let result = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
    match result {
        Ok(_) => {
            jobs.into_iter().for_each(Job::answer);
            true
        }
        Err(error) => {
            failure::end_if_fatal(&error, Phase::Sync);
            roll_back(connection);
            refuse(jobs, &error.to_string());
            false
        }
    }
}

fn refuse(jobs: Vec<Box<dyn Job>>, reason: &str) {
    jobs.into_iter().for_each(|job| job.refuse(reason));
}

/// Ends the open transaction, if there still is one, without a trace.
fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    let result = execute(connection, "ROLLBACK");
    if !connection.is_autocommit() {
        // What is in it might be committed with the next transaction: better none.
        tracing::error!(?result, "a transaction could not be taken back: ending the process");
        std::process::abort();
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), String> {
    let result = connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    result.map(|_| ()).map_err(|error| explain(&error))
}

fn explain(error: &rusqlite::Error) -> String {
    failure::end_if_fatal(error, Phase::Statement);
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommitError;
    use crate::sqlite::queue::{Arrival, Request, Task};

    /// Writes a row, and then does as it is told.
    struct Write(i64, fn() -> rusqlite::Result<Effect>);

    impl Request for Write {
        type Answer = i64;

        fn size(&self) -> usize {
            0
        }

        fn perform(&self, connection: &Connection) -> rusqlite::Result<(i64, Effect)> {
            connection.execute("INSERT INTO rows VALUES (?1)", [self.0])?;
            Ok((self.0, (self.1)()?))
        }
    }

    fn table() -> Connection {
        let connection = Connection::open_in_memory().expect("a connection");
        connection.execute_batch("CREATE TABLE rows (n INTEGER PRIMARY KEY)").expect("a table");
        connection
    }

    fn rows(connection: &Connection) -> Vec<i64> {
        let mut select = connection.prepare("SELECT n FROM rows ORDER BY n").expect("a statement");
        let rows = select.query_map([], |row| row.get(0)).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    }

    fn wrote() -> rusqlite::Result<Effect> {
        Ok(Effect::Wrote)
    }

    fn transact(connection: &Connection, requests: Vec<Write>) -> (bool, Vec<Arrival<i64>>) {
        let (mut jobs, mut arrivals) = (Vec::<Box<dyn Job>>::new(), Vec::new());
        for request in requests {
            let (task, arrival) = Task::new(request);
            jobs.push(task);
            arrivals.push(arrival);
        }
        (run(connection, jobs), arrivals)
    }

    #[test]
    fn a_panic_costs_its_own_job_only() {
        let connection = table();
        let requests = vec![Write(1, wrote), Write(2, || panic!("on purpose")), Write(3, wrote)];
        let (committed, mut arrivals) = transact(&connection, requests);
        assert!(committed);
        assert_eq!(rows(&connection), [1, 3]);
        assert_eq!(arrivals[0].try_recv(), Ok(Ok(1)));
        assert!(matches!(arrivals[1].try_recv(), Ok(Err(CommitError::Unavailable(_)))));
        assert_eq!(arrivals[2].try_recv(), Ok(Ok(3)));
    }

    #[test]
    fn what_is_to_be_undone_leaves_nothing_but_its_answer() {
        let connection = table();
        let requests = vec![Write(1, wrote), Write(2, || Ok(Effect::Undo)), Write(3, wrote)];
        let (committed, mut arrivals) = transact(&connection, requests);
        assert!(committed);
        assert_eq!(rows(&connection), [1, 3]);
        assert_eq!(arrivals[1].try_recv(), Ok(Ok(2)));
    }

    #[test]
    fn an_error_of_one_is_not_that_of_others() {
        let connection = table();
        let (committed, mut arrivals) = transact(&connection, vec![Write(1, wrote), Write(1, wrote), Write(2, wrote)]);
        assert!(committed);
        assert_eq!(rows(&connection), [1, 2]);
        assert!(matches!(arrivals[1].try_recv(), Ok(Err(CommitError::Unavailable(_)))));
    }

    #[test]
    fn without_a_transaction_all_are_refused() {
        let connection = table();
        connection.execute_batch("BEGIN").expect("a transaction in the way");
        let (committed, mut arrivals) = transact(&connection, vec![Write(1, wrote), Write(2, wrote)]);
        assert!(!committed);
        for arrival in &mut arrivals {
            assert!(matches!(arrival.try_recv(), Ok(Err(CommitError::Unavailable(_)))));
        }
        assert!(rows(&connection).is_empty());
        assert!(connection.is_autocommit(), "what was in the way is gone");
    }

    #[test]
    fn who_has_left_is_passed_over() {
        let connection = table();
        let (left, arrival) = Task::new(Write(1, wrote));
        drop(arrival);
        let (stayed, mut arrival) = Task::new(Write(2, wrote));
        assert!(run(&connection, vec![left, stayed]));
        assert_eq!(rows(&connection), [2]);
        assert_eq!(arrival.try_recv(), Ok(Ok(2)));
    }
}
