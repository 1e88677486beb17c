//! Problems and warnings of a definition, shown in its text.

use lockkeeper_model::Problem;
use serde_json::json;

use crate::excerpt;
use crate::failure::{Failure, headline};
use crate::input::DefinitionFile;
use crate::output::{Colour, Output};

/// Shows every problem in its line, or, where JSON was asked for, the document that the server would send.
pub(crate) fn problems(output: &Output, file: &DefinitionFile, problems: &[Problem]) -> Failure {
    let count = problems.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    let detail = format!("{} has {count} {noun}", file.name);
    if output.is_json() {
        let document = json!({
            "title": "Invalid definition", "status": 422, "code": "LK0021", "outcome": "invalid_definition",
            "retryable": false, "detail": detail, "problems": problems,
        });
        output.error_text(&format!("{document:#}"));
        return Failure::Reported;
    }
    for problem in problems {
        output.error_text(&excerpt::render(output, "", &file.name, &file.text, problem));
    }
    output.error_text(&headline(output, &format!("invalid_definition (LK0021): {detail}")));
    Failure::Reported
}

/// Shows warnings in their lines, to people only.
pub(crate) fn warnings(output: &Output, file: &DefinitionFile, warnings: &[Problem]) {
    let label = format!("{} ", output.paint_error(Colour::Yellow, "warning:"));
    for warning in warnings {
        output.note(&excerpt::render(output, &label, &file.name, &file.text, warning));
    }
}
