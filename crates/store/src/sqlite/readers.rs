//! The pool of reading connections.
//!
//! Each read is short and runs on a thread for blocking work. A read that starts after a commit was answered sees it: a
//! connection takes its snapshot with its first statement (<https://www.sqlite.org/isolation.html>).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection;
use crate::ReadError;

/// How a read ends other than well.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// SQLite's answer.
    Sqlite(rusqlite::Error),
    /// What the caller is to be told.
    Told(ReadError),
}

impl From<rusqlite::Error> for ReadFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    wait: Duration,
    size: u32,
    permits: Arc<Semaphore>,
    // A std mutex: held for a push or a pop, never over a read or an await.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// A pool that opens its connections when they are first needed.
    pub(super) fn new(path: PathBuf, size: usize, wait: Duration) -> Self {
        let size = size.clamp(1, 64);
        Self {
            path,
            wait,
            size: size as u32,
            permits: Arc::new(Semaphore::new(size)),
            idle: Mutex::new(Vec::with_capacity(size)),
        }
    }

    /// Runs `read` on a connection of the pool.
    pub(super) async fn run<T, F>(self: &Arc<Self>, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadFailure> + Send + 'static,
    {
        timeout(self.wait, self.run_unbounded(read))
            .await
            .unwrap_or_else(|_| Err(ReadError::Unavailable(format!("no answer within {:?}", self.wait))))
    }

    async fn run_unbounded<T, F>(self: &Arc<Self>, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadFailure> + Send + 'static,
    {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(ReadError::Unavailable("the store is closed".to_owned()));
        };
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let result = readers.read(read);
            // Given back with the connection, not when a caller that may have left looks at the result.
            drop(permit);
            result
        });
        match task.await {
            Ok(result) => result,
            Err(error) => Err(ReadError::Unavailable(format!("the read did not end: {error}"))),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ReadFailure>) -> Result<T, ReadError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let result = match idle {
            Some(connection) => Ok(connection),
            None => connection::open_reader(&self.path),
        };
        let connection = result.map_err(unavailable)?;
        match read(&connection) {
            Ok(value) => {
                self.keep(connection);
                Ok(value)
            }
            Err(ReadFailure::Told(error)) => {
                self.keep(connection);
                Err(error)
            }
            // The connection is closed: the next read begins with a fresh one.
            Err(ReadFailure::Sqlite(error)) => Err(unavailable(error)),
        }
    }

    fn keep(&self, connection: Connection) {
        // Not one in the middle of a snapshot: it would keep the log from being emptied.
        if connection.is_autocommit() && !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    /// Refuses further reads, waits for those under way (at most `wait`) and closes the connections.
    pub(super) async fn close(&self) {
        let all = timeout(self.wait, self.permits.acquire_many(self.size)).await;
        self.permits.close();
        drop(all);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn unavailable(error: rusqlite::Error) -> ReadError {
    tracing::warn!(%error, "a read failed");
    ReadError::Unavailable(error.to_string())
}
