//! Items of a history as rows for people.

use serde_json::Value;

use crate::commands::field;
use crate::output::{Colour, Output, printable};

/// The longest data that is shown in a row, in characters; `-o json` has it whole.
const DATA_CHARS_MAX: usize = 60;

/// The columns.
pub(crate) const HEADING: [&str; 7] = ["VERSION", "AT", "KIND", "EVENT", "STATE", "ACTOR", "DETAIL"];

/// How wide the columns of a growing list are.
const WIDTHS: [usize; 7] = [7, 20, 9, 12, 22, 16, 0];

/// Which column is coloured.
const KIND_COLUMN: usize = 2;

/// One item.
pub(crate) fn row(item: &Value) -> Vec<String> {
    vec![
        field::text(item, "version"),
        field::time(item, "at"),
        field::text(item, "kind"),
        event(item),
        states(item),
        actor(item),
        detail(item),
    ]
}

/// One item as a line, with columns at their usual widths: for a list that grows while it is shown.
pub(crate) fn line(output: &Output, item: &Value) -> String {
    let row = row(item);
    let colour = match row[2].as_str() {
        "terminate" | "cancel" | "timed_out" => Colour::Red,
        "vote" | "timer" | "migrate" | "delegate" | "add_approver" | "recall" => Colour::Yellow,
        _ => Colour::Green,
    };
    columns(row.iter().map(|cell| printable(cell)), |kind| output.paint(colour, kind))
}

/// The heading above such lines.
pub(crate) fn line_heading(output: &Output) -> String {
    output.paint(Colour::Dim, &columns(HEADING.iter().map(|title| (*title).to_owned()), str::to_owned))
}

/// Pads the cells to the widths of their columns; `paint` colours the kind.
fn columns(cells: impl Iterator<Item = String>, paint: impl Fn(&str) -> String) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.zip(WIDTHS).enumerate() {
        let padded = format!("{cell:<width$}");
        line.push_str(&if column == KIND_COLUMN { paint(&padded) } else { padded });
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

/// The event, or the time at which a timer was due: `after 72h`.
fn event(item: &Value) -> String {
    if field::is_given(item, "after") {
        format!("after {}", field::text(item, "after"))
    } else {
        field::text(item, "event")
    }
}

/// `draft > review`, or one state where nothing was left.
fn states(item: &Value) -> String {
    let (from, to) = (field::text(item, "from"), field::text(item, "to"));
    if from == field::NOTHING || from == to { to } else { format!("{from} > {to}") }
}

/// The id, its roles in brackets; before it the token that acted as this actor, where it is another.
fn actor(item: &Value) -> String {
    let (mut actor, roles) = (field::text(item, "actor"), field::list(item, "roles"));
    if roles != field::NOTHING {
        actor = format!("{actor} ({roles})");
    }
    if field::is_given(item, "via") { format!("{} as {actor}", field::text(item, "via")) } else { actor }
}

fn detail(item: &Value) -> String {
    let mut parts = Vec::new();
    if field::is_given(item, "approved_by") {
        parts.push(format!("approved by {}", field::list(item, "approved_by")));
    }
    if field::is_given(item, "votes_dropped") {
        parts.push(format!("void are the votes of {}", field::list(item, "votes_dropped")));
    }
    if field::is_given(item, "on_behalf_of") {
        parts.push(format!("for {}", field::text(item, "on_behalf_of")));
    }
    if field::is_given(item, "subject") {
        parts.push(field::text(item, "subject"));
    }
    if field::is_given(item, "from_definition_version") {
        let (from, to) = (field::text(item, "from_definition_version"), field::text(item, "definition_version"));
        parts.push(format!("version {from} > {to} of the definition"));
    }
    if field::is_given(item, "reason") {
        parts.push(field::text(item, "reason"));
    }
    if field::is_given(item, "data") {
        parts.push(shorten(&field::text(item, "data")));
    }
    parts.join("; ")
}

fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(DATA_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_says_who_did_what() {
        let item = json!({"version": 4, "kind": "move", "event": "approve", "from": "review", "to": "approved",
            "actor": "eve", "roles": ["manager"], "at": "2026-11-29T13:57:18.123Z", "run": "r",
            "approved_by": ["bob", "eve"], "data": {"note": "x".repeat(100)}});
        let row = row(&item);
        assert_eq!(row[..6], ["4", "2026-11-29 13:57:18Z", "move", "approve", "review > approved", "eve (manager)"]);
        assert!(row[6].starts_with("approved by bob, eve; {\"note\":\"xxx") && row[6].ends_with('…'), "{}", row[6]);
    }

    #[test]
    fn a_token_that_acts_as_another_is_named() {
        let item = json!({"version": 2, "kind": "move", "event": "go", "from": "a", "to": "b", "actor": "ann",
            "roles": ["clerk"], "via": "gateway", "at": "x"});
        assert_eq!(row(&item)[5], "gateway as ann (clerk)");
    }

    #[test]
    fn a_timer_says_its_time() {
        let item = json!({"version": 3, "kind": "timer", "event": null, "after": "72h", "from": "review", "to": "escalated",
            "actor": "timer", "at": "x"});
        assert_eq!(row(&item)[2..], ["timer", "after 72h", "review > escalated", "timer", ""]);
    }

    #[test]
    fn a_start_leaves_no_state() {
        let item = json!({"version": 1, "kind": "start", "to": "draft", "from": null, "actor": "ann", "at": "x"});
        assert_eq!(row(&item)[3..], ["-", "draft", "ann", ""]);
    }
}
