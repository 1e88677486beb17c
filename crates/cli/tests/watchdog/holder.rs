//! `lock run` without its lock, in a process of its own: this test binary, started again.
//!
//! The child is the test `child` below, which does nothing unless the environment gives it a script. It keeps the script
//! guarded, and exits as `lock run` does. Each time that it moves the deadline it says so on standard error.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use lockkeeper_locks::{Clock, Moment, SystemClock};

use crate::lock_run::{Deadline, Guarded, Launch, Signals, SpawnError};
use crate::marked::{MARK, Mark};

const COMMAND: &str = "GUARDED_COMMAND";
/// Between the words of the command.
const SEPARATOR: &str = "\u{1f}";
const TTL: &str = "GUARDED_TTL_MS";
const RENEWS: &str = "GUARDED_RENEWS";
const AT_MOST: &str = "GUARDED_AT_MOST_MS";

/// Long enough for what is done at its end, on a busy machine.
const TTL_MS: &str = "4000";

/// The exit code where the deadline came.
pub(crate) const LOST: i32 = 76;

/// What the child says with each deadline, before its nanoseconds.
const VALID_UNTIL: &str = "valid until ";

/// How the command is to be held.
pub(crate) struct Holding {
    command: Command,
    mark: Mark,
}

/// A running holder; killed when dropped, and its command with it.
pub(crate) struct Holder {
    pub(crate) child: Child,
    errors: Lines<BufReader<ChildStderr>>,
    pub(crate) mark: Mark,
    /// The last deadline that was heard of.
    pub(crate) valid_until: Moment,
}

impl Holding {
    /// Holds what `sh` does with this script.
    pub(crate) fn script(script: &str) -> Self {
        Self::command(&["sh", "-c", script])
    }

    pub(crate) fn command(words: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mark = Mark::new();
        command.args(["holder::child", "--exact", "--nocapture"]).env(COMMAND, words.join(SEPARATOR));
        command.env(TTL, TTL_MS).env(RENEWS, "yes").env(MARK, &mark.0);
        Self { command, mark }
    }

    /// It is not renewed.
    pub(crate) fn without_renewals(mut self) -> Self {
        self.command.env(RENEWS, "no");
        self
    }

    /// Ended after so long.
    pub(crate) fn at_most(mut self, at_most: Duration) -> Self {
        self.command.env(AT_MOST, at_most.as_millis().to_string());
        self
    }

    /// Started by these words, which end by executing what follows them.
    pub(crate) fn under(mut self, words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.command.get_program()).args(self.command.get_args());
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.command = command;
        self
    }

    /// In a terminal of its own, where `shell` starts it as `$HOLD`. Each of `keys` is typed once the terminal shows the
    /// text before it. What the terminal showed in all.
    pub(crate) fn in_a_terminal(self, shell: &str, keys: &[(&str, &str)]) -> String {
        let program = self.command.get_program().to_str().unwrap();
        let words: Vec<&str> = self.command.get_args().map(|word| word.to_str().unwrap()).collect();
        let mut command = Command::new("script");
        command.args(["-qec", shell, "/dev/null"]).env("SHELL", "/bin/bash");
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("HOLD", format!("{program} {}", words.join(" ")));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut typed, mut shown) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut text = String::new();
        for (awaited, keys) in keys {
            while !text.contains(awaited) {
                let mut bytes = [0; 1024];
                let read = shown.read(&mut bytes).unwrap();
                assert!(read > 0, "no {awaited:?}: {text}");
                text.push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
            typed.write_all(keys.as_bytes()).unwrap();
        }
        shown.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        self.mark.assert_gone();
        text
    }

    /// Returns once the script has said `ready` on standard error.
    pub(crate) fn start(mut self) -> Holder {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut holder = Holder { child, errors, mark: self.mark, valid_until: Moment::default() };
        holder.read_until("ready");
        holder
    }

    /// Starts it and waits for its end: its exit code, and what it wrote to standard output.
    pub(crate) fn run(mut self) -> (Option<i32>, String) {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let output = self.command.spawn().unwrap().wait_with_output().unwrap();
        self.mark.assert_gone();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

impl Holder {
    /// Reads standard error until a line is `text`.
    fn read_until(&mut self, text: &str) {
        loop {
            let line = self.errors.next().unwrap_or_else(|| panic!("no line {text:?}")).unwrap();
            self.note(&line);
            if line == text {
                return;
            }
        }
    }

    /// Reads standard error until the deadline has moved.
    pub(crate) fn await_renewal(&mut self) {
        let before = self.valid_until;
        while self.valid_until == before {
            let line = self.errors.next().expect("it is renewed").unwrap();
            self.note(&line);
        }
    }

    /// Reads what it still says until it ends.
    pub(crate) fn read_rest(&mut self) {
        while let Some(Ok(line)) = self.errors.next() {
            self.note(&line);
        }
    }

    fn note(&mut self, line: &str) {
        if let Some(nanos) = line.strip_prefix(VALID_UNTIL) {
            self.valid_until = Moment::since_start(Duration::from_nanos(nanos.parse().unwrap()));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the holder a signal, for example `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Waits for its end: the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        // Nobody waits for a reader.
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {pid}");
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn milliseconds(name: &str) -> Option<Duration> {
    variable(name).map(|text| Duration::from_millis(text.parse().unwrap()))
}

/// The process of a [`Holder`].
#[tokio::test]
async fn child() {
    let Some(command) = variable(COMMAND) else { return };
    let command: Vec<OsString> = command.split(SEPARATOR).map(OsString::from).collect();
    let ttl = milliseconds(TTL).unwrap();
    std::process::exit(hold(&command, ttl, variable(RENEWS).as_deref() == Some("yes"), milliseconds(AT_MOST)).await);
}

async fn hold(command: &[OsString], ttl: Duration, renews: bool, at_most: Option<Duration>) -> i32 {
    let deadline = || {
        let valid_until = SystemClock.now() + ttl;
        // At once: the command writes there, too.
        let line = format!("{VALID_UNTIL}{}\n", valid_until.elapsed().as_nanos());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        Deadline::before(valid_until, ttl)
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let launch = Launch { binary, command, environment: &[] };
    let signals = Signals::listen().unwrap();
    let mut guarded = match Guarded::spawn(launch, deadline(), signals).await {
        Ok(guarded) => guarded,
        Err(SpawnError::Command(error)) if error.kind() == std::io::ErrorKind::NotFound => return 127,
        Err(SpawnError::Command(_)) => return 126,
        Err(SpawnError::Watchdog(error)) => panic!("{error}"),
    };
    let mut renewal = tokio::time::interval(ttl / 3);
    let at_most = at_most.map(|at_most| SystemClock.now() + at_most);
    let mut ended = false;
    loop {
        let limit = at_most.filter(|_| !ended).unwrap_or(Moment::since_start(Duration::MAX));
        tokio::select! {
            end = guarded.wait() => {
                assert_eq!(end.survivors, 0, "{end:?}");
                return if end.overdue { LOST } else { end.status.map_or(1, |status| status.code()) };
            }
            _ = renewal.tick(), if renews => guarded.extend(deadline()),
            () = SystemClock.sleep_until(limit) => {
                guarded.end(Duration::from_millis(200));
                ended = true;
            }
        }
    }
}
