//! What a database's error means to whoever asked.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::{CommitError, ReadError};

/// What became of a call that was sent and came back with an error.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The server has taken it back; it breaks a rule of the database.
    Rejected(String),
    /// The server has taken it back: another session has what it needs locked.
    Locked,
    /// The server has taken it back for the sake of another transaction: it may be sent again.
    Yielded(String),
    /// The server has taken it back, for reasons of its own.
    TakenBack(String),
    /// The connection is gone, or the session was ended: it may have been committed.
    Unknown(String),
}

/// Reads the error of a call that commits by itself, or of COMMIT.
pub(super) fn fate(error: &Error) -> Fate {
    let Some(told) = error.as_db_error() else { return Fate::Unknown(explain(error)) };
    // A session that is ended while it waits for a standby has committed already (postgres: SyncRepWaitForLSN), so an
    // error that ends the session says nothing. Neither does one while the transaction is being committed.
    if ends_session(told) || *told.code() == SqlState::TRANSACTION_RESOLUTION_UNKNOWN {
        return Fate::Unknown(explain(error));
    }
    fate_of(told, error)
}

/// Reads the error of a call within an open transaction, whose COMMIT was sent right after it.
pub(super) fn fate_within(error: &Error) -> Fate {
    match error.as_db_error() {
        // The session was ended for its silence, so before it heard of either. The end of a session for another reason
        // may be a pooler's word, who answers the first of two questions when both have gone to the server.
        Some(told) if ends_session(told) && !was_silent(told) => Fate::Unknown(explain(error)),
        Some(told) => fate_of(told, error),
        None => Fate::Unknown(explain(error)),
    }
}

/// The codes of the bounds on idling in a transaction, and on a transaction as a whole.
fn was_silent(told: &DbError) -> bool {
    matches!(told.code().code(), "25P03" | "25P04")
}

fn fate_of(told: &DbError, error: &Error) -> Fate {
    match told.code() {
        code if *code == SqlState::LOCK_NOT_AVAILABLE => Fate::Locked,
        code if *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE => {
            Fate::Yielded(explain(error))
        }
        _ if is_rejection(told) => Fate::Rejected(told.message().to_owned()),
        _ => Fate::TakenBack(explain(error)),
    }
}

fn ends_session(told: &DbError) -> bool {
    // Poolers leave the severity out that is the same in every language.
    matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
}

/// Whether the session is over, or its state is not known.
pub(super) fn breaks(error: &Error) -> bool {
    error.as_db_error().is_none_or(ends_session)
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

impl From<Fate> for CommitError {
    /// Where a rejection cannot be.
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Unknown(detail) => Self::Unknown(detail),
            Fate::Rejected(detail) | Fate::Yielded(detail) | Fate::TakenBack(detail) => Self::Unavailable(detail),
            Fate::Locked => Self::Unavailable("another session has it locked".to_owned()),
        }
    }
}

/// A read's error.
pub(super) fn read_error(error: &Error) -> ReadError {
    ReadError::Unavailable(explain(error))
}
