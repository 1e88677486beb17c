//! A session that a test leads step by step.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::command::{command, end};
use crate::postgres;
use crate::process::is_alive;
use crate::programs;
use crate::wait::{WAIT_MAX, poll};

/// What `psql` writes when it is done with what it was sent, followed by whether its last statement failed.
const DONE: &str = "-- done, failed: ";

/// How long the server may take to notice that a session is gone: longer takes only one that is waiting.
const GONE_MAX: Duration = Duration::from_secs(1);

/// A session with a server, which can keep a transaction open, and with it locks. Dropped means closed: an open
/// transaction is rolled back.
#[derive(Debug)]
pub struct Session {
    psql: Child,
    input: ChildStdin,
    rows: Receiver<String>,
    errors: Receiver<String>,
    target: String,
    pid: u32,
    direct: bool,
}

impl Session {
    /// Opens a session; `target` is a URL or a connection string.
    ///
    /// # Panics
    /// The server does not let it in.
    #[must_use]
    pub fn open(target: &str) -> Self {
        let mut psql = command(&programs::of_postgres("psql"));
        psql.args(["-X", "-q", "-At", "-d", target]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = psql.spawn().expect("psql starts");
        let input = psql.stdin.take().expect("stdin is piped");
        let rows = lines(psql.stdout.take().expect("stdout is piped"));
        let errors = lines(psql.stderr.take().expect("stderr is piped"));
        let mut session = Self { psql, input, rows, errors, target: target.to_owned(), pid: 0, direct: false };
        session.pid = session.execute("SELECT pg_backend_pid()").parse().expect("a process id");
        session
    }

    /// Opens a session that nothing stands between, so that the server's process is there for it alone.
    pub(crate) fn direct(target: &str) -> Self {
        let mut session = Self::open(target);
        session.direct = true;
        session
    }

    /// The process of the server that serves it, as `pg_stat_activity` has it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Executes statements and returns the rows: one a line, columns separated by `|`.
    ///
    /// # Panics
    /// A statement failed; the message is the server's.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Executes statements like [`Self::execute`].
    ///
    /// # Errors
    /// What the server said, or that the session is over.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        self.send(sql);
        self.answer()
    }

    /// Sends statements without waiting for them: [`Self::answer`] does, and must before more is sent.
    pub fn send(&self, sql: &str) {
        // If the session is over, the answer says so.
        let sql = sql.trim_end().trim_end_matches(';');
        let _over = write!(&self.input, "{sql}\n;\n\\echo '{DONE}' :ERROR\n\\warn '{DONE}' :ERROR\n");
    }

    /// Waits for the end of what was sent.
    ///
    /// # Errors
    /// What the server said, or that the session is over.
    ///
    /// # Panics
    /// It does not end in time.
    pub fn answer(&self) -> Result<String, String> {
        let (rows, failed) = read(&self.rows);
        let (said, _) = read(&self.errors);
        let failed = failed || said.lines().any(|line| line.starts_with("ERROR:"));
        if failed { Err(said) } else { Ok(rows) }
    }

    /// Waits until what was sent waits for a lock.
    ///
    /// # Panics
    /// It does not come to that in time.
    pub fn wait_until_blocked(&self) {
        let sql = format!("SELECT cardinality(pg_blocking_pids({})) > 0", self.pid);
        let blocked = poll(WAIT_MAX, || (postgres::execute(&self.target, &sql).as_deref() == Ok("t")).then_some(()));
        blocked.unwrap_or_else(|| panic!("session {} waits for no lock", self.pid));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end(&mut self.psql);
        if self.direct {
            // Its locks go with its process.
            let _gone = poll(GONE_MAX, || (!is_alive(self.pid)).then_some(()));
        }
    }
}

/// Lines of a pipe that nobody has read yet: far more than a test asks for at once.
const LINES_MAX: usize = 10_000;

/// The lines of a pipe, until it is closed.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let all = BufReader::new(pipe).lines().map_while(Result::ok);
        // An error means that the session was dropped.
        all.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    lines
}

/// The lines up to the mark, and whether it tells of a failure; so does its absence: `psql` has ended.
fn read(lines: &Receiver<String>) -> (String, bool) {
    let deadline = Instant::now() + WAIT_MAX;
    let mut read = Vec::new();
    let failed = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.strip_prefix(DONE) {
                Some(failed) => break failed.trim() != "false",
                None => read.push(line),
            },
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => panic!("no end after {WAIT_MAX:?}: {read:?}"),
        }
    };
    (read.join("\n"), failed)
}
