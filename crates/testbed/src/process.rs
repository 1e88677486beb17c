//! A server's process and its children.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::command::run;
use crate::wait::{WAIT_MAX, poll};

/// Lines of a log that a panic shows.
const TAIL: usize = 40;

/// A running server; ended by whoever has it, or by the guard of its folder.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it; what it writes is appended to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let file = open(log);
        let again = file.try_clone().expect("a file can be shared");
        command.stdin(Stdio::null()).stdout(file).stderr(again);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end; false: it still runs.
    pub(crate) fn wait(&mut self) -> bool {
        poll(WAIT_MAX, || self.ended()).is_some()
    }

    /// Sends a signal to the process alone, for example `INT`.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, &[self.pid()]);
    }

    /// Stops the process, then all its children: so that there are no new ones.
    pub(crate) fn pause(&self) -> Vec<u32> {
        self.signal("STOP");
        let children = children(self.pid());
        signal("STOP", &children);
        children
    }

    /// Undoes [`Self::pause`].
    pub(crate) fn resume(&self) {
        signal("CONT", &children(self.pid()));
        self.signal("CONT");
    }

    /// SIGKILL for it and all its children, and waits until they are gone.
    pub(crate) fn kill(&mut self) {
        // While the parent is stopped no process id can come to mean another process.
        let children = self.pause();
        signal("KILL", &children);
        crate::command::end(&mut self.child);
        let gone = poll(WAIT_MAX, || children.iter().all(|pid| !is_alive(*pid)).then_some(()));
        assert!(gone.is_some(), "still there after SIGKILL: {children:?}");
    }
}

/// The end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = text.lines().collect();
    format!("-- the end of {} --\n{}", log.display(), lines[lines.len().saturating_sub(TAIL)..].join("\n"))
}

fn open(log: &Path) -> File {
    let file = OpenOptions::new().create(true).append(true).open(log);
    file.unwrap_or_else(|error| panic!("{}: {error}", log.display()))
}

/// Sends a signal; those that have ended meanwhile do not hear it.
fn signal(name: &str, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$@\" 2>/dev/null || true", "kill", name]).args(pids.iter().map(u32::to_string));
    run(command, "");
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("Linux has /proc").filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| state(*pid).is_some_and(|(_, its)| its == parent)).collect()
}

/// A dead process may still be listed until its parent has asked for it.
pub(crate) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// A process's state and parent, which follow its name in parentheses.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
