//! What a regular expression costs.

use regex_syntax::hir::{Hir, HirKind};

/// How many places of `pattern` a match may be in at once, with counted repetitions written out: as many steps one byte of
/// text takes at the most. One for a text that is no pattern.
pub(crate) fn positions(pattern: &str) -> u64 {
    regex_syntax::parse(pattern).map_or(1, |parsed| of(&parsed))
}

/// The parser bounds the depth.
fn of(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(of).fold(0, u64::saturating_add),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            of(&repetition.sub).saturating_mul(times.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_repetitions_are_written_out() {
        for (pattern, expected) in [
            ("", 0),
            ("^abc$", 3),
            ("[a-z]+\\d*", 2),
            ("(a|bc){3}", 9),
            ("[a-z]{2,}x?", 3),
            ("((a{10}){10}){10}", 1_000),
            ("(", 1),
        ] {
            assert_eq!(positions(pattern), expected, "{pattern}");
        }
    }
}
