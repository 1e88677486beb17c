//! A PostgreSQL server of the test's own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::command::{command, run, try_run};
use crate::folder::Folder;
use crate::port;
use crate::process::{Process, tail};
use crate::programs;
use crate::session::Session;
use crate::template;
use crate::wait::{WAIT_MAX, poll};

/// What every server is told; where it listens follows on its command line.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "16MB"),
    ("max_connections", "200"),
    // Within the folder, so that nothing is left of a killed server.
    ("dynamic_shared_memory_type", "mmap"),
    // For a standby that was away for a while.
    ("wal_keep_size", "64MB"),
    ("log_line_prefix", "%m [%p] "),
];

/// Ports tried until a server has one.
const PORTS_MAX: usize = 10;

/// A PostgreSQL server: a folder, a free port of 127.0.0.1, ended when dropped.
///
/// Everybody is let in as the superuser `postgres`, without a password.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    port: u16,
    folder: Folder,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Its connections are closed, open transactions rolled back, everything written: `pg_ctl stop -m fast`.
    Fast,
    /// At once; the next start recovers from the log: `pg_ctl stop -m immediate`.
    Immediate,
}

impl Postgres {
    /// Starts a server that syncs what it commits.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further settings, as in `postgresql.conf`; values are quoted here.
    #[must_use]
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        init(&folder);
        configure(&folder, settings);
        Self::launch(folder)
    }

    /// Starts a server that has nothing in common with any other: another `system_identifier`.
    #[must_use]
    pub fn start_unrelated() -> Self {
        let folder = Folder::new();
        initdb(&folder);
        configure(&folder, &[]);
        Self::launch(folder)
    }

    /// Starts a server on a folder that is complete, on a free port.
    pub(crate) fn launch(folder: Folder) -> Self {
        let mut server = Self { process: None, port: 0, folder };
        for _ in 0..PORTS_MAX {
            server.port = port::free();
            match server.try_start() {
                Ok(()) => return server,
                Err(_) if server.port_is_taken() => {}
                Err(status) => panic!("the server ended ({status})\n{}", server.log_tail()),
            }
        }
        panic!("no free port was found\n{}", server.log_tail());
    }

    /// The port on 127.0.0.1; it stays the same when the server is restarted.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// 127.0.0.1 with [`Self::port`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates a database and returns its URL.
    pub fn database(&self, name: &str) -> String {
        self.execute(&format!("CREATE DATABASE \"{name}\" TEMPLATE template0"));
        self.url_of(name)
    }

    /// Executes statements in the database `postgres`, each in a transaction of its own unless they say otherwise, and
    /// returns the rows: one a line, columns separated by `|`.
    ///
    /// # Panics
    /// A statement failed; the message is the server's.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Executes statements like [`Self::execute`], up to the first that fails.
    ///
    /// # Errors
    /// What `psql` said: the server's message, or that there is no server.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        execute(&self.socket(), sql)
    }

    /// Opens a session in the database `postgres`.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::direct(&self.socket())
    }

    /// Stops the server and waits for its end.
    ///
    /// # Panics
    /// It is not running, or does not end.
    pub fn stop(&mut self, mode: StopMode) {
        let signal = match mode {
            StopMode::Fast => "INT",
            StopMode::Immediate => "QUIT",
        };
        let mut process = self.process.take().expect("the server is running");
        process.signal(signal);
        assert!(process.wait(), "the server does not stop\n{}", self.log_tail());
    }

    /// `kill -9` for all processes of the server, and waits until they are gone.
    ///
    /// # Panics
    /// It is not running.
    pub fn kill(&mut self) {
        self.process.take().expect("the server is running").kill();
    }

    /// Starts the server again, on the same port, and waits until it accepts connections; stops it first if it runs.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        if self.process.is_some() {
            self.stop(StopMode::Fast);
        }
        // Somebody else may have the port for a moment.
        let started = poll(WAIT_MAX, || match self.try_start() {
            Ok(()) => Some(()),
            Err(_) if self.port_is_taken() => None,
            Err(status) => panic!("the server ended ({status})\n{}", self.log_tail()),
        });
        assert!(started.is_some(), "port {} is taken\n{}", self.port, self.log_tail());
    }

    /// SIGSTOP for all processes of the server: it answers nothing, but its connections stay.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// What the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.log()).unwrap_or_default()
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("the server is running")
    }

    /// The way in that is open whatever the server asks of connections by TCP.
    fn socket(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.folder.path().display(), self.port)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn log_tail(&self) -> String {
        tail(&self.folder.log())
    }

    /// Starts the process and waits until it accepts connections, or has ended.
    fn try_start(&mut self) -> Result<(), ExitStatus> {
        let (folder, port) = (&self.folder, self.port.to_string());
        // Of a process that is gone for certain; left there, it would name a process id that may be somebody's.
        let _none = fs::remove_file(pid_file(folder));
        let mut command = folder.command(&programs::of_postgres("postgres"));
        command.arg("-D").arg(folder.work()).args(["-p", &port]).arg("-k").arg(folder.path());
        let mut process = Process::start(command, &folder.log());
        let outcome = poll(WAIT_MAX, || match process.ended() {
            Some(status) => Some(Err(status)),
            None => accepts(folder, process.pid()).then_some(Ok(())),
        });
        let outcome = outcome.unwrap_or_else(|| panic!("the server does not accept connections\n{}", self.log_tail()));
        outcome.map(|()| self.process = Some(process))
    }

    /// Why the last start failed.
    fn port_is_taken(&self) -> bool {
        self.log_tail().lines().rev().take(8).any(|line| line.contains("could not bind"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
        if let Some(mut process) = self.process.take() {
            process.resume();
            process.signal("QUIT");
            if !process.wait() {
                process.kill();
            }
        }
    }
}

/// Executes statements through `psql`; `target` is a URL or a connection string.
pub(crate) fn execute(target: &str, sql: &str) -> Result<String, String> {
    let mut psql = command(&programs::of_postgres("psql"));
    psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", target, "-f", "-"]);
    try_run(psql, sql).map(|rows| rows.trim_end_matches('\n').to_owned())
}

pub(crate) fn init(folder: &Folder) {
    if !template::copy_to(folder) {
        initdb(folder);
    }
}

pub(crate) fn initdb(folder: &Folder) {
    let mut initdb = folder.command(&programs::of_postgres("initdb"));
    initdb.arg("-D").arg(folder.work()).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]);
    // Small pieces of log: a server that lives for seconds need not write 16 MB before it begins.
    initdb.args(["--no-sync", "--no-instructions", "--wal-segsize=1"]);
    run(initdb, "");
}

pub(crate) fn configure(folder: &Folder, settings: &[(&str, &str)]) {
    let lines =
        SETTINGS.iter().chain(settings).map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''")));
    let path = folder.work().join("postgresql.conf");
    let written = fs::read_to_string(&path).expect("initdb has written it");
    folder.write(&path, written + &lines.collect::<String>());
}

fn pid_file(folder: &Folder) -> PathBuf {
    folder.work().join("postmaster.pid")
}

/// Whether the server says so: as `pg_ctl` finds out, by the first and the eighth line of its file.
fn accepts(folder: &Folder, pid: u32) -> bool {
    let text = fs::read_to_string(pid_file(folder)).unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    lines.next() == Some(&pid.to_string()) && matches!(lines.nth(6), Some("ready" | "standby"))
}
