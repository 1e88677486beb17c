//! What an error of SQLite means, and which of them end the process.

use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
use rusqlite::{Error, ErrorCode};

/// Where the writer was when an error came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before COMMIT: nothing has been promised.
    Statement,
    /// In COMMIT or in a checkpoint: bytes are on their way to the disk.
    Sync,
}

/// The reason, if it is one of what was written (a constraint, a size, a type) and not of the store.
pub(super) fn rejection(error: &Error) -> Option<String> {
    match error.sqlite_error_code()? {
        ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch => Some(error.to_string()),
        _ => None,
    }
}

/// Ends the process if what was acknowledged can no longer be vouched for.
///
/// A failed sync is never tried again: the kernel may drop the dirty pages and report the next sync as good, although
/// the bytes never reached the disk. PostgreSQL learned so in 2018 ("fsyncgate",
/// <https://wiki.postgresql.org/wiki/Fsync_Errors>) and ends itself since. The next start reads what is really there
/// and writes it out again (`connection::settle_log`).
///
/// A COMMIT that fails for any other reason than a full disk or a lock may have left a complete transaction in the log
/// that this process does not see and a recovery would find: a ghost, if it were called "not written". A full disk fails
/// the write of the commit's own page, whose checksum is then wrong, so nothing is found.
pub(super) fn end_if_fatal(error: &Error, phase: Phase) {
    if is_fatal(error, phase) {
        tracing::error!(%error, ?phase, "the disk did not keep what was written to it: ending the process");
        std::process::abort();
    }
}

fn is_fatal(error: &Error, phase: Phase) -> bool {
    let Some(cause) = error.sqlite_error() else { return false };
    match cause.code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
        ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => false,
        _ if phase == Phase::Sync => true,
        // A statement syncs too, when it starts the log again.
        _ => matches!(cause.extended_code, SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn error(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_a_full_disk_and_a_lock_are_survived_in_commit() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT] {
            assert!(!is_fatal(&error(code), Phase::Sync), "{code}");
        }
        for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CORRUPT, ffi::SQLITE_NOMEM] {
            assert!(is_fatal(&error(code), Phase::Sync), "{code}");
        }
    }

    #[test]
    fn before_commit_only_a_failed_sync_and_damage_are_fatal() {
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            assert!(is_fatal(&error(code), Phase::Statement), "{code}");
        }
        for code in [ffi::SQLITE_IOERR_READ, ffi::SQLITE_NOMEM, ffi::SQLITE_FULL, ffi::SQLITE_CONSTRAINT] {
            assert!(!is_fatal(&error(code), Phase::Statement), "{code}");
        }
    }

    #[test]
    fn a_constraint_is_the_fault_of_what_was_written() {
        assert!(rejection(&error(ffi::SQLITE_CONSTRAINT_CHECK)).is_some());
        assert!(rejection(&error(ffi::SQLITE_TOOBIG)).is_some());
        assert!(rejection(&error(ffi::SQLITE_FULL)).is_none());
    }
}
