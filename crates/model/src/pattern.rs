//! What a regular expression costs.

use regex_syntax::hir::{Hir, HirKind, Look};

/// How many places of `pattern` a match may be in at once, with counted repetitions written out: as many steps one byte of
/// text takes at the most. One for a text that is no pattern: it is refused for that.
pub(crate) fn positions(pattern: &str) -> u64 {
    regex_syntax::parse(pattern).map_or(1, |parsed| at_once(&parsed).min(all(&parsed)))
}

/// As [`positions`], of a pattern of a JSON Schema: what it is compiled to counts, as the validator does it.
pub(crate) fn positions_in_schema(pattern: &str) -> u64 {
    jsonschema_regex::to_rust_regex(pattern).map_or(1, |pattern| positions(&pattern))
}

/// All places. The parser bounds the depth.
fn all(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => all(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(all).fold(0, u64::saturating_add),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            all(&repetition.sub).saturating_mul(times.into())
        }
    }
}

/// A bound for a pattern that begins at the text's beginning. Up to its first repetition a match is in one place of each
/// alternative, and in one more for each while a single character is repeated; behind it, it may be anywhere.
fn at_once(hir: &Hir) -> u64 {
    let HirKind::Concat(parts) = hir.kind() else { return u64::MAX };
    let Some((HirKind::Look(Look::Start), rest)) = parts.split_first().map(|(first, rest)| (first.kind(), rest)) else {
        return u64::MAX;
    };
    let fixed = rest.iter().take_while(|part| !repeats(part)).count();
    let (before, after) = rest.split_at(fixed);
    let paths = before.iter().map(alternatives).fold(1, u64::saturating_mul);
    match after.split_first() {
        Some((first, after)) if repeats_one(first) => {
            after.iter().map(all).fold(paths.saturating_mul(2), u64::saturating_add)
        }
        _ => after.iter().map(all).fold(paths, u64::saturating_add),
    }
}

fn repeats(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(_) => true,
        HirKind::Capture(capture) => repeats(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(repeats),
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => false,
    }
}

/// Whether it is one character of a class, again and again.
fn repeats_one(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => matches!(repetition.sub.kind(), HirKind::Class(_)),
        HirKind::Capture(capture) => repeats_one(&capture.sub),
        _ => false,
    }
}

/// The ways through a part that repeats nothing.
fn alternatives(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Capture(capture) => alternatives(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(alternatives).fold(1, u64::saturating_mul),
        HirKind::Alternation(parts) => parts.iter().map(alternatives).fold(0, u64::saturating_add),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_repetitions_are_written_out() {
        for (pattern, expected) in [
            ("", 0),
            ("abc$", 3),
            ("[a-z]+\\d*", 2),
            ("(a|bc){3}", 9),
            ("[a-z]{2,}x?", 3),
            ("((a{10}){10}){10}", 1_000),
            ("(", 1),
        ] {
            assert_eq!(positions(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn what_begins_at_the_beginning_is_in_few_places() {
        for (pattern, expected) in [
            ("^abc$", 1),
            ("^(one|two|three)$", 3),
            ("^[ -~]{1,500}$", 2),
            ("^[a-z]{1,64}@[a-z.]{1,255}$", 258),
            ("^([ab]|[a-c]){1,50}$", 50),
            ("^(a|b)*a[ab]{300}$", 302),
            ("(^a|b)[ab]{300}$", 302),
        ] {
            assert_eq!(positions(pattern), expected, "{pattern}");
        }
    }

    /// What the validator makes of it counts: it understands more than this parser.
    #[test]
    fn patterns_of_ecmascript_cost_what_they_become() {
        for pattern in ["(\\cA|[ab])*a[ab]{3000}[c-z]", "[[ab]*a[ab]{3000}"] {
            assert!(regex_syntax::parse(pattern).is_err(), "{pattern}");
            assert!((300..3_100).contains(&positions_in_schema(pattern)), "{pattern}");
        }
        assert_eq!(positions_in_schema("("), 1);
    }
}
