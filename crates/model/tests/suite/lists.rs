//! Lists of transitions of which some are never taken.

use lockkeeper_model::{Definition, Format};

/// The warnings about a list of transitions of one event.
fn warnings(list: &str) -> Vec<String> {
    let text = format!("workflow: w\ninitial: a\nstates:\n  a: {{on: {{x: {list}, y: z}}}}\n  z: {{type: final}}\n");
    let definition = Definition::read(&text, Format::Yaml).unwrap_or_else(|problems| panic!("{problems:?}"));
    definition.warnings().iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
}

#[test]
fn a_guard_that_was_tried_before_is_told() {
    assert_eq!(
        warnings(
            "[{guard: data.a > 1, target: z}, {guard: data.b > 1, target: z}, {guard: '(data.a  >  1)', target: a}]"
        ),
        ["states.a.on.x[2].guard: its guard is that of states.a.on.x[0]: it is never taken"]
    );
    let patterns = "[{guard: \"data.a.matches('b')\", target: z}, {guard: \"data.a.matches('c')\", target: a}]";
    assert_eq!(warnings(patterns), [""; 0], "the same shape, and another pattern");
}

#[test]
fn a_guard_that_looks_at_nothing_is_told() {
    assert_eq!(
        warnings("[{guard: 'true', target: z}, {guard: data.b > 1, target: a}, {target: z}]"),
        ["states.a.on.x[0].guard: its guard always holds, and hides those after it"]
    );
    assert_eq!(
        warnings("[{guard: 1 > 2, target: z}, {guard: '!false', target: z}]"),
        ["states.a.on.x[0].guard: its guard never holds: it is never taken"]
    );
    assert_eq!(
        warnings("{guard: 1, target: z}"),
        ["states.a.on.x.guard: a guard yields true or false, and this yields a number"]
    );
    assert_eq!(
        warnings("{guard: 1 / 0 > 1, target: z}"),
        ["states.a.on.x.guard: every command that comes to its guard is refused: division by zero"]
    );
    assert_eq!(warnings("[{guard: data.ok, target: z}, {target: z}]"), [""; 0]);
}
