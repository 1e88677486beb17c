//! A definition as a diagram: `stateDiagram-v2` of Mermaid (<https://mermaid.js.org/syntax/stateDiagram.html>).
//!
//! States are numbered, and their names are labels, so that no name can be taken for a word of the language; labels carry
//! whatever could be one as an entity code.

use std::fmt::Write as _;

use super::Definition;
use super::outline::{StateOutline, TransitionOutline};

/// The longest guard that is shown, in characters: a diagram with more cannot be read.
const GUARD_CHARS_MAX: usize = 60;

/// Words that Mermaid looks for anywhere in a line, entity codes or not, each with a letter of it: to write that as a code is
/// enough.
const PREPROCESSED: &[(&str, char)] = &[("style", 's'), ("classDef", 's'), ("direction", 'd')];

impl Definition {
    /// The machine as a Mermaid state diagram: guards in brackets, approvals as `(2 of finance, manager)`, assigned fields
    /// behind a slash; final states lead to the end, with the run's status unless that is `completed`.
    pub fn mermaid(&self) -> String {
        let states = self.outline();
        let number = |name: &str| states.iter().position(|state| state.name == name).unwrap_or_default();
        let mut text = "stateDiagram-v2\n".to_owned();
        for (at, state) in states.iter().enumerate() {
            _ = writeln!(text, "    state \"{}\" as s{at}", escaped(&state.name));
        }
        _ = writeln!(text, "    [*] --> s{}", number(self.initial()));
        for (at, state) in states.iter().enumerate() {
            for way in &state.transitions {
                let target = way.target.as_deref().map_or(at, number);
                _ = writeln!(text, "    s{at} --> s{target} : {}", escaped(&label(way)));
            }
            for way in &state.after {
                let target = way.target.as_deref().map_or(at, number);
                _ = writeln!(text, "    s{at} --> s{target} : {}", escaped(&format!("after {}", label(way))));
            }
            write_end(&mut text, at, state);
        }
        text
    }
}

fn write_end(text: &mut String, at: usize, state: &StateOutline) {
    match state.status {
        None => {}
        Some("completed") => _ = writeln!(text, "    s{at} --> [*]"),
        Some(status) => _ = writeln!(text, "    s{at} --> [*] : {status}"),
    }
}

/// `event [guard] (2 of finance, manager) (by clerk) / amount`.
fn label(way: &TransitionOutline) -> String {
    let mut label = way.event.clone();
    if let Some(guard) = &way.guard {
        _ = write!(label, " [{}]", shortened(guard));
    }
    if let Some(approval) = &way.approval {
        _ = write!(label, " ({})", approval.text());
    }
    if !way.roles.is_empty() {
        _ = write!(label, " (by {})", way.roles.join(", "));
    }
    match &way.back {
        Some(back) => _ = write!(label, " (returns: {back})"),
        None if way.target.is_none() => label.push_str(" (stays)"),
        None => {}
    }
    let fields: Vec<&str> = way.assign.iter().map(|assign| assign.field.as_str()).collect();
    if !fields.is_empty() {
        _ = write!(label, " / {}", fields.join(", "));
    }
    label
}

/// A guard in one line, cut where it is long.
fn shortened(guard: &str) -> String {
    let line = guard.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= GUARD_CHARS_MAX {
        return line;
    }
    line.chars().take(GUARD_CHARS_MAX).chain(['…']).collect()
}

/// A label's text: everything that means something to Mermaid, to HTML or to Markdown as an entity code.
fn escaped(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " .,()/-!?=+'".contains(c) || !c.is_ascii();
    let hides = |c: char| PREPROCESSED.iter().any(|(word, letter)| *letter == c && text.contains(word));
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) && !hides(c) {
            escaped.push(c);
        } else if !c.is_control() {
            _ = write!(escaped, "#{};", u32::from(c));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use crate::{Definition, Format};

    fn drawn(text: &str) -> String {
        Definition::read(text, Format::Yaml).expect("a definition").mermaid()
    }

    #[test]
    fn everything_that_decides_is_in_the_label() {
        let text = "workflow: w\ninitial: draft\nstates:\n  draft: {on: {submit: {target: review, assign: {amount: \
                    event.amount}}}}\n  review:\n    on:\n      approve: {target: done, guard: \"actor.id != \
                    'x'\", approval: {quorum: 2, roles: [finance, manager]}}\n      note: {roles: [clerk]}\n      \
                    drop: gone\n  done: {type: final}\n  gone: {type: final, status: failed}\n";
        let expected = "\
stateDiagram-v2
    state \"draft\" as s0
    state \"review\" as s1
    state \"done\" as s2
    state \"gone\" as s3
    [*] --> s0
    s0 --> s1 : submit / amount
    s1 --> s2 : approve #91;actor.id != 'x'#93; (2 of finance, manager)
    s1 --> s1 : note (by clerk) (stays)
    s1 --> s3 : drop
    s2 --> [*]
    s3 --> [*] : failed
";
        assert_eq!(drawn(text), expected);
    }

    #[test]
    fn no_name_can_be_taken_for_a_word_of_the_language() {
        let text = "{workflow: w, initial: end, states: {end: {on: {'a: b; %% \"c\" -->': 'style: #1;'}}, \
                    'style: #1;': {on: {'🚀 go': '[*]', 'set direction LR': '[*]'}}, '[*]': {type: final}}}";
        let drawn = drawn(text);
        for line in [
            "state \"end\" as s0",
            "state \"#115;tyle#58; #35;1#59;\" as s1",
            "state \"#91;#42;#93;\" as s2",
            "s0 --> s1 : a#58; b#59; #37;#37; #34;c#34; --#62;",
            "s1 --> s2 : 🚀 go",
            "s1 --> s2 : set #100;irection LR",
        ] {
            assert!(drawn.lines().any(|drawn| drawn.trim() == line), "{line}\nis not in\n{drawn}");
        }
    }

    #[test]
    fn a_long_guard_is_cut() {
        let text = format!(
            "{{workflow: w, initial: a, states: {{a: {{on: {{x: {{target: z, guard: \"'{}' == 'b'\\n || true\"}}}}}}, \
             z: {{type: final}}}}}}",
            "a".repeat(80)
        );
        let drawn = drawn(&text);
        assert!(drawn.contains("aaa…#93;"), "{drawn}");
    }
}
