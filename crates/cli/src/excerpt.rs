//! Shows a problem of a definition in its text: file, line and column, the line itself, and a caret.

use lockkeeper_model::Problem;

use crate::failure::help_line;
use crate::output::{Colour, Output, printable};

/// The longest part of a line that is shown, in characters.
const LINE_CHARS_MAX: usize = 120;

/// `FILE:LINE:COL: message`, the source line with a caret, and what to write instead. `label` stands before the
/// message; it is empty for errors.
pub(crate) fn render(output: &Output, label: &str, file: &str, text: &str, problem: &Problem) -> String {
    let place = match (problem.line, problem.column) {
        (0, _) => file.to_owned(),
        (line, 0) => format!("{file}:{line}"),
        (line, column) => format!("{file}:{line}:{column}"),
    };
    let mut shown = format!("{place}: {label}{}", printable(&problem.message));
    if let Some(source) = source_line(text, problem.line) {
        shown.push_str(&excerpt(output, source, problem));
    } else if !problem.path.is_empty() {
        shown.push_str(&format!("\n  at {}", printable(&problem.path)));
    }
    if !problem.remedy.is_empty() {
        shown.push_str(&help_line(output, &printable(&problem.remedy)));
    }
    shown
}

fn source_line(text: &str, line: u64) -> Option<&str> {
    let index = usize::try_from(line.checked_sub(1)?).ok()?;
    text.lines().nth(index)
}

/// The line behind its number, and a caret below the column. A long line is cut so that the column stays in sight.
fn excerpt(output: &Output, source: &str, problem: &Problem) -> String {
    let number = problem.line.to_string();
    let gutter = " ".repeat(number.len());
    let column = usize::try_from(problem.column.saturating_sub(1)).unwrap_or(0);
    let start = if column >= LINE_CHARS_MAX { column - LINE_CHARS_MAX / 2 } else { 0 };
    // One cell for each character: a tab would move the caret.
    let line: String =
        source.chars().skip(start).take(LINE_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let bar = output.paint_error(Colour::Dim, "|");
    let mut shown = format!("\n  {} {bar} {line}", output.paint_error(Colour::Dim, &number));
    if problem.column > 0 {
        let caret = output.paint_error(Colour::Red, "^");
        shown.push_str(&format!("\n  {gutter} {bar} {}{caret}", " ".repeat(column - start)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OutputFormat;

    fn shown(text: &str, line: u64, column: u64) -> String {
        let problem = Problem {
            line,
            column,
            path: "states.review.on.approve".into(),
            message: "there is no state \"aproved\"".into(),
            remedy: "write `approved`".into(),
        };
        render(&Output::plain(OutputFormat::Table), "", "po.yaml", text, &problem)
    }

    #[test]
    fn a_caret_stands_below_the_place() {
        let text = "workflow: po\nstates:\n  review: {on: {approve: aproved}}\n";
        assert_eq!(
            shown(text, 3, 26),
            "po.yaml:3:26: there is no state \"aproved\"\n  \
             3 |   review: {on: {approve: aproved}}\n    |                          ^\n  \
             help: write `approved`"
        );
    }

    #[test]
    fn a_problem_without_a_place_names_its_path() {
        assert_eq!(
            shown("", 0, 0),
            "po.yaml: there is no state \"aproved\"\n  at states.review.on.approve\n  help: write `approved`"
        );
        assert!(shown("one line", 7, 1).contains("po.yaml:7:1: "), "a place outside the text does no harm");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = format!("{}X{}", "a".repeat(1_000), "b".repeat(1_000));
        let shown = shown(&text, 1, 1_001);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].find('X'), lines[2].find('^'));
        assert!(lines[1].len() < 140);
    }
}
