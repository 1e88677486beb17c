//! What is bounded before the parser sees a text: it recurses on brackets, and a stack is finite.

use super::Fault;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};

/// Unary operators in a row: `!!!!a` means nothing that `a` or `!a` does not.
const UNARY_RUN_MAX: usize = 8;

/// Checks the text's size, its nesting and its runs of unary operators.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    if text.len() > EXPRESSION_BYTES_MAX {
        let message = format!("the expression has {} bytes; at most {EXPRESSION_BYTES_MAX} are allowed", text.len());
        return Err(Fault::new(0, message, "make it shorter: compute parts of it in assigns of earlier events"));
    }
    if text.trim().is_empty() {
        return Err(Fault::new(0, "the expression is empty", "write a CEL expression, or remove the field"));
    }
    let (mut depth, mut unary) = (0_usize, 0_usize);
    for Token { at, kind } in Tokens::new(text) {
        match kind {
            TokenKind::Mark('(' | '[' | '{') => depth += 1,
            TokenKind::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        unary = if matches!(kind, TokenKind::Mark('!' | '-')) { unary + 1 } else { 0 };
        if depth > EXPRESSION_DEPTH_MAX {
            let message = format!("brackets are nested more than {EXPRESSION_DEPTH_MAX} deep");
            return Err(Fault::new(at, message, "nest less deeply"));
        }
        if unary > UNARY_RUN_MAX {
            return Err(Fault::new(at, "too many `!` or `-` in a row", "keep one of them, or none"));
        }
    }
    Ok(())
}

/// Where the identifier `name` first stands by itself, outside of texts and not behind a dot.
pub(super) fn find_name(text: &str, name: &str) -> usize {
    let mut after_dot = false;
    for Token { at, kind } in Tokens::new(text) {
        match kind {
            TokenKind::Word(word) if word == name && !after_dot => return at,
            _ => after_dot = matches!(kind, TokenKind::Mark('.')),
        }
    }
    find_member(text, name)
}

/// Where the word `name` first stands at all, outside of texts.
pub(super) fn find_member(text: &str, name: &str) -> usize {
    Tokens::new(text)
        .find(|token| matches!(token.kind, TokenKind::Word(word) if word == name))
        .map_or(0, |token| token.at)
}

/// Where the word `name` stands first at the byte `from` or behind it, outside of texts.
pub(super) fn find_word_from(text: &str, name: &str, from: usize) -> Option<usize> {
    let is_it = |token: &Token<'_>| token.at >= from && matches!(token.kind, TokenKind::Word(word) if word == name);
    Tokens::new(text).find(is_it).map(|token| token.at)
}

struct Token<'t> {
    at: usize,
    kind: TokenKind<'t>,
}

enum TokenKind<'t> {
    /// A name, keyword or number.
    Word(&'t str),
    /// A text, quotes included.
    Text,
    /// Any other single character.
    Mark(char),
}

/// Splits an expression as CEL's lexer would, as far as brackets, names and texts go
/// (<https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax>).
struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Bytes of the text literal at the head of `rest`, its prefix (`r`, `b`) aside.
    fn literal_length(rest: &str, raw: bool) -> usize {
        let quote = if rest.starts_with("\"\"\"") || rest.starts_with("'''") { &rest[..3] } else { &rest[..1] };
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(quote.len()) {
            if escaped {
                escaped = false;
            } else if c == '\\' && !raw {
                escaped = true;
            } else if rest[at..].starts_with(quote) {
                return at + quote.len();
            }
        }
        rest.len()
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        let rest = &self.text[self.at..];
        let skipped = rest.find(|c: char| !c.is_whitespace())?;
        let (at, rest) = (self.at + skipped, &rest[skipped..]);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (kind, length) = if rest.starts_with("//") {
            (TokenKind::Mark('/'), rest.find('\n').unwrap_or(rest.len()))
        } else if rest[word..].starts_with(['"', '\'']) && is_prefix(&rest[..word]) {
            let raw = rest[..word].contains(['r', 'R']);
            (TokenKind::Text, word + Self::literal_length(&rest[word..], raw))
        } else if word > 0 {
            (TokenKind::Word(&rest[..word]), word)
        } else {
            let mark = rest.chars().next()?;
            (TokenKind::Mark(mark), mark.len_utf8())
        };
        self.at = at + length;
        Some(Token { at, kind })
    }
}

/// Whether a word in front of a quote belongs to the text literal.
fn is_prefix(word: &str) -> bool {
    word.len() <= 2 && word.bytes().all(|b| matches!(b, b'r' | b'R' | b'b' | b'B'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_outside_of_texts_only() {
        let nested = |depth: usize| "(".repeat(depth) + "a" + &")".repeat(depth);
        assert!(check(&nested(EXPRESSION_DEPTH_MAX)).is_ok());
        assert_eq!(check(&nested(EXPRESSION_DEPTH_MAX + 1)).unwrap_err().offset, EXPRESSION_DEPTH_MAX);
        let text = format!("a == '{}' && b == r\"\\\" + '''{}'''", "(".repeat(100), "[".repeat(100));
        assert!(check(&text).is_ok());
        assert!(check(&format!("a // {}\n", "(".repeat(100))).is_ok());
        assert!(check("!!!!!!!!!a").is_err());
        assert!(check("- - - - - - - - - 1").is_err());
        assert!(check(" \n ").is_err());
        assert!(check(&"a".repeat(EXPRESSION_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn names_are_found_where_they_stand_alone() {
        assert_eq!(find_name("event.foo == 'foo' && foo", "foo"), 22);
        assert_eq!(find_name("a.foo()", "foo"), 2);
        assert_eq!(find_name("'foo'", "foo"), 0);
    }
}
