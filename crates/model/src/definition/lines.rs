//! Places in a text, and the bytes that stand there.

#[cfg(test)]
use std::cell::Cell;

use super::node::Place;

/// How many bytes lie between two of which it is known how many characters stand before them: so many at most are looked at
/// for one place.
const STEP_BYTES: usize = 256;

/// Finds places in a text of a megabyte, which may be all in one line, without reading it again for each.
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
    /// How many characters begin before each multiple of [`STEP_BYTES`].
    marks: Vec<usize>,
    /// Bytes looked at so far.
    #[cfg(test)]
    looked: Cell<usize>,
}

fn begins_character(byte: &u8) -> bool {
    byte & 0xc0 != 0x80
}

fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| begins_character(byte)).count()
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(line_ends.map(|(at, _)| at + 1)).collect();
        let counted = |before: &mut usize, step: &[u8]| {
            let mark = *before;
            *before += characters(step);
            Some(mark)
        };
        let marks = text.as_bytes().chunks(STEP_BYTES).scan(0, counted).collect();
        Self {
            text,
            starts,
            marks,
            #[cfg(test)]
            looked: Cell::new(0),
        }
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// The place of the byte `offset`; past the end, that of the end.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        Place { line: line as u64, column: (self.before(offset) - self.before(start)) as u64 + 1 }
    }

    /// The byte at `place`, if the text has one there.
    pub(crate) fn offset(&self, place: Place) -> Option<usize> {
        let line = usize::try_from(place.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(place.column).ok()?.checked_sub(1)?;
        let wanted = self.before(*self.starts.get(line)?) + column;
        let mark = self.marks.partition_point(|before| *before <= wanted).checked_sub(1)?;
        let begin = mark * STEP_BYTES;
        let step = &self.text.as_bytes()[begin..];
        self.look(STEP_BYTES);
        let mut beginnings = step.iter().enumerate().filter(|(_, byte)| begins_character(byte));
        beginnings.nth(wanted - self.marks[mark]).map(|(at, _)| begin + at)
    }

    /// How many characters begin before the byte `offset`.
    fn before(&self, offset: usize) -> usize {
        let mark = offset / STEP_BYTES;
        let Some(before) = self.marks.get(mark) else { return self.all() };
        self.look(offset % STEP_BYTES);
        before + characters(&self.text.as_bytes()[mark * STEP_BYTES..offset])
    }

    /// How many characters there are.
    fn all(&self) -> usize {
        let Some((last, before)) = self.marks.iter().enumerate().next_back() else { return 0 };
        self.look(STEP_BYTES);
        before + characters(&self.text.as_bytes()[last * STEP_BYTES..])
    }

    #[cfg(test)]
    fn look(&self, bytes: usize) {
        self.looked.set(self.looked.get() + bytes);
    }

    #[cfg(not(test))]
    fn look(&self, _: usize) {}

    /// How many bytes were looked at for places.
    #[cfg(test)]
    pub(crate) fn looked(&self) -> usize {
        self.looked.get()
    }
}

/// Where the character at `inner` (a byte of the decoded `content`) stands in `text`, for a scalar that begins at
/// `start`. Walks both side by side, skipping what YAML and JSON add or drop: quotes, escapes, block headers,
/// indentation and folded line ends. Gives the scalar's own place where the two cannot be matched.
pub(crate) fn place_inside(lines: &Lines<'_>, start: Place, content: &str, inner: usize) -> Place {
    let Some(begin) = lines.offset(start) else { return start };
    let text = lines.text();
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
    lines.place(if at_space_or_end { raw } else { skip_space(text, raw) })
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
        let lines = Lines::new(text);
        for (offset, _) in text.char_indices() {
            let place = lines.place(offset);
            if text[offset..].starts_with('\n') {
                continue;
            }
            assert_eq!(lines.offset(place), Some(offset), "{place:?}");
        }
        assert_eq!(lines.place(9), place(2, 4));
        assert_eq!(lines.offset(place(9, 1)), None);
        assert_eq!(lines.offset(Place::default()), None);
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
            assert_eq!(place_inside(&Lines::new(text), start, content, inner), expected, "{text}");
        }
    }

    /// However long a line is, a place in it is found by looking at a bounded number of bytes.
    #[test]
    fn a_place_costs_the_same_wherever_it_is() {
        for unit in ["aé", "a\n", "\u{1f600}"] {
            let text = unit.repeat(MEGABYTE / unit.len());
            let lines = Lines::new(&text);
            let offsets: Vec<usize> = text.char_indices().step_by(997).map(|(at, _)| at).collect();
            for offset in &offsets {
                if text[*offset..].starts_with('\n') {
                    continue;
                }
                assert_eq!(lines.offset(lines.place(*offset)), Some(*offset), "{unit:?} at {offset}");
            }
            assert!(lines.looked() <= offsets.len() * 4 * STEP_BYTES, "{} bytes", lines.looked());
        }
    }

    const MEGABYTE: usize = 1024 * 1024;
}
