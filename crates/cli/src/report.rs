//! Problems and warnings of a definition, shown in its text.

use lockkeeper_model::Problem;
use lockkeeper_model::limits::PROBLEMS_MAX;
use miette::Severity;
use serde_json::json;

use crate::diagnosis;
use crate::failure::{Failure, headline};
use crate::input::DefinitionFile;
use crate::output::Output;

/// Shows every problem in its line, or, where JSON was asked for, the document that the server would send.
pub(crate) fn problems(output: &Output, file: &DefinitionFile, problems: &[Problem]) -> Failure {
    let count = problems.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    // Nobody looks for more.
    let least = if count < PROBLEMS_MAX { "" } else { "at least " };
    refuse(output, file, problems, &format!("{} has {least}{count} {noun}", file.name))
}

/// The same for a machine of another tool of which something would be lost.
pub(crate) fn lost(output: &Output, file: &DefinitionFile, lost: &[Problem]) -> Failure {
    let count = lost.len();
    let noun = if count == 1 { "part" } else { "parts" };
    let detail = format!("{count} {noun} of {} cannot be carried over; --lossy does without", file.name);
    refuse(output, file, lost, &detail)
}

fn refuse(output: &Output, file: &DefinitionFile, problems: &[Problem], detail: &str) -> Failure {
    if output.is_json() {
        let document = json!({
            "title": "Invalid definition", "status": 422, "code": "LK0021", "outcome": "invalid_definition",
            "retryable": false, "detail": detail, "problems": problems,
        });
        output.error_text(&format!("{document:#}"));
        return Failure::Reported;
    }
    for problem in problems {
        output.error_text(&diagnosis::render(output, Severity::Error, &file.name, &file.text, problem));
    }
    output.error_text(&headline(output, &format!("invalid_definition (LK0021): {detail}")));
    Failure::Reported
}

/// Shows warnings in their lines, to people only.
pub(crate) fn warnings(output: &Output, file: &DefinitionFile, warnings: &[Problem]) {
    for warning in warnings {
        output.note(&diagnosis::render(output, Severity::Warning, &file.name, &file.text, warning));
    }
}
