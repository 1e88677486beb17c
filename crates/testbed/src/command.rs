//! Programs that are run to their end.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use crate::wait::{WAIT_MAX, poll};

/// Where nothing is.
const NOBODYS_HOME: &str = "/nonexistent";

/// A program, free of what the environment and the files of the user say to PostgreSQL's clients.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("HOME", NOBODYS_HOME);
    command
}

/// What a program wrote to standard output; or, if it failed, to standard error.
pub(crate) fn try_run(mut command: Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = collect(child.stdout.take().expect("stdout is piped"));
    let err = collect(child.stderr.take().expect("stderr is piped"));
    // A program that fails early does not read everything; then its exit code tells.
    let _unread = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
    let ended = poll(WAIT_MAX, || child.try_wait().expect("a child can be waited for"));
    let Some(status) = ended else {
        end(&mut child);
        panic!("still running after {WAIT_MAX:?}: {command:?}\n{input}");
    };
    let (out, err) = (text(out), text(err));
    if status.success() { Ok(out) } else { Err(format!("{status}: {}", err.trim_end())) }
}

/// What a program wrote to standard output, which must succeed.
pub(crate) fn run(command: Command, input: &str) -> String {
    let called = format!("{command:?}");
    try_run(command, input).unwrap_or_else(|error| panic!("{called}: {error}"))
}

/// SIGKILL, and waits until it is gone.
pub(crate) fn end(child: &mut Child) {
    // An error means that it has ended already.
    let _gone = child.kill();
    child.wait().expect("a child can be waited for");
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still the most that can be told.
        let _broken = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    let bytes = reader.join().expect("a reader does not panic");
    String::from_utf8_lossy(&bytes).into_owned()
}
