//! What a database's error means to whoever asked.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::{CommitError, ReadError};

/// What became of a call that was sent and came back with an error.
#[derive(Debug)]
pub(super) enum Fate {
    /// The server has taken it back; it breaks a rule of the database.
    Rejected(String),
    /// The server has taken it back: another session has what it needs locked.
    Locked,
    /// The server has taken it back, for reasons of its own.
    TakenBack(String),
    /// The connection is gone, or the session was ended: it may have been committed.
    Unknown(String),
}

/// Reads an error of a call.
pub(super) fn fate(error: &Error) -> Fate {
    let Some(told) = error.as_db_error() else { return Fate::Unknown(explain(error)) };
    // A session that is ended while it waits for a standby has committed already (postgres: SyncRepWaitForLSN), so an
    // error that ends the session says nothing. Neither does one while the transaction is being committed.
    let ends_session = matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None);
    if ends_session || *told.code() == SqlState::TRANSACTION_RESOLUTION_UNKNOWN {
        return Fate::Unknown(explain(error));
    }
    if *told.code() == SqlState::LOCK_NOT_AVAILABLE {
        return Fate::Locked;
    }
    if is_rejection(told) { Fate::Rejected(told.message().to_owned()) } else { Fate::TakenBack(explain(error)) }
}

/// Errors that the same data meets again: classes 22 (data), 23 (integrity), 44 (check option), 54 (limits), and what a
/// trigger raises.
fn is_rejection(told: &DbError) -> bool {
    let class = told.code().code().get(..2);
    matches!(class, Some("22" | "23" | "44" | "54")) || *told.code() == SqlState::RAISE_EXCEPTION
}

/// The error with its cause: the driver's own text says "db error" only.
pub(super) fn explain(error: &Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{} ({})", told.message(), told.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// A commit's error where a rejection cannot be.
pub(super) fn commit_error(error: &Error) -> CommitError {
    match fate(error) {
        Fate::Unknown(detail) => CommitError::Unknown(detail),
        Fate::Rejected(detail) | Fate::TakenBack(detail) => CommitError::Unavailable(detail),
        Fate::Locked => CommitError::Unavailable("another session has it locked".to_owned()),
    }
}

/// A read's error.
pub(super) fn read_error(error: &Error) -> ReadError {
    ReadError::Unavailable(explain(error))
}
