//! A process of the binary, seen by what it writes to standard error.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TrySendError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A running process; ended when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    log: Arc<Mutex<String>>,
}

/// How a process ended.
pub(crate) struct Ended {
    /// None: by a signal.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard error.
    pub(crate) log: String,
}

/// Lines that nobody has waited for yet: far more than a test's server writes.
const LINES_MAX: usize = 10_000;

/// The binary, free of what the environment of the tests says.
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOCKKEEPER_")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").current_dir(dir);
    command
}

impl Program {
    /// Starts the binary in `dir`.
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = command(dir);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = mpsc::sync_channel(LINES_MAX);
        let written = log.clone();
        // Ends with the process, when the pipe closes: then `lines` is cut off.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
                drop(log);
                // A line beyond the bound is in the log only; the process must not wait for its reader.
                if let Err(TrySendError::Disconnected(_)) = sender.try_send(line) {
                    break;
                }
            }
        });
        Self { child, lines, log }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard error until now.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line with `text` and returns what follows it in that line.
    pub(crate) fn wait_for(&mut self, text: &str, at_most: Duration) -> String {
        let deadline = Instant::now() + at_most;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.split_once(text) {
                    Some((_, rest)) => return rest.to_owned(),
                    None => continue,
                },
                Err(error) => panic!("no line with {text:?}: {error}\n{}", self.log()),
            }
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // An error means that it has ended already.
        let _gone = self.child.kill();
        self.child.wait().expect("a child can be waited for");
    }

    /// Sends a signal, for example `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
        assert!(sent.success(), "kill -s {name} {pid}");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Ended {
        let deadline = Instant::now() + at_most;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("still running after {at_most:?}\n{}", self.log()),
            }
        }
        let status: ExitStatus = self.child.wait().expect("a child can be waited for");
        Ended { code: status.code(), log: self.log() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("-- the log of process {} --\n{}", self.pid(), self.log());
        }
    }
}
