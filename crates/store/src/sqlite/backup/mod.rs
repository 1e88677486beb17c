//! Backups: one SQLite file with the tables of the embedded store and a seal, whichever store it was made of, so that it
//! can be restored into any.

mod check;
mod make;
mod restore;
mod seal;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

use super::schema;
use crate::{OpenError, ReadError};

pub(crate) use make::{Awaited, create, finish};
pub(in crate::sqlite) use make::{LongReads, make};
pub use restore::restore_sqlite;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Records.
    pub records: u64,
    /// Their events.
    pub events: u64,
    /// Their idempotency keys.
    pub keys: u64,
    /// SHA-256 of all of these, in hexadecimal digits: the same for the same content, whatever store it lies in.
    pub content: String,
}

/// A backup that was looked through and found to be whole.
#[derive(Debug)]
pub struct BackupFile {
    path: PathBuf,
    summary: BackupSummary,
}

/// Why there is no backup, or why it is not restored.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file cannot be read or written.
    #[error("{}: {detail}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// The file is no backup, or is not as it was made.
    #[error("{} is not a whole backup: {detail}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// There is something where it is to be restored.
    #[error("{store} has {records} records: restore into an empty store, or replace what is there with --replace")]
    NotEmpty {
        /// Which store.
        store: String,
        /// What is there.
        records: u64,
    },
}

impl BackupFile {
    /// Looks through a backup: its structure, each row against the seal, and each record's events, which are to be without a
    /// gap. Blocks for as long as it takes to read the file twice.
    ///
    /// # Errors
    /// [`BackupError`]: it is not whole.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let summary = check::whole(path)?;
        Ok(Self { path: path.to_owned(), summary })
    }

    /// What it holds.
    pub fn summary(&self) -> &BackupSummary {
        &self.summary
    }

    /// Hands the events of each record to `look`, records by name and events by version.
    ///
    /// # Errors
    /// [`BackupError`]: it cannot be read, or the first thing that `look` found wrong.
    pub fn look_through(
        &self,
        look: impl FnMut(&crate::RecordKey, &[crate::Event]) -> Result<(), String>,
    ) -> Result<(), BackupError> {
        check::look_through(&self.path, look)
    }

    /// A connection that reads it.
    pub(crate) fn reader(&self) -> Result<Connection, BackupError> {
        open_reader(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn open_reader(path: &Path) -> Result<Connection, BackupError> {
    // A file that is not there would be told as one that cannot be opened.
    if !path.is_file() {
        return Err(BackupError::File { path: path.to_owned(), detail: "there is no such file".to_owned() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| damaged(path, &error))?;
    let told = connection.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0));
    match told.map_err(|error| damaged(path, &error))? {
        schema::APPLICATION_ID => Ok(connection),
        _ => Err(BackupError::Damaged { path: path.to_owned(), detail: "it is a file of another application".into() }),
    }
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> BackupError {
    BackupError::Damaged { path: path.to_owned(), detail: error.to_string() }
}

pub(crate) fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> BackupError {
    BackupError::File { path: path.to_owned(), detail: error.to_string() }
}
