//! What is wrong in a definition is said with its place, and with what to write instead.

use lockkeeper_model::{Definition, Format, Problem};

/// The problems of a text, one a line.
fn problems(text: &str, format: Format) -> String {
    match Definition::read(text, format) {
        Ok(_) => "none".to_owned(),
        Err(problems) => lines(&problems),
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

macro_rules! golden {
    ($($name:ident: $format:ident $text:literal)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(problems($text, Format::$format));
        })*
    };
}

golden! {
    empty_yaml: Yaml ""
    empty_json: Json ""
    yaml_of_nothing: Yaml "# only a comment\n"
    yaml_of_a_text: Yaml "purchase\n"
    yaml_of_a_list: Yaml "- a\n- b\n"
    yaml_tab: Yaml "workflow: a\nstates:\n\tdraft: {type: final}\n"
    yaml_unclosed: Yaml "workflow: a\nstates: {draft: {type: final}\n"
    yaml_bad_indent: Yaml "workflow: a\n  initial: draft\nstates: {}\n"
    yaml_colon_in_plain_text: Yaml "workflow: a\ninitial: b\nstates:\n  b:\n    on:\n      go: {target: b, guard: has(data.x) ? a: b}\n"
    yaml_duplicate_key: Yaml "workflow: a\ninitial: b\nstates:\n  b: {type: final}\n  b: {type: final}\n"
    yaml_two_documents: Yaml "workflow: a\n---\nworkflow: b\n"
    yaml_unknown_alias: Yaml "workflow: a\ninitial: *b\n"
    yaml_star_guard: Yaml "workflow: a\ninitial: b\nstates: {b: {on: {go: {target: b, guard: *x}}}}\n"
    json_trailing_comma: Json "{\n  \"workflow\": \"a\",\n}"
    json_single_quotes: Json "{'workflow': 'a'}"
    json_unclosed: Json "{\"workflow\": \"a\", \"states\": {"
    json_duplicate_key: Json "{\"workflow\": \"a\",\n \"initial\": \"b\", \"initial\": \"c\",\n \"states\": {\"b\": {\"type\": \"final\"}}}"
    json_two_values: Json "{} {}"
    missing_fields: Yaml "description: nothing\n"
    wrong_kinds: Yaml "
workflow: [a]
description: 7
initial: 5
concurrency: {attempts: 0, backoff: soon, combine: yes, strategy: 1}
consistency: 3
states: [draft]
"
    wrong_values: Yaml "
workflow: Purchase Order
initial: draft
concurrency: {attempts: 11, backoff: 11s, strategy: optimist}
consistency: weak
states:
  draft: {on: {submit: {target: done, approval: {quorum: 0, roles: []}, roles: finance}, '': done}}
  more: {on: {submit: {target: done, approval: {quorum: 101}}, accept: {target: done, approval: {roles: [a]}}}}
  done: {type: final, status: ended}
"
    later_versions: Yaml "
workflow: a
initial: draft
data: {type: object}
sla: {lock_wait_p99: 500ms}
lock_key: data.key
concurrency: {strategy: distributed, lock_key: data.key, preset: scheduled}
consistency: available
on_lock_loss: refuse
states:
  draft:
    after: {72h: done}
    entry: x
    on:
      submit: {target: done, actions: x, effects: [], approval: {quorum: 1, timeout: 1h}}
  side: {type: parallel}
  done: {type: final, effects: [{webhook: x}], tasks: []}
"
    mistyped_fields: Yaml "
workflow: a
inital: draft
initial: draft
stats: {}
states:
  draft: {onn: {}, on: {submit: {traget: done, gaurd: 'true', assing: {}}, send: {target: done, approval: {qorum: 2, quorum: 2}}}}
  done: {type: finale}
"
    unknown_targets: Yaml "
workflow: a
initial: drafft
states:
  draft: {on: {submit: reveiw, go: {target: nowhere}, pick: [{target: dnoe, guard: data.x}, done]}}
  review: {on: {approve: done}}
  done: {type: final}
"
    unreachable_and_stuck: Yaml "
workflow: a
initial: draft
states:
  draft: {on: {submit: done, stop: halt}}
  halt: {}
  island: {on: {swim: done}}
  other: {on: {swim: island}}
  done: {type: final}
"
    final_states: Yaml "
workflow: a
initial: draft
states:
  draft: {status: failed, on: {submit: done}}
  done: {type: final, on: {reopen: draft}}
"
    shadowed: Yaml "
workflow: a
initial: draft
states:
  draft:
    on:
      submit:
        - {target: done, guard: data.x}
        - {target: done}
        - {target: draft, guard: data.y}
        - draft
      empty: []
      nothing:
      number: 5
  done: {type: final}
"
    expressions: Yaml r#"
workflow: a
initial: draft
states:
  draft:
    on:
      plain: {target: done, guard: data.n > }
      quoted: {target: done, guard: "data.n == 'ü' && amuont > 5"}
      single: {target: done, guard: 'data.name == ''x'' && evnt.y'}
      literal:
        target: done
        guard: |
          data.n > 1 &&
            data.m >> 2
      folded:
        target: done
        guard: >-
          data.n > 1 &&
          lenght(data.m) > 2
      assigned: {assign: {a: event.x, b: 7, c: true, d: null, e: text, f: "'text'", g: [1]}}
      empty: {target: done, guard: ""}
      costly: {target: done, guard: "data.a.all(x, data.b.all(y, data.c.all(z, z == x)))"}
  done: {type: final}
"#
    expressions_in_json: Json r#"{
  "workflow": "a", "initial": "draft",
  "states": {
    "draft": {"on": {"go": {"target": "done", "guard": "data.n == \"\u00fc\" && amuont > 5"}}},
    "done": {"type": "final"}
  }
}"#
}

