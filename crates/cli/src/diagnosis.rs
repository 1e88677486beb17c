//! A problem of a definition in its text, through `miette`: drawn with colours where a terminal shows them, in plain
//! characters where not, and told in words where `NO_GRAPHICS` is set, as screen readers want it.

use std::error::Error;
use std::fmt;

use lockkeeper_model::Problem;
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    NarratableReportHandler, Severity, SourceCode, SourceSpan, SpanContents,
};

use crate::output::{Drawing, Output, printable};

/// The longest part of a line that is shown, in characters.
const LINE_CHARS_MAX: usize = 120;

/// Place, line and message, and what to write instead.
pub(crate) fn render(output: &Output, severity: Severity, file: &str, text: &str, problem: &Problem) -> String {
    let diagnosis = Diagnosis { severity, file: printable(file), problem, excerpt: Excerpt::of(file, text, problem) };
    let mut shown = String::new();
    let drawn = match output.drawing() {
        Drawing::Narrated => NarratableReportHandler::new().render_report(&mut shown, &diagnosis),
        Drawing::Plain => {
            // One line a message, so that it can be searched for.
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_wrap_lines(false);
            handler.render_report(&mut shown, &diagnosis)
        }
        Drawing::Fancy { colour, unicode, width } => {
            let theme = match (colour, unicode) {
                (true, true) => GraphicalTheme::unicode(),
                (true, false) => GraphicalTheme::ascii(),
                (false, true) => GraphicalTheme::unicode_nocolor(),
                (false, false) => GraphicalTheme::none(),
            };
            GraphicalReportHandler::new_themed(theme).with_width(width).render_report(&mut shown, &diagnosis)
        }
    };
    match drawn {
        Ok(()) => shown.trim_end().to_owned(),
        // Only a place that is not in the text could be the cause, and it is looked for before.
        Err(fmt::Error) => format!("{}: {}", diagnosis.file, printable(&problem.to_string())),
    }
}

/// What `miette` is told.
#[derive(Debug)]
struct Diagnosis<'p> {
    severity: Severity,
    file: String,
    problem: &'p Problem,
    excerpt: Option<Excerpt>,
}

impl fmt::Display for Diagnosis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = printable(&self.problem.message);
        if self.excerpt.is_some() {
            return f.write_str(&message);
        }
        let place = match (self.problem.line, self.problem.column) {
            (0, _) => self.file.clone(),
            (line, column) => format!("{}:{line}:{column}", self.file),
        };
        match self.problem.path.as_str() {
            "" => write!(f, "{place}: {message}"),
            path => write!(f, "{place}: {message}, at {}", printable(path)),
        }
    }
}

impl Error for Diagnosis<'_> {}

impl Diagnostic for Diagnosis<'_> {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let remedy = &self.problem.remedy;
        (!remedy.is_empty()).then(|| Box::new(printable(remedy)) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let label = LabeledSpan::new(None, excerpt.offset, excerpt.length);
        Some(Box::new(std::iter::once(label)))
    }
}

/// The line of a problem with those around it. A long line is cut so that the place stays in sight, and control
/// characters are shown as spaces, so that no text can drive a terminal.
#[derive(Debug)]
struct Excerpt {
    file: String,
    lines: String,
    /// Lines of the text before it.
    before: usize,
    /// Characters of the problem's line that were cut off in front.
    cut: usize,
    /// Where the problem's place is in `lines`, and the length of the word there, in bytes.
    offset: usize,
    length: usize,
}

