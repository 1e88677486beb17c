//! A server on a store of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_testbed::{TestDatabase, shared_database};
use tempfile::TempDir;

use super::api::Api;
use super::cli::Cli;
use super::program::{Ended, Program};

/// Far above what a start takes, even in a busy machine.
const START_MAX: Duration = Duration::from_secs(30);

/// Far above what an end takes, even in a busy machine.
pub(crate) const END_MAX: Duration = Duration::from_secs(60);

/// The place of a store, gone when dropped.
pub(crate) struct Store {
    /// None: a file in `dir`.
    database: Option<TestDatabase>,
    /// Where nodes and commands work.
    dir: TempDir,
}

/// A server that is listening; killed when dropped.
pub(crate) struct Server {
    pub(crate) program: Program,
    url: String,
    dir: PathBuf,
}

impl Store {
    /// In a file of its own.
    pub(crate) fn new() -> Self {
        Self { database: None, dir: TempDir::new().expect("a folder for the store") }
    }

    /// In a PostgreSQL database of its own.
    pub(crate) fn shared() -> Self {
        Self { database: Some(shared_database()), ..Self::new() }
    }

    /// The database that it is in.
    pub(crate) fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("it is in a database")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The database's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("lockkeeper.db")
    }

    /// For `--store`.
    pub(crate) fn url(&self) -> String {
        match &self.database {
            Some(database) => database.url(),
            None => format!("sqlite://{}", self.file().display()),
        }
    }

    /// Starts a server on it, on a free port.
    pub(crate) fn serve(&self) -> Server {
        Server::start(self.dir(), &self.url())
    }

    /// Starts a server that is not expected to listen.
    pub(crate) fn start(&self, listen: &str) -> Program {
        Program::start(self.dir(), &["serve", "--listen", listen, "--store", &self.url()])
    }

    /// The command line without a server.
    pub(crate) fn cli(&self) -> Cli {
        Cli::new(self.dir(), "http://127.0.0.1:9")
    }
}

/// What stands before the fields of a log line.
pub(crate) fn address(rest: &str) -> String {
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

impl Server {
    /// Starts a server on a store, on a free port.
    pub(crate) fn start(dir: &Path, store: &str) -> Self {
        Self::start_with(dir, store, &[])
    }

    /// With further arguments.
    pub(crate) fn start_with(dir: &Path, store: &str, args: &[&str]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--store", store], args].concat();
        let mut program = Program::start(dir, &all);
        let address = address(&program.wait_for("listening on http://", START_MAX));
        Self { program, url: format!("http://{address}"), dir: dir.to_owned() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(&self.url)
    }

    pub(crate) fn cli(&self) -> Cli {
        Cli::new(&self.dir, &self.url)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.program.kill();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(mut self) -> Ended {
        self.program.signal("TERM");
        self.program.wait(END_MAX)
    }
}
