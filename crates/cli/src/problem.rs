//! A problem document (RFC 9457) as the server sends it, and how it is shown.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::failure::{headline, help_line, resend_help};
use crate::json;
use crate::output::{Output, printable};

/// How much of a body that is no problem document is quoted.
const QUOTED_CHARS_MAX: usize = 200;

/// A refusal, as the server tells it.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The outcome's name, for example `state_mismatch`.
    pub outcome: String,
    /// The error's code, for example `LK0007`; empty where something between us and the server answered.
    pub code: String,
    /// What happened, for people.
    pub detail: String,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The idempotency key under which the request can be sent again.
    pub key: Option<String>,
    fields: Map<String, Value>,
}

impl Problem {
    /// Reads the body of an answer that is no success. Whatever answered, something can be shown.
    pub(crate) fn read(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let fields = match serde_json::from_str(body) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (mut outcome, mut detail) = (text("outcome"), text("detail"));
        if outcome.is_empty() {
            outcome = foreign_outcome(status).to_owned();
        }
        if detail.is_empty() {
            detail = text("title");
        }
        if detail.is_empty() {
            detail = format!("the answer was HTTP {status} and no problem document{}", quote(body));
        }
        Self { status, outcome, code: text("code"), detail, retry_after, key: None, fields }
    }

    /// Whether the store or the server was not there, or the fate is not known.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self.status, 502..=504)
    }

    /// Whether the same request, under the same key, may succeed soon.
    pub(crate) fn is_worth_a_retry(&self) -> bool {
        self.status == 429 || self.is_unavailable()
    }

    /// Whether the request may have taken effect all the same.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.status, 502 | 504)
    }

    /// One of the document's further fields.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// The document as it came, with the key to send again under.
    pub(crate) fn document_text(&self) -> String {
        let mut fields = self.fields.clone();
        let mut set = |name: &str, value: Value| _ = fields.entry(name).or_insert(value);
        set("status", self.status.into());
        set("outcome", self.outcome.as_str().into());
        set("detail", self.detail.as_str().into());
        if let Some(key) = &self.key {
            set("idempotency_key", key.as_str().into());
        }
        json::pretty(&Value::Object(fields).to_string())
    }

    /// `error: outcome (code): detail`, and what to do.
    pub(crate) fn render(&self, output: &Output) -> String {
        let code = if self.code.is_empty() { format!("HTTP {}", self.status) } else { self.code.clone() };
        let mut text = headline(output, &format!("{} ({code}): {}", self.outcome, printable(&self.detail)));
        if let Some(help) = self.help() {
            text.push_str(&help_line(output, help));
        }
        if let Some(key) = &self.key {
            text.push_str(&resend_help(output, key));
        }
        text
    }

    /// What to do on the command line, where the detail cannot know it.
    fn help(&self) -> Option<&'static str> {
        Some(match self.outcome.as_str() {
            "unauthenticated" => "give a token with LOCKKEEPER_TOKEN or --token",
            "unknown_workflow" => {
                "put a definition with `lockkeeper apply -f FILE`; `lockkeeper list` shows what is there"
            }
            "unknown_instance" => {
                "begin it with `lockkeeper start WORKFLOW/ID`; `lockkeeper list WORKFLOW` shows what is there"
            }
            "state_mismatch" | "version_mismatch" | "already_closed" => {
                "`lockkeeper get WORKFLOW/ID` shows where it stands"
            }
            _ => return None,
        })
    }
}

/// What an answer is called that has no outcome: it came from a proxy, or from another kind of server.
fn foreign_outcome(status: u16) -> &'static str {
    match status {
        401 => "unauthenticated",
        413 => "too_large",
        429 => "busy",
        503 => "unavailable",
        502 | 504 => "unknown",
        _ => "failed",
    }
}

fn quote(body: &str) -> String {
    let body = body.trim();
    if body.is_empty() {
        return String::new();
    }
    let mut start: String = body.chars().take(QUOTED_CHARS_MAX).collect();
    if start.len() < body.len() {
        start.push('…');
    }
    format!(": {}", printable(&start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OutputFormat;

    const BODY: &str = r#"{"type":"about:blank","title":"State mismatch","status":409,"code":"LK0007",
        "outcome":"state_mismatch","retryable":false,"detail":"expected state \"draft\", but the instance is in \"review\"",
        "expected":"draft","actual":"review"}"#;

    #[test]
    fn a_refusal_shows_outcome_code_and_detail() {
        let problem = Problem::read(409, BODY, None);
        let text = problem.render(&Output::plain(OutputFormat::Table));
        assert!(text.starts_with("error: state_mismatch (LK0007): expected state \"draft\", but"), "{text}");
        assert!(!problem.is_unavailable() && !problem.is_worth_a_retry());
    }

    #[test]
    fn the_document_keeps_the_fields_that_we_do_not_know() {
        let mut problem = Problem::read(409, BODY, None);
        problem.key = Some("k".into());
        let document: Value = serde_json::from_str(&problem.document_text()).unwrap();
        assert_eq!(document["actual"], "review");
        assert_eq!(document["idempotency_key"], "k");
    }

    #[test]
    fn an_answer_of_another_program_is_still_shown() {
        let problem = Problem::read(502, "<html>\u{1b}[2JBad Gateway</html>", None);
        assert!(problem.is_unknown() && problem.is_unavailable());
        let text = problem.render(&Output::plain(OutputFormat::Table));
        assert!(text.contains("unknown (HTTP 502)") && text.contains("Bad Gateway"), "{text}");
        assert!(!text.contains('\u{1b}'), "control characters reach no terminal");
        assert_eq!(Problem::read(404, "[]", None).outcome, "failed");
    }
}
