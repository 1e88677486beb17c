//! A Redis server of the test's own.

mod client;
mod clock;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitStatus;

pub use self::client::Reply;
use self::client::{fields, try_command};
use self::clock::ServerClock;
use crate::folder::Folder;
use crate::port;
use crate::process::{Process, tail};
use crate::programs;
use crate::wait::{WAIT_MAX, poll};

/// What every server is told: nothing is kept on disk, and nothing is thrown away.
const SETTINGS: &[&str] =
    &["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"];

/// Ports tried until a server has one.
const PORTS_MAX: usize = 10;

/// A Redis server: a folder, a free port of 127.0.0.1, ended when dropped.
#[derive(Debug)]
pub struct Redis {
    process: Option<Process>,
    port: u16,
    arguments: Vec<String>,
    clock: Option<ServerClock>,
    folder: Folder,
}

impl Redis {
    /// Starts a server that forgets everything when it ends.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments, for example `["--appendonly", "yes"]`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::launch(arguments, None, Folder::new())
    }

    /// Starts a server whose time of day the test has in its hands: [`Self::set_clock`].
    ///
    /// # Panics
    /// It does not start, or there is no C compiler.
    #[must_use]
    pub fn start_with_clock() -> Self {
        let folder = Folder::new();
        Self::launch(&[], Some(ServerClock::new(&folder)), folder)
    }

    /// Starts a server in a folder that has what these arguments name.
    pub(crate) fn start_in(folder: Folder, arguments: &[&str]) -> Self {
        Self::launch(arguments, None, folder)
    }

    fn launch(arguments: &[&str], clock: Option<ServerClock>, folder: Folder) -> Self {
        let arguments = SETTINGS.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { process: None, port: 0, arguments, clock, folder };
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

    /// Starts a replica of this server, with its arguments, and returns once it has what this one has.
    ///
    /// # Panics
    /// It does not start, or does not catch up.
    #[must_use]
    pub fn replica(&self) -> Self {
        let port = self.port.to_string();
        let arguments: Vec<&str> =
            self.arguments.iter().map(String::as_str).chain(["--replicaof", "127.0.0.1", &port]).collect();
        let replica = Self::start_with(&arguments[SETTINGS.len()..]);
        let follows = poll(WAIT_MAX, || (replica.info("master_link_status")? == "up").then_some(()));
        assert!(follows.is_some(), "the replica does not follow\n{}", replica.log_tail());
        replica
    }

    /// Makes a replica a server that takes changes, and leaves its master behind.
    pub fn promote(&self) {
        self.command(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Sets the server's time of day, in milliseconds since 1970. From then on it stands still.
    ///
    /// # Panics
    /// The server was not started with [`Self::start_with_clock`].
    pub fn set_clock(&self, millis: i64) {
        self.clock.as_ref().expect("the server was started with a clock").set(millis);
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

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Asks the server on a connection of its own.
    ///
    /// # Panics
    /// It does not answer, or answers with an error.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", self.log_tail()))
    }

    /// Asks like [`Self::command`].
    ///
    /// # Errors
    /// What the server said, or that there is no answer.
    pub fn try_command(&self, words: &[&str]) -> Result<Reply, String> {
        try_command(self.address(), words)
    }

    /// One field of `INFO everything`; none: there is no such field, or no answer.
    #[must_use]
    pub fn info(&self, field: &str) -> Option<String> {
        let text = self.try_command(&["INFO", "everything"]).ok()?.text()?;
        fields(&text).find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
    }

    /// How often a command was called since the start or `CONFIG RESETSTAT`, by scripts as well.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        self.all_calls().into_iter().find(|(name, _)| name == command).map_or(0, |(_, calls)| calls)
    }

    /// [`Self::calls`] of all commands that were called at all.
    ///
    /// # Panics
    /// The server does not answer.
    #[must_use]
    pub fn all_calls(&self) -> Vec<(String, u64)> {
        let text = self.command(&["INFO", "commandstats"]).text().expect("a text");
        let stats = fields(&text).filter_map(|(name, stats)| {
            let calls = stats.split(',').find_map(|part| part.strip_prefix("calls="))?;
            Some((name.strip_prefix("cmdstat_")?.to_owned(), calls.parse().expect("a number")))
        });
        stats.collect()
    }

    /// Ends the server as its service would: what is to be kept on disk is written.
    ///
    /// # Panics
    /// It is not running, or does not end.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("the server is running");
        process.signal("TERM");
        assert!(process.wait(), "the server does not stop\n{}", self.log_tail());
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// It is not running.
    pub fn kill(&mut self) {
        self.process.take().expect("the server is running").kill();
    }

    /// Starts the server again, on the same port and with what it has on disk, and waits until it answers; stops it
    /// first if it runs.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        if self.process.is_some() {
            self.stop();
        }
        // Somebody else may have the port for a moment.
        let started = poll(WAIT_MAX, || match self.try_start() {
            Ok(()) => Some(()),
            Err(_) if self.port_is_taken() => None,
            Err(status) => panic!("the server ended ({status})\n{}", self.log_tail()),
        });
        assert!(started.is_some(), "port {} is taken\n{}", self.port, self.log_tail());
    }

    /// Restarts like [`Self::restart`], with nothing on disk.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart_empty(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        for entry in fs::read_dir(self.folder.work()).expect("its folder is there").filter_map(Result::ok) {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        self.restart();
    }

    /// SIGSTOP: it answers nothing, but its connections stay.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.running().resume();
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("the server is running")
    }

    fn log_tail(&self) -> String {
        tail(&self.folder.log())
    }

    /// Starts the process and waits until it answers, or has ended.
    fn try_start(&mut self) -> Result<(), ExitStatus> {
        let mut command = self.folder.command(&programs::of_system("redis-server"));
        command.args(["--port", &self.port.to_string()]).args(&self.arguments);
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        let mut process = Process::start(command, &self.folder.log());
        let pid = process.pid().to_string();
        let outcome = poll(WAIT_MAX, || match process.ended() {
            Some(status) => Some(Err(status)),
            // Somebody else's server may answer there; one that still loads its data says so in an error.
            None => (self.info("process_id")? == pid && self.try_command(&["PING"]).is_ok()).then_some(Ok(())),
        });
        let outcome = outcome.unwrap_or_else(|| panic!("the server does not answer\n{}", self.log_tail()));
        outcome.map(|()| self.process = Some(process))
    }

    /// Why the last start failed.
    fn port_is_taken(&self) -> bool {
        self.log_tail().lines().rev().take(8).any(|line| line.contains("Address already in use"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }
}
