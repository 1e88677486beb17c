//! Where results go: standard output and standard error, as a table or as JSON, in colour or plain.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};

use crate::cli::OutputFormat;
use crate::failure::Failure;

/// How this process prints.
#[derive(Debug)]
pub(crate) struct Output {
    format: OutputFormat,
    colour_out: bool,
    colour_error: bool,
    out_is_terminal: bool,
    drawing: Drawing,
}

/// How problems are drawn on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// In ASCII and without colours, as into a file.
    Plain,
    /// For a terminal.
    Fancy {
        /// Whether it shows colours.
        colour: bool,
        /// Whether it shows more than ASCII.
        unicode: bool,
        /// Its columns.
        width: usize,
    },
    /// In words, for screen readers.
    Narrated,
}

/// What a word looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Done.
    Green,
    /// Under way, or doubtful.
    Yellow,
    /// Refused.
    Red,
    /// Advice.
    Cyan,
    /// Less important.
    Dim,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Red => "1;31",
            Self::Cyan => "36",
            Self::Dim => "2",
        }
    }
}

impl Output {
    /// Prints in `format`, in colour where a terminal shows it and NO_COLOR is not set.
    pub(crate) fn new(format: OutputFormat) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            && std::env::var_os("TERM").is_none_or(|v| v != "dumb");
        let out_is_terminal = io::stdout().is_terminal();
        let colour_error = wanted && io::stderr().is_terminal();
        Self {
            format,
            colour_out: wanted && out_is_terminal,
            colour_error,
            out_is_terminal,
            drawing: Drawing::chosen(colour_error),
        }
    }

    /// Prints in `format` without colours, as into a file.
    #[cfg(test)]
    pub(crate) fn plain(format: OutputFormat) -> Self {
        Self::drawn(format, Drawing::Plain)
    }

    /// The same with problems drawn in another way.
    #[cfg(test)]
    pub(crate) fn drawn(format: OutputFormat, drawing: Drawing) -> Self {
        Self { format, colour_out: false, colour_error: false, out_is_terminal: false, drawing }
    }

    /// How problems are drawn on standard error.
    pub(crate) fn drawing(&self) -> Drawing {
        self.drawing
    }

    /// The format that was asked for.
    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Whether JSON was asked for.
    pub(crate) fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// One result, with a line end, on standard output.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ClosedPipe),
            Err(e) => Err(Failure::failed(format!("cannot write to standard output: {e}"))),
        }
    }

    /// A remark for people, on standard error; nothing where JSON was asked for.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_json() {
            self.error_text(text);
        }
    }

    /// A text on standard error. If that is gone too, there is nobody left to tell.
    pub(crate) fn error_text(&self, text: &str) {
        _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// `text` in `colour`, if standard output shows colours.
    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        paint(self.colour_out, colour, text)
    }

    /// `text` in `colour`, if standard error shows colours.
    pub(crate) fn paint_error(&self, colour: Colour, text: &str) -> String {
        paint(self.colour_error, colour, text)
    }

    /// A table without lines: columns under their headings. On a terminal, long cells are wrapped.
    pub(crate) fn table(&self, heading: &[&str], rows: Vec<Vec<String>>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(if self.out_is_terminal {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        });
        if self.colour_out {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(heading.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
        for row in rows {
            table.add_row(row.iter().map(|text| printable(text)).collect::<Vec<_>>());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.trim_fmt()
    }
}

impl Drawing {
    /// What standard error shows, and what the environment asks for: `NO_GRAPHICS` is `miette`'s own.
    fn chosen(colour: bool) -> Self {
        /// Where the terminal does not say how wide it is.
        const WIDTH: usize = 100;
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if set("NO_GRAPHICS").is_some_and(|value| value != "0") {
            return Self::Narrated;
        }
        if !io::stderr().is_terminal() {
            return Self::Plain;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let unicode = locale.to_ascii_lowercase().contains("utf");
        let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH);
        Self::Fancy { colour, unicode, width }
    }
}

fn paint(wanted: bool, colour: Colour, text: &str) -> String {
    if wanted { format!("\u{1b}[{}m{text}\u{1b}[0m", colour.code()) } else { text.to_owned() }
}

/// The text with its control characters written out (`\u{1b}`), so that no data can drive a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_columns_and_no_lines() {
        let output = Output::plain(OutputFormat::Table);
        let text = output.table(&["ID", "STATE"], vec![vec!["po-1".into(), "review".into()]]);
        assert_eq!(text, "ID    STATE\npo-1  review");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\u{1b}[31mb\tc"), "a\\u{1b}[31mb\\tc");
    }
}
