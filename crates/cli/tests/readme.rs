//! The README's walk-through is true: its `console` blocks are run, in order, against a new server.
//!
//! A line that begins with `$ ` is run by bash; what follows is what it prints, `…` standing for any text.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The server's address as the README writes it.
const WRITTEN_URL: &str = "http://127.0.0.1:7070";

/// How long one command may take, in seconds.
const COMMAND_SECONDS_MAX: &str = "60";

/// A command of the README and what it prints there.
struct Step {
    command: String,
    expected: Vec<String>,
}

/// A server that ends with the test.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let store = format!("sqlite://{}", folder.join("lockkeeper.db").display());
        let mut process = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--store", &store])
            .env_remove("LOCKKEEPER_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = log.find(|line| line.contains("http://")).expect("the server ended before it listened");
        let url = line[line.find("http://").unwrap()..].split('"').next().unwrap_or_default().to_owned();
        // Read on, so that the server never writes into a closed pipe.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut in_block = false;
    for line in readme.lines() {
        match line {
            "```console" => in_block = true,
            "```" => in_block = false,
            _ if !in_block => {}
            _ => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step { command: command.to_owned(), expected: Vec::new() }),
                None => steps.last_mut().expect("output before any command").expected.push(line.to_owned()),
            },
        }
    }
    steps
}

/// Whether `text` is `pattern`, in which each `…` stands for any text, line ends included.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn run(command: &str, server: &Server) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("timeout")
        .args([COMMAND_SECONDS_MAX, "bash", "-c", &format!("exec 2>&1; {}", command.replace(WRITTEN_URL, &server.url))])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", path)
        .env("LOCKKEEPER_URL", &server.url)
        .env_remove("LOCKKEEPER_TOKEN")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn the_walk_through_is_true() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("there is no curl on this machine: the README is not checked");
        return;
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let steps = steps(&std::fs::read_to_string(readme).unwrap());
    assert!(steps.len() > 20, "the README has lost its walk-through");
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut wrong = Vec::new();
    for Step { command, expected } in &steps {
        let (expected, printed) = (expected.join("\n"), run(command, &server));
        if !matches(&expected, &printed) {
            wrong.push(format!("$ {command}\n-- the README says\n{expected}\n-- it prints\n{printed}\n"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} commands print something else:\n\n{}",
        wrong.len(),
        steps.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_ellipsis_stands_for_any_text() {
    assert!(matches("a … c", "a b\nb c") && matches("…", "") && matches("a", "a") && matches("a…b…c", "a1b2c"));
    assert!(!matches("a", "ab") && !matches("a…c", "ab") && !matches("a…b…b", "axb"));
}
