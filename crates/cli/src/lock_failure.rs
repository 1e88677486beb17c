//! How `lock run` fails: what is said, and the exit codes of its own.

use lockkeeper_locks::{AcquireError, HeldBy};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Unreachable};
use crate::output::printable;

/// Somebody else holds the lock, or it was not to be had in time (`EX_TEMPFAIL` of sysexits).
const EXIT_HELD: u8 = 75;

/// The lock was lost.
const EXIT_LOST: u8 = 76;

/// Why there was no lock, or none any more.
#[derive(Debug)]
pub(crate) enum LockFailure {
    /// It was not got.
    NotGot(AcquireError),
    /// It was lost while the command ran.
    Lost(String),
    /// A signal ended the waiting for it: the exit code of shells.
    Interrupted(u8),
    /// It was got, and the command could not be started.
    NotStarted {
        /// The command.
        program: String,
        /// Why not.
        detail: String,
        /// The exit code of shells.
        code: u8,
    },
}

impl LockFailure {
    /// The failure of an ask; a server that gave no answer is no matter of locks.
    pub(crate) fn of(error: AcquireError, url: &str) -> Failure {
        match error {
            AcquireError::Unavailable(detail) => {
                let (url, maybe_sent, key) = (url.to_owned(), false, None);
                Failure::Unreachable(Box::new(Unreachable { url, detail, maybe_sent, key }))
            }
            AcquireError::Unsupported(detail) => Failure::Failed(detail),
            error => Self::NotGot(error).into(),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotGot(_) => EXIT_HELD,
            Self::Lost(_) => EXIT_LOST,
            Self::Interrupted(code) | Self::NotStarted { code, .. } => *code,
        }
    }

    /// The outcome's name in the API, and its code, where it has one.
    fn outcome(&self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::NotGot(AcquireError::LockTimeout { .. }) => ("lock_timeout", Some("LK0012")),
            Self::NotGot(AcquireError::Deadlock { .. }) => ("deadlock", Some("LK0013")),
            Self::NotGot(AcquireError::Busy { .. }) => ("busy", Some("LK0022")),
            Self::NotGot(AcquireError::Reused { .. }) => ("key_reused", Some("LK0016")),
            Self::NotGot(_) => ("held", Some("LK0011")),
            Self::Lost(_) => ("lost", None),
            Self::Interrupted(_) => ("interrupted", None),
            Self::NotStarted { .. } => ("not_started", None),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::NotGot(error) => error.to_string(),
            Self::Lost(resource) => format!(
                "the lock {resource} was lost while the command ran: it was taken by force, or could not be renewed in \
                 time"
            ),
            Self::Interrupted(_) => "a signal came while the lock was waited for".to_owned(),
            Self::NotStarted { program, detail, .. } => format!("cannot run {program}: {detail}"),
        }
    }

    /// `outcome (code): detail`.
    pub(crate) fn text(&self) -> String {
        let (outcome, code) = self.outcome();
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        format!("{outcome}{code}: {}", printable(&self.detail()))
    }

    /// What to do on the command line.
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Self::NotGot(AcquireError::Held(_)) => {
                Some("wait for it with --wait DURATION; `lockkeeper lock ls` shows it")
            }
            Self::NotGot(AcquireError::LockTimeout { .. }) => {
                Some("wait longer with --wait DURATION; `lockkeeper lock ls` shows who holds it")
            }
            _ => None,
        }
    }

    /// The failure as a problem document.
    pub(crate) fn document_text(&self) -> String {
        let (outcome, code) = self.outcome();
        let mut document = Map::new();
        let mut set = |name: &str, value: Value| _ = document.insert(name.to_owned(), value);
        set("title", json!(outcome.replace('_', " ")));
        set("outcome", json!(outcome));
        set("code", json!(code));
        set("retryable", json!(matches!(self, Self::NotGot(_))));
        set("detail", json!(self.detail()));
        match self {
            Self::NotGot(AcquireError::Held(held_by) | AcquireError::LockTimeout { held_by, .. }) => {
                let HeldBy { resource, owner, host, since, .. } = &**held_by;
                set("resource", json!(resource));
                set("holder", json!(owner));
                set("host", json!(host));
                set("since", json!(since));
            }
            Self::Lost(resource) => set("resource", json!(resource)),
            _ => {}
        }
        format!("{:#}", Value::Object(document))
    }
}

impl From<LockFailure> for Failure {
    fn from(failure: LockFailure) -> Self {
        Self::Lock(Box::new(failure))
    }
}
