//! A machine on one level as a definition's text.

use std::fmt::Write as _;
use std::time::Duration;

use super::chart::Trigger;
use super::flat::{FlatMachine, FlatWay};
use crate::duration;
use crate::names::WorkflowName;

/// The definition in YAML.
pub(super) fn print(workflow: &WorkflowName, description: Option<&str>, machine: &FlatMachine) -> String {
    let mut text = format!("workflow: {}\n", scalar(workflow.as_str()));
    if let Some(description) = description {
        _ = writeln!(text, "description: {}", scalar(description));
    }
    _ = write!(text, "initial: {}\nstates:\n", scalar(&machine.initial));
    for state in &machine.states {
        let description = state.description.as_deref();
        if state.is_final {
            let description = description.map(|text| format!(", description: {}", json(text))).unwrap_or_default();
            _ = writeln!(text, "  {}: {{type: final{description}}}", scalar(&state.name));
            continue;
        }
        _ = writeln!(text, "  {}:", scalar(&state.name));
        if let Some(description) = description {
            _ = writeln!(text, "    description: {}", scalar(description));
        }
        let is_timer = |list: &&(Trigger, Vec<FlatWay>)| matches!(list.0, Trigger::After(_));
        let (timers, events): (Vec<_>, Vec<_>) = state.lists.iter().partition(is_timer);
        print_lists(&mut text, "on", &events);
        print_lists(&mut text, "after", &timers);
    }
    text
}

fn print_lists(text: &mut String, field: &str, lists: &[&(Trigger, Vec<FlatWay>)]) {
    if lists.is_empty() {
        return;
    }
    _ = writeln!(text, "    {field}:");
    for (trigger, ways) in lists {
        let name = match trigger {
            Trigger::Event(name) => scalar(name),
            Trigger::After(ms) => duration::write(Duration::from_millis(*ms)),
            Trigger::Always | Trigger::Done(_) => continue,
        };
        match ways.as_slice() {
            [way] => _ = writeln!(text, "      {name}: {}", transition(way)),
            ways => {
                _ = writeln!(text, "      {name}:");
                for way in ways {
                    _ = writeln!(text, "        - {}", transition(way));
                }
            }
        }
    }
}

/// A transition, as short as it can be written.
fn transition(way: &FlatWay) -> String {
    let mut fields = Vec::new();
    if let Some(target) = &way.target {
        if way.guard.is_none() && way.assigns.is_empty() && way.description.is_none() {
            return scalar(target);
        }
        fields.push(format!("target: {}", json_or_plain(target)));
    }
    fields.extend(way.guard.as_ref().map(|guard| format!("guard: {}", json(guard))));
    if !way.assigns.is_empty() {
        let assigns = way.assigns.iter().map(|(field, value)| format!("{}: {}", json_or_plain(field), json(value)));
        fields.push(format!("assign: {{{}}}", assigns.collect::<Vec<_>>().join(", ")));
    }
    fields.extend(way.description.as_ref().map(|text| format!("description: {}", json(text))));
    format!("{{{}}}", fields.join(", "))
}

/// A text in block style: bare where YAML takes it for nothing else.
fn scalar(text: &str) -> String {
    json_or_plain(text)
}

fn json_or_plain(text: &str) -> String {
    const OTHERS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let mut chars = text.chars();
    let is_word = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if is_word && !OTHERS.contains(&text.to_ascii_lowercase().as_str()) { text.to_owned() } else { json(text) }
}

/// A text in double quotes; YAML reads JSON's escapes. What YAML takes for unprintable is escaped too.
fn json(text: &str) -> String {
    let mut quoted = String::new();
    for c in serde_json::Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bare_and_all_else_is_quoted() {
        for (text, written) in [
            ("draft", "draft"),
            ("door.open", "door.open"),
            ("on", "\"on\""),
            ("No", "\"No\""),
            ("1a", "\"1a\""),
            ("a: b", "\"a: b\""),
            ("", "\"\""),
            ("ü\t", "\"ü\\t\""),
            ("a\u{7f}\u{fffe}", "\"a\\u007f\\ufffe\""),
        ] {
            assert_eq!(scalar(text), written);
        }
    }
}
