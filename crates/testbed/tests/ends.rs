//! A server does not outlive who started it.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn with_servers(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_with-servers"));
    command.args(["--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Where the server listens, as the command was told.
fn address(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.split(['@', '/']).nth(3).unwrap_or_else(|| panic!("no URL: {line}")).to_owned()
}

fn ends(address: &str) {
    let begun = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < LONG, "the server at {address} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_gets_a_server_and_gives_its_code() {
    let mut child = with_servers("echo $LOCKKEEPER_TEST_POSTGRES; read _; exit 7").spawn().unwrap();
    let address = address(&mut child);
    assert!(TcpStream::connect(&address).is_ok());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(TcpStream::connect(&address).is_err(), "it is gone with the program");
    let output = with_servers("kill -TERM $$").output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
}

#[test]
fn a_server_ends_with_a_killed_program() {
    for signal in ["KILL", "TERM", "INT"] {
        let mut child = with_servers("echo $LOCKKEEPER_TEST_POSTGRES; read _").spawn().unwrap();
        let address = address(&mut child);
        assert!(TcpStream::connect(&address).is_ok());
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        // The command's standard input is a pipe from here: it closes with the child.
        let stdin = child.stdin.take();
        child.wait().unwrap();
        ends(&address);
        drop(stdin);
    }
}
