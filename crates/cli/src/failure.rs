//! How a command fails: what is said on standard error, and the exit code.

use std::fmt;
use std::process::ExitCode;

use serde_json::json;

use crate::cli::OutputFormat;
use crate::lock_failure::LockFailure;
use crate::output::{Colour, Output};
use crate::problem::Problem;

/// Refused or failed.
const EXIT_FAILED: u8 = 1;
/// Wrong usage; clap exits with the same.
const EXIT_USAGE: u8 = 2;
/// What shells add to the number of the signal that ended a process.
const EXIT_SIGNAL: u8 = 128;
/// The server cannot be reached, is unavailable, or the outcome is unknown (`EX_UNAVAILABLE` of sysexits).
const EXIT_UNAVAILABLE: u8 = 69;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server answered with a problem.
    Refused(Box<Problem>),
    /// The server gave no answer.
    Unreachable(Box<Unreachable>),
    /// There is no lock, or none any more.
    Lock(Box<LockFailure>),
    /// Something on this side went wrong.
    Failed(String),
    /// The command line asks for something that cannot be.
    Usage(String),
    /// A signal asked for the end before the work was done; its number, and what that means.
    Ended(u8, String),
    /// Everything that is to be said has been said.
    Reported,
    /// Whoever read our output has gone: nothing more to say, and no fault.
    ClosedPipe,
}

/// A server that gave no answer.
#[derive(Debug)]
pub(crate) struct Unreachable {
    /// The server's address.
    pub url: String,
    /// What happened.
    pub detail: String,
    /// Whether a request may have reached the server, so that its fate is not known.
    pub maybe_sent: bool,
    /// The idempotency key under which the request can be sent again.
    pub key: Option<String>,
}

impl Failure {
    /// A failure on this side.
    pub(crate) fn failed(detail: impl fmt::Display) -> Self {
        Self::Failed(detail.to_string())
    }

    /// Wrong usage that clap cannot see.
    pub(crate) fn usage(detail: impl fmt::Display) -> Self {
        Self::Usage(detail.to_string())
    }

    /// Says what happened on standard error and gives the exit code.
    pub(crate) fn report(&self, output: &Output) -> ExitCode {
        if let Some(text) = self.render(output) {
            output.error_text(&text);
        }
        ExitCode::from(self.exit_code())
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(problem) if problem.is_unavailable() => EXIT_UNAVAILABLE,
            Self::Unreachable(_) => EXIT_UNAVAILABLE,
            Self::Lock(failure) => failure.exit_code(),
            Self::Refused(_) | Self::Failed(_) | Self::Reported => EXIT_FAILED,
            Self::Usage(_) => EXIT_USAGE,
            Self::Ended(signal, _) => EXIT_SIGNAL + signal,
            Self::ClosedPipe => 0,
        }
    }

    fn render(&self, output: &Output) -> Option<String> {
        let json = output.format() == OutputFormat::Json;
        match self {
            Self::Refused(problem) if json => Some(problem.document_text()),
            Self::Refused(problem) => Some(problem.render(output)),
            Self::Unreachable(unreachable) if json => Some(unreachable.document_text()),
            Self::Unreachable(unreachable) => Some(unreachable.render(output)),
            Self::Lock(failure) if json => Some(failure.document_text()),
            Self::Lock(failure) => {
                let help = failure.help().map(|help| help_line(output, help)).unwrap_or_default();
                Some(headline(output, &failure.text()) + &help)
            }
            Self::Failed(detail) if json => Some(local_document("failed", detail)),
            Self::Usage(detail) if json => Some(local_document("usage", detail)),
            Self::Ended(_, detail) if json => Some(local_document("ended", detail)),
            Self::Failed(detail) | Self::Usage(detail) | Self::Ended(_, detail) => Some(headline(output, detail)),
            Self::Reported | Self::ClosedPipe => None,
        }
    }
}

impl Unreachable {
    /// The outcome as the server would call it, and its code.
    fn outcome(&self) -> (&'static str, &'static str) {
        if self.maybe_sent { ("unknown", "LK0024") } else { ("unavailable", "LK0023") }
    }

