//! Errors by what the caller can do.

use std::path::PathBuf;

use thiserror::Error;

/// A commit that has no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// Nothing was written: it may be sent again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The commit was sent and no answer came: only the store itself can tell, by the commit id.
    #[error("the fate of the commit is not known: {0}")]
    Unknown(String),
}

/// A read that did not succeed; it may be tried again, except after `BadCursor`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The store did not answer.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The cursor is not one that this list gave out.
    #[error("the cursor {0:?} is not one of this list: start again without it")]
    BadCursor(String),
}

/// A store that cannot be opened. Each message says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{path} is in use by another lockkeeper{}: stop that one, or give this one a store of its own with --store",
        holder.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The other process, where it could be read.
        holder: Option<u32>,
    },
    /// It was written by a newer release.
    #[error(
        "{store} has schema {found}, and this lockkeeper knows schemas up to {known}: run the newer lockkeeper that wrote it, \
         or restore a backup made before the upgrade"
    )]
    TooNew {
        /// Which: the path of a file, or a database's URL without its password.
        store: String,
        /// The schema found.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// It is a file of something else.
    #[error("{path} is not a lockkeeper store ({detail}): give another path with --store, or move that file away")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// It cannot be reached or used.
    #[error("cannot open {path}: {detail}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// The URL of a database cannot be read.
    #[error("--store: {detail}; write for example {example}")]
    BadUrl {
        /// What is wrong, without the password.
        detail: String,
        /// How one looks.
        example: &'static str,
    },
    /// A database cannot be reached or used.
    #[error("cannot use {url}: {detail}")]
    NoDatabase {
        /// Which, without the password.
        url: String,
        /// Why, and what to do.
        detail: String,
    },
}