/// A text that is right.
const GOOD: &str = "
workflow: purchase
description: Two of finance and the managers
initial: draft
concurrency: {strategy: optimistic, attempts: 5, backoff: 20ms, combine: false}
consistency: strong
states:
  draft: {description: Being written, on: {submit: {target: review, assign: {amount: event.amount, seen: 0, ok: true}}}}
  review:
    on:
      approve:
        - {target: approved, guard: data.amount < 10, description: Small}
        - {target: approved, approval: {quorum: 2, roles: [manager, finance, manager]}, roles: [staff]}
      reject: rejected
      note: {}
      back: draft
  approved: {type: final, status: completed}
  rejected: {type: final, status: failed}
";

#[test]
fn a_right_text_is_read() {
    let definition = Definition::read(GOOD, Format::Yaml).unwrap();
    assert_eq!((definition.workflow().as_str(), definition.version()), ("purchase", 0));
    let concurrency = definition.concurrency();
    assert_eq!((concurrency.attempts, concurrency.backoff.as_millis(), concurrency.combine), (5, 20, false));
    assert_eq!(definition.state_names().collect::<Vec<_>>(), ["draft", "review", "approved", "rejected"]);
    assert_eq!(definition.open_events("review"), ["approve", "reject", "note", "back"]);
    assert!(definition.open_events("approved").is_empty() && definition.open_events("nowhere").is_empty());
    assert_eq!(definition.warnings(), []);
    assert_eq!(definition.with_version(7).version(), 7);
}

#[test]
fn json_and_yaml_are_read_alike() {
    let json = r#"{"workflow": "a", "initial": "b", "states": {"b": {"on": {"gö": {"target": "c", "guard": "data.x == \"\ud83d\ude00\""}}}, "c": {"type": "final"}}}"#;
    let json = Definition::read(json, Format::Json).unwrap();
    assert_eq!(json.open_events("b"), ["gö"]);
    // JSON is YAML, too; and a tab between tokens is no indentation.
    let text = "{\"workflow\": \"a\",\n\t\"initial\": \"b\",\n\t\"states\": {\"b\": {\"type\": \"final\"}}}";
    assert!(Definition::read(text, Format::Json).is_ok());
    let events = "{workflow: a, initial: b, states: {b: {on: {on: c, yes: c, 404: c, \"null\": c}}, c: {type: final}}}";
    let definition = Definition::read(events, Format::Yaml).unwrap();
    assert_eq!(definition.open_events("b"), ["on", "yes", "404", "null"], "names are taken as they are written");
}

#[test]
fn what_is_doubtful_is_a_warning() {
    let text = "
workflow: a
initial: first
states:
  first: {on: {approve: second, hold: parked}}
  second: {on: {approve: [{target: third, guard: data.x}, {target: done}], redo: second}}
  third: {on: {approve: third, end: done}}
  parked: {on: {touch: {}, again: parked}}
  done: {type: final}
";
    insta::assert_snapshot!(lines(Definition::read(text, Format::Yaml).unwrap().warnings()));
}