impl Excerpt {
    /// None where the text has no such place.
    fn of(file: &str, text: &str, problem: &Problem) -> Option<Self> {
        let line = usize::try_from(problem.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(problem.column).ok()?.saturating_sub(1);
        let before = line.saturating_sub(1);
        let cut = if column >= LINE_CHARS_MAX { column - LINE_CHARS_MAX / 2 } else { 0 };
        let around: Vec<&str> = text.lines().skip(before).take(line - before + 2).collect();
        let own = around.get(line - before)?;
        let shown = |text: &str, cut: usize| -> String {
            text.chars().skip(cut).take(LINE_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        let mut lines = String::new();
        for earlier in &around[..line - before] {
            lines.push_str(&shown(earlier, 0));
            lines.push('\n');
        }
        let own = shown(own, cut);
        let begin = own.char_indices().nth(column - cut).map_or(own.len(), |(at, _)| at);
        let (offset, length) = (lines.len() + begin, word_length(&own[begin..]));
        lines.push_str(&own);
        for later in &around[line - before + 1..] {
            lines.push('\n');
            lines.push_str(&shown(later, 0));
        }
        Some(Self { file: printable(file), lines, before, cut, offset, length })
    }
}

/// The bytes of the word, or of the text in quotes, that `rest` begins with.
fn word_length(rest: &str) -> usize {
    let Some(first) = rest.chars().next() else { return 0 };
    let is_word = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    match first {
        '"' | '\'' => rest[1..].find(first).map_or(1, |end| end + 2),
        _ => rest.find(|c: char| !is_word(c)).filter(|end| *end > 0).unwrap_or(if is_word(first) {
            rest.len()
        } else {
            first.len_utf8()
        }),
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.lines.read_span(span, lines_before, lines_after)?;
        // Only where the data begins in the problem's own line does its column count.
        let is_own = found.span().offset() == self.offset;
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.clone(),
            found.data(),
            *found.span(),
            found.line() + self.before,
            found.column() + if is_own { self.cut } else { 0 },
            found.line_count(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OutputFormat;

    fn problem(line: u64, column: u64) -> Problem {
        Problem {
            line,
            column,
            path: "states.review.on.approve".into(),
            message: "there is no state \"aproved\"".into(),
            remedy: "write `approved`".into(),
        }
    }

    fn shown(output: &Output, text: &str, line: u64, column: u64) -> String {
        render(output, Severity::Error, "po.yaml", text, &problem(line, column))
    }

    fn plain(text: &str, line: u64, column: u64) -> String {
        shown(&Output::plain(OutputFormat::Table), text, line, column)
    }

    const TEXT: &str = "workflow: po\nstates:\n  review: {on: {approve: aproved}}\n";

    #[test]
    fn the_place_is_named_and_marked() {
        let shown = plain(TEXT, 3, 26);
        assert!(shown.starts_with("  x there is no state \"aproved\"\n"), "{shown}");
        assert!(shown.contains("[po.yaml:3:26]"), "{shown}");
        assert!(shown.contains("3 |   review: {on: {approve: aproved}}\n"), "{shown}");
        assert!(shown.contains("^^^^^^^"), "the whole word: {shown}");
        assert!(shown.ends_with("  help: write `approved`"), "{shown}");
    }

    #[test]
    fn it_can_be_told_in_words() {
        let shown = shown(&Output::drawn(OutputFormat::Table, Drawing::Narrated), TEXT, 3, 26);
        assert!(shown.contains("Diagnostic severity: error") && shown.contains("po.yaml"), "{shown}");
        assert!(
            shown.contains("label at line 3, columns 26 to 32") && shown.contains("diagnostic help: write `approved`"),
            "{shown}"
        );
    }

    #[test]
    fn a_terminal_gets_colours_unless_it_wants_none() {
        let fancy = |colour| Output::drawn(OutputFormat::Table, Drawing::Fancy { colour, unicode: true, width: 80 });
        assert!(shown(&fancy(true), TEXT, 3, 26).contains('\u{1b}'));
        let shown = shown(&fancy(false), TEXT, 3, 26);
        assert!(!shown.contains('\u{1b}') && shown.contains('╭'), "{shown}");
    }

    #[test]
    fn a_problem_without_a_place_names_its_path() {
        assert_eq!(
            plain("", 0, 0),
            "  x po.yaml: there is no state \"aproved\", at states.review.on.approve\n  help: write `approved`"
        );
        assert!(plain("one line", 7, 1).contains("po.yaml:7:1: "), "a place outside the text does no harm");
        assert!(plain("one line", 1, 99).contains("[po.yaml:1:"), "nor does one behind the line");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = format!("{}\u{1b}X{}", "a".repeat(1_000), "b".repeat(1_000));
        let shown = plain(&text, 1, 1_001);
        assert!(shown.contains("[po.yaml:1:1001]"), "{shown}");
        assert!(shown.lines().all(|line| line.len() < 140) && !shown.contains('\u{1b}'), "{shown}");
    }
}
