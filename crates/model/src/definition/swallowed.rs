//! What YAML takes out of a text without a word: `guard: !data.locked && data.ok` is the tag `!data.locked`, the anchor `&`
//! and the text `data.ok`.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{Marker, Scanner, StrInput, TokenType};

use super::Problem;
use super::node::Place;
use crate::limits::PROBLEMS_MAX;

/// The tags of YAML's own kinds, without their handle: they say how the text is read, and are obeyed.
const OBEYED: &[&str] = &["str", "int", "float", "bool", "null", "map", "seq"];

/// Tags and unused anchors of a text that is well formed, in its order.
pub(crate) fn find(text: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    // Anchors that no alias has used yet.
    let mut open: HashMap<String, Place> = HashMap::new();
    for token in Scanner::new(StrInput::new(text)) {
        // What is no YAML is told by the reader.
        let Ok(token) = token else { break };
        let place = place(token.span().start);
        match token.token_type() {
            TokenType::Tag(handle, suffix) if handle != "!!" || !OBEYED.contains(&&**suffix) => {
                // Neither the empty tag nor one that is written out in full has a handle.
                let is_full = handle.is_empty() && suffix != "!";
                let shown = if is_full { format!("!<{suffix}>") } else { format!("{handle}{suffix}") };
                found.push(tag(place, &shown));
            }
            TokenType::TagDirective(..) => {
                found.push(Problem::at(place, "", "`%TAG` names tags, and no tag is obeyed here", "remove the line"));
            }
            TokenType::Anchor(name) => {
                if let Some(before) = open.insert(name.to_string(), place) {
                    found.push(anchor(before, name));
                }
            }
            TokenType::Alias(name) => _ = open.remove(&**name),
            _ => {}
        }
    }
    found.extend(open.into_iter().map(|(name, place)| anchor(place, &name)));
    found.sort_by_key(|problem| (problem.line, problem.column));
    found.truncate(PROBLEMS_MAX);
    found
}

/// Columns are counted from 0 there.
fn place(mark: Marker) -> Place {
    Place { line: mark.line() as u64, column: mark.col() as u64 + 1 }
}

fn tag(place: Place, tag: &str) -> Problem {
    if tag.starts_with("!php/") {
        let message = format!("`{tag}` is a value of PHP's, which is not known here");
        return Problem::at(place, "", message, "write the value itself, in quotes");
    }
    let message = format!("YAML takes `{tag}` for a tag, not for a part of the text");
    Problem::at(place, "", message, "put the whole text in quotes, or remove the tag")
}

fn anchor(place: Place, name: &str) -> Problem {
    let message = format!("YAML takes `&{name}` for an anchor, not for a part of the text, and no alias uses it");
    Problem::at(place, "", message, "put the whole text in quotes, or remove the anchor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(u64, u64, String)> {
        let shown = |problem: Problem| {
            let name = problem.message.split('`').nth(1).unwrap_or_default().to_owned();
            (problem.line, problem.column, name)
        };
        find(text).into_iter().map(shown).collect()
    }

    #[test]
    fn what_is_taken_out_of_a_text_is_found_where_it_stands() {
        for (text, expected) in [
            ("a: !data.locked && data.ok", vec![(1, 4, "!data.locked"), (1, 17, "&&")]),
            ("é: x\na:\n  b: !data.locked\n  c: 1", vec![(3, 6, "!data.locked")]),
            ("a: ! data.ok", vec![(1, 4, "!")]),
            ("a: !!data.ok", vec![(1, 4, "!!data.ok")]),
            ("a: !<tag:x> b", vec![(1, 4, "!<tag:x>")]),
            ("{a: &b c, d: [&e f, *b]}", vec![(1, 15, "&e")]),
            ("- &a 1\n- &a 2\n- *a", vec![(1, 3, "&a")]),
            ("- &a 1\n- *a\n- &a 2", vec![(3, 3, "&a")]),
            ("!x a: b", vec![(1, 1, "!x")]),
            ("a: !php/const App\\X::Y", vec![(1, 4, "!php/const")]),
            ("%TAG !! tag:x,2000:\n---\na: !!str b", vec![(1, 1, "%TAG")]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(line, column, name)| (line, column, name.into())).collect();
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_obeyed_or_quoted_is_none() {
        for text in [
            "a: '!data.locked && data.ok'",
            "a: \"!x\"",
            "a: data.ok && !data.locked",
            "a: |\n  !x\n  &y",
            "a: !!str 010\nb: !!int '1'",
            "a: &x {b: c}\nd: {<<: *x}",
            "# !x &y\na: b # !z",
        ] {
            assert_eq!(told(text), [], "{text}");
        }
    }
}