#[test]
fn bombs_are_refused() {
    let aliases = {
        let mut text = "workflow: a\ninitial: b\nx0: &x0 [y, y, y, y, y, y, y, y, y]\n".to_owned();
        for n in 1..12 {
            text += &format!("x{n}: &x{n} [{}]\n", vec![format!("*x{}", n - 1); 9].join(", "));
        }
        text
    };
    let deep = |open: &str, close: &str| format!("workflow: a\nx: {}1{}", open.repeat(20_000), close.repeat(20_000));
    let long = format!("workflow: a # {}", "x".repeat(lockkeeper_model::limits::DEFINITION_BYTES_MAX));
    for (text, expected) in [
        (aliases, "the aliases stand for too many parts"),
        (deep("[", "]"), "nest"),
        (deep("{a: ", "}"), "nest"),
        (format!("workflow: a\nx: [{}]", "1,".repeat(400_000)), "too many parts"),
        (long, "at most 1048576 are allowed"),
    ] {
        let said = problems(&text, Format::Yaml);
        assert!(said.contains(expected), "{:.60}: {said}", text);
    }
    assert!(problems(&("[".repeat(100_000) + &"]".repeat(100_000)), Format::Json).contains("not JSON"));
}

#[test]
fn no_more_problems_are_told_than_are_read() {
    let events: String = (0..20_000).map(|n| format!("      e{n}: {{guard: xx{n}}}\n")).collect();
    let text = format!("workflow: a\ninitial: a\nstates:\n  a:\n    on:\n{events}");
    assert_eq!(Definition::read(&text, Format::Yaml).unwrap_err().len(), 100);
}

#[test]
fn limits_are_kept() {
    use lockkeeper_model::limits::{STATES_MAX, TRANSITIONS_MAX};
    let chain = |states: usize| {
        let states: String = (1..states).map(|n| format!("  s{n}: {{on: {{go: s{}}}}}\n", n + 1)).collect();
        format!("workflow: a\ninitial: s1\nstates:\n{states}")
    };
    let most = chain(STATES_MAX) + &format!("  s{STATES_MAX}: {{type: final}}\n");
    assert_eq!(problems(&most, Format::Yaml), "none");
    let more = chain(STATES_MAX + 1) + &format!("  s{}: {{type: final}}\n", STATES_MAX + 1);
    assert_eq!(
        problems(&more, Format::Yaml),
        "3:1: states: there are 501 states; at most 500 are allowed (split the workflow into several)"
    );
    let events = |events: usize| {
        let events: String = (0..events).map(|n| format!("      e{n}: b\n")).collect();
        format!("workflow: a\ninitial: a\nstates:\n  b: {{type: final}}\n  a:\n    on:\n{events}")
    };
    assert_eq!(problems(&events(TRANSITIONS_MAX), Format::Yaml), "none");
    assert_eq!(
        problems(&events(TRANSITIONS_MAX + 1), Format::Yaml),
        "3:1: states: there are 5001 transitions; at most 5000 are allowed (split the workflow into several)"
    );
    let name = "x".repeat(129);
    let long = format!("{{workflow: a, initial: b, states: {{b: {{on: {{{name}: c}}}}, c: {{type: final}}}}}}");
    assert!(problems(&long, Format::Yaml).contains("event has 129 bytes; at most 128 are allowed"));
}

#[test]
fn assigns_and_patterns_are_bounded() {
    use lockkeeper_model::limits::{ASSIGNS_MAX, PATTERNS_MAX};
    let with = |assigns: usize, patterns: usize| {
        let fields: Vec<String> = (0..assigns).map(|n| format!("f{n}: 1")).collect();
        let events: Vec<String> =
            (0..patterns).map(|n| format!("e{n}: {{target: z, guard: \"event.t.matches('a{n}')\"}}")).collect();
        let text = format!(
            "workflow: w\ninitial: a\nstates:\n  a: {{on: {{set: {{target: z, assign: {{{}}}}}, {}}}}}\n  z: {{type: final}}\n",
            fields.join(", "),
            events.join(", ")
        );
        Definition::read(&text, Format::Yaml).err().unwrap_or_default()
    };
    assert_eq!(with(ASSIGNS_MAX, PATTERNS_MAX), []);
    let one_too_many = |problems: Vec<Problem>, what: &str| {
        assert!(!problems.is_empty() && problems[0].message.contains(what), "{problems:?}");
    };
    one_too_many(with(ASSIGNS_MAX + 1, 1), "fields are assigned");
    one_too_many(with(1, PATTERNS_MAX + 1), "regular expressions");
}
