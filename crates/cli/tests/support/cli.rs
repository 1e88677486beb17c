//! The command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::program::command;

/// The command line of one server.
#[derive(Clone)]
pub(crate) struct Cli {
    dir: PathBuf,
    url: String,
    token: Option<String>,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cli {
    pub(crate) fn new(dir: &Path, url: &str) -> Self {
        Self { dir: dir.to_owned(), url: url.to_owned(), token: None }
    }

    /// With `LOCKKEEPER_TOKEN`.
    pub(crate) fn token(mut self, secret: &str) -> Self {
        self.token = Some(secret.to_owned());
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, "")
    }

    /// Runs it with `input` on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Said {
        let mut command = command(&self.dir);
        command.args(args).env("LOCKKEEPER_URL", &self.url);
        if let Some(token) = &self.token {
            command.env("LOCKKEEPER_TOKEN", token);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // A command that does not read may be gone before everything is written.
        let _unread = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("its end");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes UTF-8");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    /// Standard output of a success.
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out.trim_end()
    }

    /// Standard output of a success, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Standard error of a failure, which must leave standard output empty.
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        self.err.trim_end()
    }

    /// Standard error of a failure, as JSON.
    pub(crate) fn failed_json(&self, code: i32) -> Value {
        serde_json::from_str(self.failed(code)).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}
