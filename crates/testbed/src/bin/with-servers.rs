//! Runs a command with a PostgreSQL server that all its tests share: `with-servers -- COMMAND ARGS...`.
//!
//! The command finds the server's URL in `LOCKKEEPER_TEST_POSTGRES`, and in `LOCKKEEPER_TEST_POSTGRES_TEMPLATE` a folder
//! that servers of its own are quickly made from; its exit code is that of this program. Both end with this program,
//! however that ends.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use lockkeeper_testbed::{SHARED_SERVER, TEMPLATE, Template};

/// Enough for the pools of all tests that run at once.
const SETTINGS: &[(&str, &str)] = &[("max_connections", "400")];

/// As a shell says it: what was called cannot be run.
const NOT_RUN: u8 = 127;

/// As a shell says it: ended by a signal, whose number is added.
const SIGNALLED: i32 = 128;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    // `cargo run` takes one away, whoever calls the program itself does not.
    words.next_if(|word| word == "--");
    let Some(program) = words.next() else {
        eprintln!("usage: with-servers -- COMMAND ARGS...");
        return ExitCode::from(NOT_RUN);
    };
    let template = Template::make();
    let server = template.start_with(SETTINGS);
    let mut command = Command::new(&program);
    command.args(words).env(SHARED_SERVER, server.url()).env(TEMPLATE, template.path());
    let code = run(&program, command);
    drop((server, template));
    code
}

fn run(program: &OsString, mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) => code(status),
        Err(error) => {
            eprintln!("with-servers: {}: {error}", program.display());
            ExitCode::from(NOT_RUN)
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
