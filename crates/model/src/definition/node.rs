//! The text of a definition as a tree whose every part knows its place, whichever format it was written in.

use std::cmp::Ordering;

/// A place in the text: line and column from 1, in characters; 0 where none can be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What a definition's text is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no i64; only ever named in a message, or read as an expression.
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// One entry of a map, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.line, self.column).cmp(&(other.line, other.column))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Place {
    /// The place of the byte `offset` of `text`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.bytes().filter(|b| *b == b'\n').count() as u64 + 1,
            column: before[line_start..].chars().count() as u64 + 1,
        }
    }

    /// The byte of `text` at this place, if it has one.
    pub(crate) fn offset(self, text: &str) -> Option<usize> {
        let line = usize::try_from(self.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(self.column).ok()?.checked_sub(1)?;
        let line_start = match line {
            0 => 0,
            n => text.match_indices('\n').nth(n - 1)?.0 + 1,
        };
        text[line_start..].char_indices().nth(column).map(|(at, _)| line_start + at)
    }
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a block of fields",
        }
    }
}

/// Where the character at `inner` (a byte of the decoded `content`) stands in `text`, for a scalar that begins at
/// `start`. Walks both side by side, skipping what YAML and JSON add or drop: quotes, escapes, block headers,
/// indentation and folded line ends. Gives the scalar's own place where the two cannot be matched.
pub(crate) fn place_inside(text: &str, start: Place, content: &str, inner: usize) -> Place {
    let Some(begin) = start.offset(text) else { return start };
    let (quote, mut raw) = match text[begin..].chars().next() {
        Some(mark @ ('"' | '\'')) if !content.starts_with(mark) || text[begin + 1..].starts_with(mark) => {
            (Some(mark), begin + 1)
        }
        Some('|' | '>') => (None, text[begin..].find('\n').map_or(text.len(), |end| begin + end)),
        _ => (None, begin),
    };
    for (_, wanted) in content.char_indices().take_while(|(at, _)| *at < inner).filter(|(_, c)| !c.is_whitespace()) {
        match raw_length(&text[skip_space(text, raw)..], wanted, quote) {
            Some(length) => raw = skip_space(text, raw) + length,
            None => return start,
        }
    }
    let at_space_or_end = content[inner.min(content.len())..].chars().next().is_none_or(char::is_whitespace);
    Place::of(text, if at_space_or_end { raw } else { skip_space(text, raw) })
}

fn skip_space(text: &str, from: usize) -> usize {
    from + text[from..].find(|c: char| !c.is_whitespace()).unwrap_or(0)
}

/// Bytes that the character `wanted` takes at the head of `raw`.
fn raw_length(raw: &str, wanted: char, quote: Option<char>) -> Option<usize> {
    let mut chars = raw.chars();
    match (chars.next()?, quote) {
        ('\\', Some('"')) => match chars.next()? {
            'u' => Some(6),
            'x' => Some(4),
            'U' => Some(10),
            other => Some(1 + other.len_utf8()),
        },
        ('\'', Some('\'')) if wanted == '\'' && chars.next() == Some('\'') => Some(2),
        (found, _) => (found == wanted).then(|| found.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64, column: u64) -> Place {
        Place { line, column }
    }

    #[test]
    fn places_and_offsets_agree() {
        let text = "ab\ncü€d\n\nx";
        for (offset, _) in text.char_indices() {
            let place = Place::of(text, offset);
            if text[offset..].starts_with('\n') {
                continue;
            }
            assert_eq!(place.offset(text), Some(offset), "{place:?}");
        }
        assert_eq!(Place::of(text, 9), place(2, 4));
        assert_eq!(place(9, 1).offset(text), None);
        assert_eq!(Place::default().offset(text), None);
    }

    #[test]
    fn finds_the_place_inside_every_kind_of_scalar() {
        for (text, start, content, inner, expected) in [
            ("g: a && b", place(1, 4), "a && b", 5, place(1, 9)),
            ("g: 'a && b'", place(1, 4), "a && b", 5, place(1, 10)),
            ("g: 'a == ''x'' && b'", place(1, 4), "a == 'x' && b", 12, place(1, 19)),
            (r#"g: "a == \"x\" && b""#, place(1, 4), r#"a == "x" && b"#, 12, place(1, 19)),
            (r#"{"g": "\u0061 + b"}"#, place(1, 7), "a + b", 4, place(1, 17)),
            ("g: |\n  a &&\n  b", place(1, 4), "a &&\nb", 5, place(3, 3)),
            ("g: >-\n  a &&\n  b", place(1, 4), "a && b", 5, place(3, 3)),
            ("g: a &&\n   b", place(1, 4), "a && b", 5, place(2, 4)),
            ("g: a +", place(1, 4), "a +", 3, place(1, 7)),
            ("g: 'ü' == é", place(1, 4), "'ü' == é", 8, place(1, 11)),
            ("g: other", place(1, 4), "a + b", 4, place(1, 4)),
        ] {
            assert_eq!(place_inside(text, start, content, inner), expected, "{text}");
        }
    }
}
