//! One change set by itself: its conditional write, and the search for what is wrong in it.

use super::calls::{Calls, Told, told};
use super::failure::{self, Fate};
use super::pool::Connection;
use super::values::{One, Parameter, Waits};
use crate::{ChangeSet, CommitError, Verdict};

/// Tries when the server takes a commit back for the sake of another: a deadlock with somebody else's transactions, a
/// serialization failure.
pub(super) const TRIES: u32 = 3;

/// How a set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// As it is.
    Bold,
    /// Event by event, to find the one that breaks a rule of the database.
    Careful,
}

/// The call that writes a set, under its fences if it has any, and with its alarm if it sets one.
pub(super) fn call<'p>(
    calls: &'p Calls,
    one: &'p One<'_>,
    care: Care,
    waits: &'p Waits,
) -> (&'p str, Vec<Parameter<'p>>) {
    if one.is_alarmed() {
        let careful = if care == Care::Careful { &true } else { &false };
        return (&calls.commit_alarmed, one.commit_alarmed(careful, waits));
    }
    match (one.is_fenced(), care) {
        (false, Care::Bold) => (&calls.commit_one, one.commit(waits)),
        (false, Care::Careful) => (&calls.commit_carefully, one.commit(waits)),
        (true, Care::Bold) => (&calls.commit_fenced, one.commit_fenced(&false, waits)),
        (true, Care::Careful) => (&calls.commit_fenced, one.commit_fenced(&true, waits)),
    }
}

/// Commits a set in a transaction of its own.
pub(super) async fn commit(
    connection: &Connection,
    calls: &Calls,
    set: &ChangeSet,
    waits: Waits,
) -> Result<Told, CommitError> {
    let one = One::new(set);
    let (sql, parameters) = call(calls, &one, Care::Bold, &waits);
    let mut tries = 1;
    loop {
        let fate = match connection.change(sql, &parameters).await {
            Ok(rows) => return answer(&rows, set),
            Err(fate) => fate,
        };
        match fate {
            Fate::Yielded(_) if tries < TRIES => tries += 1,
            fate => return taken_back(connection, calls, set, waits, fate).await,
        }
    }
}

/// What it means that a commit failed. It has been taken back, unless its fate is unknown.
pub(super) async fn taken_back(
    connection: &Connection,
    calls: &Calls,
    set: &ChangeSet,
    waits: Waits,
    fate: Fate,
) -> Result<Told, CommitError> {
    match fate {
        Fate::Rejected(_) => carefully(connection, calls, set, waits).await,
        Fate::Locked => Ok(Told::Locked),
        fate => Err(fate.into()),
    }
}

/// Commits a set that breaks a rule of the database, event by event: which one does? Whatever else has become of the
/// record meanwhile is told as ever.
async fn carefully(connection: &Connection, calls: &Calls, set: &ChangeSet, waits: Waits) -> Result<Told, CommitError> {
    let one = One::new(set);
    let (sql, parameters) = call(calls, &one, Care::Careful, &waits);
    match connection.change(sql, &parameters).await {
        Ok(rows) => answer(&rows, set),
        // A rule that is looked at in the end: the set as a whole is at fault.
        Err(Fate::Rejected(reason)) => Ok(Told::Verdict(Verdict::Rejected { event: None, reason })),
        Err(Fate::Locked) => Ok(Told::Locked),
        Err(fate) => Err(fate.into()),
    }
}

/// Reads what a commit has answered. It has taken place if it says so, or if that cannot be read.
pub(super) fn answer(rows: &[tokio_postgres::Row], set: &ChangeSet) -> Result<Told, CommitError> {
    let row = rows.first().ok_or_else(|| CommitError::Unknown("the database gave no answer".to_owned()))?;
    told(row, set).map_err(|error| CommitError::Unknown(failure::explain(&error)))
}