    fn summary(&self) -> String {
        if self.maybe_sent {
            format!("{} was asked and did not answer: {}", self.url, self.detail)
        } else {
            format!("cannot reach {}: {}", self.url, self.detail)
        }
    }

    fn render(&self, output: &Output) -> String {
        let (outcome, code) = self.outcome();
        let mut text = headline(output, &format!("{outcome} ({code}): {}", self.summary()));
        if let Some(key) = self.key.as_ref().filter(|_| self.maybe_sent) {
            text.push_str(&resend_help(output, key));
        }
        let help = if self.maybe_sent {
            "see what came of it with `lockkeeper get` or `lockkeeper history`"
        } else if self.detail.contains("certificate") {
            "trust a private authority with --ca-cert FILE"
        } else {
            "start a server with `lockkeeper serve`, or name another one with --url or LOCKKEEPER_URL"
        };
        text.push_str(&help_line(output, help));
        text
    }

    fn document_text(&self) -> String {
        let (outcome, code) = self.outcome();
        let mut document = json!({
            "title": outcome, "code": code, "outcome": outcome, "retryable": true,
            "detail": self.summary(), "url": self.url,
        });
        if let Some(key) = &self.key {
            document["idempotency_key"] = json!(key);
        }
        format!("{document:#}")
    }
}

/// `error: ...`, coloured where colours are wanted.
pub(crate) fn headline(output: &Output, text: &str) -> String {
    format!("{} {text}", output.paint_error(Colour::Red, "error:"))
}

/// A further line that says what to do.
pub(crate) fn help_line(output: &Output, text: &str) -> String {
    format!("\n  {} {text}", output.paint_error(Colour::Cyan, "help:"))
}

/// How to send the same command again without doing it twice.
pub(crate) fn resend_help(output: &Output, key: &str) -> String {
    help_line(output, &format!("send it again with `--key {key}`: under this key it takes effect at most once"))
}

fn local_document(outcome: &str, detail: &str) -> String {
    format!("{:#}", json!({ "title": outcome, "outcome": outcome, "retryable": false, "detail": detail }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable(maybe_sent: bool) -> Unreachable {
        Unreachable {
            url: "http://127.0.0.1:7070".into(),
            detail: "connection refused".into(),
            maybe_sent,
            key: Some("k-1".into()),
        }
    }

    #[test]
    fn an_unreachable_server_is_named_with_the_way_out() {
        let output = Output::plain(OutputFormat::Table);
        let text = Failure::Unreachable(Box::new(unreachable(false))).render(&output).unwrap();
        assert!(text.starts_with("error: unavailable (LK0023): cannot reach http://127.0.0.1:7070: "), "{text}");
        assert!(text.contains("lockkeeper serve") && !text.contains("--key"), "nothing was sent: {text}");
        let text = Failure::Unreachable(Box::new(unreachable(true))).render(&output).unwrap();
        assert!(text.contains("unknown (LK0024)") && text.contains("--key k-1"), "{text}");
    }

    #[test]
    fn a_request_that_may_have_arrived_is_unknown() {
        let output = Output::plain(OutputFormat::Json);
        let failure = Failure::Unreachable(Box::new(unreachable(true)));
        let document: serde_json::Value = serde_json::from_str(&failure.render(&output).unwrap()).unwrap();
        assert_eq!(document["outcome"], "unknown");
        assert_eq!(document["idempotency_key"], "k-1");
        assert_eq!(failure.exit_code(), 69);
    }

    #[test]
    fn exit_codes_are_the_pinned_ones() {
        assert_eq!(Failure::failed("x").exit_code(), 1);
        assert_eq!(Failure::Reported.exit_code(), 1);
        assert_eq!(Failure::usage("x").exit_code(), 2);
        assert_eq!(Failure::ClosedPipe.exit_code(), 0);
        assert_eq!(Failure::Ended(15, "x".into()).exit_code(), 143);
    }
}
