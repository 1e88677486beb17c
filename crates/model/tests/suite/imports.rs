//! Machines of other tools, as definitions.
//!
//! The machines are those of public examples, written anew: `toggle`, `feedback` and the traffic light from the
//! documentation of XState (<https://stately.ai/docs>), the microwave from appendix G of SCXML
//! (<https://www.w3.org/TR/scxml/#Examples>), the pull request from Symfony's documentation of state machines
//! (<https://symfony.com/doc/current/workflow/workflow-and-state-machine.html>).

use lockkeeper_model::import::{Imported, Options, Source, guard_names, import};
use lockkeeper_model::{Definition, Format, WorkflowName};

use proptest::prelude::*;

use crate::support::Case;

const TOGGLE: &str = include_str!("machines/toggle.json");
const FEEDBACK: &str = include_str!("machines/feedback.json");
const TRAFFIC_LIGHT: &str = include_str!("machines/traffic_light.json");
const MICROWAVE: &str = include_str!("machines/microwave.scxml");
const PULL_REQUEST: &str = include_str!("machines/pull_request.yaml");

fn with_guards(guards: &[(&str, &str)]) -> Options {
    let guards = guards.iter().map(|(name, cel)| ((*name).to_owned(), (*cel).to_owned())).collect();
    Options { guards, ..Options::default() }
}

fn read(text: &str, source: Source, options: &Options) -> Imported {
    import(text, source, options)
        .unwrap_or_else(|problems| panic!("{}", problems.iter().map(|p| format!("{p}\n")).collect::<String>()))
}

/// The lines of what is lost, and of what is noted.
fn told(imported: &Imported) -> Vec<String> {
    let line = |kind: &'static str| move |problem: &lockkeeper_model::Problem| format!("{kind} {problem}");
    imported.lost.iter().map(line("lost")).chain(imported.notes.iter().map(line("note"))).collect()
}

/// What is wrong with a machine.
fn refused(text: &str, source: Source) -> String {
    match import(text, source, &Options::default()) {
        Ok(imported) => panic!("accepted:\n{}", imported.text),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

#[test]
fn whose_machine_it_is_is_told_by_its_text() {
    for (ending, text, source) in [
        ("json", TOGGLE, Some(Source::XState)),
        ("scxml", MICROWAVE, Some(Source::Scxml)),
        ("", MICROWAVE, Some(Source::Scxml)),
        ("yaml", PULL_REQUEST, Some(Source::Symfony)),
        ("json", "{\"workflow\": \"w\", \"initial\": \"a\", \"states\": {}}", None),
        ("json", "{\"initial\": \"a\", \"states\": {}}", None),
        ("yaml", "workflow: w\nstates:\n  places: {}\n  transitions: {}\n", None),
        ("yaml", "", None),
    ] {
        assert_eq!(Source::detect(ending, text), source, "{text}");
    }
}

#[test]
fn a_flat_machine_of_xstate_runs() {
    let imported = read(TOGGLE, Source::XState, &Options::default());
    insta::assert_snapshot!(imported.text, @r#"
    workflow: toggle
    initial: inactive
    states:
      inactive:
        on:
          toggle: active
      active:
        on:
          toggle: inactive
    "#);
    assert_eq!(told(&imported), [""; 0]);
    Case::new(&imported.text).run(
        "ann start -> started v1 inactive\n\
         ann toggle -> applied v2 active",
    );
}

#[test]
fn states_inside_of_states_run_on_one_level() {
    let imported = read(TRAFFIC_LIGHT, Source::XState, &Options::default());
    insta::assert_snapshot!(imported.text);
    assert_eq!(told(&imported), [""; 0]);
    Case::new(&imported.text).run(
        "ann start -> started v1 green\n\
         ann TIMER -> applied v2 yellow\n\
         ann TIMER from=yellow -> applied v3 red.walk\n\
         ann COUNTDOWN -> applied v4 red.wait\n\
         ann COUNTDOWN from=red.wait -> applied v5 green\n\
         ann POWER_OUTAGE -> applied v6 red.walk",
    );
}

#[test]
fn a_machine_of_xstate_says_what_it_loses() {
    let imported = read(FEEDBACK, Source::XState, &with_guards(&[("feedbackValid", "size(event.feedback) > 0")]));
    insta::assert_snapshot!(format!("{}\n{}", imported.text, told(&imported).join("\n")));
    let problems = refused(FEEDBACK, Source::XState);
    assert_eq!(
        problems,
        "16:54: states.form.on.submit.guard: the guard \"feedbackValid\" is code of the machine's own (give it in CEL: \
         --guard 'feedbackValid=CEL')\n"
    );
}

#[test]
fn the_microwave_of_scxml_runs() {
    let imported = read(MICROWAVE, Source::Scxml, &Options::default());
    insta::assert_snapshot!(format!("{}\n{}", imported.text, told(&imported).join("\n")));
    Case::new(&imported.text).run(
        "ann start data={\"cook_time\":2,\"door_closed\":false,\"timer\":0} -> started v1 off\n\
         ann turn.on -> applied v2 idle\n\
         ann door.close -> applied v3 cooking\n\
         ann time -> applied v4 cooking\n\
         ann door.open -> applied v5 idle\n\
         ann door.close from=idle -> applied v6 cooking\n\
         ann time -> applied v7 off",
    );
}

#[test]
fn a_state_machine_of_symfony_runs() {
    let imported = read(PULL_REQUEST, Source::Symfony, &Options::default());
    insta::assert_snapshot!(format!("{}\n{}", imported.text, told(&imported).join("\n")));
    Case::new(&imported.text).run(
        "ann start -> started v1 start\n\
         ann submit -> applied v2 test\n\
         ann wait_for_review -> applied v3 review\n\
         bob[ROLE_REVIEWER] accept -> applied v4 merged completed",
    );
}

#[test]
fn what_would_be_another_machine_is_refused() {
    let xstate = |states: &str| format!("{{\"id\": \"m\", \"initial\": \"a\", \"states\": {{{states}}}}}");
    for (states, expected) in [
        ("\"a\": {\"type\": \"parallel\", \"states\": {}}", "`type: parallel` cannot be carried over"),
        ("\"a\": {\"type\": \"history\"}", "`type: history` cannot be carried over"),
        (
            "\"a\": {\"on\": {\"x\": \"bb\"}}, \"b\": {\"type\": \"final\"}",
            "there is no state \"bb\" from here; did you mean \"b\"?",
        ),
        ("\"a\": {\"on\": {\"x\": {\"target\": [\"a\", \"b\"]}}}, \"b\": {}", "several targets at once"),
        (
            "\"a\": {\"after\": {\"later\": \"b\"}}, \"b\": {\"type\": \"final\"}",
            "the delay \"later\" is computed elsewhere",
        ),
        ("\"a\": {\"always\": \"b\"}, \"b\": {\"always\": \"a\"}", "lead round in a circle"),
        ("\"a\": {\"states\": {\"b\": {}}}", "it does not say in which state it begins"),
        ("\"a\": 1", "a state is a block, not a number"),
        ("", "there is no state \"a\""),
    ] {
        let problems = refused(&xstate(states), Source::XState);
        assert!(problems.contains(expected), "{states}\n{problems}");
    }
    let scxml = |inside: &str| format!("<scxml name='m' initial='a'>\n{inside}</scxml>");
    for (inside, expected) in [
        ("<parallel id='a'/>", "2:1: scxml.a: <parallel> cannot be carried over"),
        ("<state id='a'><history id='h'/></state>", "<history> cannot be carried over"),
        ("<state id='a'><transition event='x' target='z'/></state>", "there is no state \"z\""),
        ("<state id='a'><transition event='x' cond=\"In('b')\" target='a'/></state>", "calls or indexes `In`"),
        (
            "<state id='a'><transition event='x'><assign location='x' expr='f(1)'/></transition></state>",
            "the assignment to \"x\"",
        ),
        ("<state id='a'/><state id='a'/>", "the id \"a\" is given twice"),
        ("<state id='a'>", "not XML"),
    ] {
        let problems = refused(&scxml(inside), Source::Scxml);
        assert!(problems.contains(expected), "{inside}\n{problems}");
    }
    let bomb = "<!DOCTYPE s [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><scxml/>";
    assert!(refused(bomb, Source::Scxml).contains("not XML"));
    assert!(refused(&"<a>".repeat(100_000), Source::Scxml).contains("nested more than 128 deep"));
    for (text, expected) in [
        ("places: [a, b]\ntransitions: {x: {from: a, to: [a, b]}}\n", "leads to one place"),
        (
            "type: workflow\nplaces: [a, b]\ntransitions: {x: {from: a, to: b}}\n",
            "`type: workflow` cannot be carried over",
        ),
        ("places: [a, b]\ntransitions: {x: {from: a, to: c}}\n", "there is no place \"c\""),
        (
            "places: [a]\ntransitions: {x: {from: a, to: a, guard: 'user.x()'}}\n",
            "the guard \"user.x()\" is not translated",
        ),
        ("framework: {workflows: {a: {places: []}, b: {places: []}}}", "there are 2 workflows in it"),
    ] {
        let problems = refused(text, Source::Symfony);
        assert!(problems.contains(expected), "{text}\n{problems}");
    }
}

/// A machine of XState by its states.
fn machine_of(initial: &str, states: &str) -> String {
    format!("{{\"id\": \"m\", \"initial\": \"{initial}\", \"states\": {{{states}}}}}")
}

/// A delay belongs to the state that it is written in, and goes on while the run stays in it
/// (<https://stately.ai/docs/delayed-transitions>).
#[test]
fn delays_of_xstate_are_timers() {
    let text = machine_of(
        "a",
        r#""a": {"after": {"1500": "b", "60000": {"target": "a", "reenter": true}, "2000": "a"}},
           "b": {"on": {"again": "b"}, "after": {"1000": [{"guard": "g", "target": "a"}, {"target": "z"}]}}, "z": {"type": "final"}"#,
    );
    let imported = read(&text, Source::XState, &with_guards(&[("g", "data.g")]));
    insta::assert_snapshot!(imported.text, @r#"
    workflow: m
    initial: a
    states:
      a:
        after:
          1500ms: b
          1m: a
      b:
        on:
          again: {}
        after:
          1s:
            - {target: a, guard: "data.g"}
            - z
      z: {type: final}
    "#);
    assert_eq!(told(&imported), [""; 0], "to stay where it is is to do nothing");
    Case::new(&imported.text).run(
        "ann start data={\"g\":false} -> started v1 a\n\
         timer fire until=2 -> already_applied v1 a, stays\n\
         timer fire until=3 -> applied v2 b\n\
         timer fire until=9 -> applied v3 z completed",
    );
}

/// The timer of a state with others inside goes on while the run moves within it. That cannot be written here, so it is said
/// wherever it makes a difference, and only there.
#[test]
fn delays_around_other_states_are_carried_over_or_named() {
    let around = |inside: &str, on: &str| {
        machine_of(
            "p",
            &format!(
                r#""p": {{"initial": "x", "after": {{"5000": "z"}}, {on} "states": {{{inside}}}}}, "q": {{"on": {{"back": "p.y", "end": "z"}}}}, "z": {{"type": "final"}}"#
            ),
        )
    };
    let named = "the delay is that of the states inside of \"p\" together: here it begins anew in each of them";
    for (inside, on, moves) in [
        (r##""x": {"on": {"go": "#m.q"}}, "y": {"on": {"go": "#m.q"}}"##, "", false),
        (r##""x": {"on": {"go": "y", "out": "#m.q"}}, "y": {}"##, "", true),
        (r##""x": {"on": {"go": "#m.q"}}, "y": {}"##, r##""on": {"reset": ".x"},"##, true),
        (r##""x": {"always": "y"}, "y": {"on": {"go": "#m.q"}}"##, "", false),
        (
            r##""x": {"on": {"again": {"target": "x", "reenter": true}, "out": "#m.q"}}, "y": {"on": {"go": "#m.q"}}"##,
            "",
            true,
        ),
        (r##""x": {"on": {"stay": "x", "out": "#m.q"}}, "y": {"on": {"go": "#m.q"}}"##, "", false),
    ] {
        let imported = read(&around(inside, on), Source::XState, &Options::default());
        let told = told(&imported);
        assert_eq!(told.iter().any(|said| said.contains(named)), moves, "{inside}\n{told:?}\n{}", imported.text);
        assert!(imported.text.matches("5s: z").count() >= 1, "{}", imported.text);
    }
    // Fired once there, it would fire in the state that it leads to again, and again.
    let inwards = machine_of(
        "p",
        r#""p": {"initial": "x", "after": {"5000": ".y"}, "on": {"end": "z"}, "states": {"x": {}, "y": {}}}, "z": {"type": "final"}"#,
    );
    assert!(refused(&inwards, Source::XState).contains("here it would fire there again and again"));
    let whole = r#"{"id": "m", "initial": "a", "after": {"1000": ".b"}, "states": {"a": {"on": {"go": "b"}}, "b": {"on": {"go": "a"}}}}"#;
    assert!(refused(whole, Source::XState).contains("inside of the machine together, and leads to one of them"));
}

/// Of two timers for the same time the outer one was set first, and fires first.
#[test]
fn of_equal_delays_the_outer_one_is_tried_first() {
    let text = machine_of(
        "p",
        r#""p": {"initial": "x", "after": {"5000": {"guard": "g", "target": "o"}}, "states": {"x": {"after": {"5000": "i"}}, "i": {"type": "final"}}, "onDone": "z"},
           "o": {"type": "final"}, "z": {"type": "final"}"#,
    );
    let imported = read(&text, Source::XState, &with_guards(&[("g", "data.g")]));
    assert!(imported.text.contains("- {target: o, guard: \"data.g\"}\n        - z\n"), "{}", imported.text);
}

#[test]
fn delays_that_cannot_be_carried_over_are_named() {
    for (after, expected) in [
        (r#"{"SLOW": "z"}"#, "the delay \"SLOW\" is computed elsewhere (write milliseconds)"),
        (r#"{"1.5": "z"}"#, "the delay \"1.5\" is computed elsewhere"),
        (r#"{"0": "z"}"#, "the time \"0ms\" is out of bounds"),
        (r#"{"999999999999999": "z"}"#, "is out of bounds"),
        (r#"[{"delay": 1000, "target": "z"}]"#, "a block of fields, not a list"),
        (
            r#"{"1000": [{"guard": "isValid", "actions": "log"}, "z"]}"#,
            "what it does is not carried over, and when its guard holds",
        ),
    ] {
        let text =
            machine_of("a", &format!(r#""a": {{"on": {{"x": "z"}}, "after": {after}}}, "z": {{"type": "final"}}"#));
        let guards =
            if after.contains("isValid") { with_guards(&[("isValid", "data.ok")]) } else { Options::default() };
        let problems = match import(&text, Source::XState, &guards) {
            Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect::<String>(),
            Ok(imported) => panic!("{after}\n{}", imported.text),
        };
        assert!(problems.contains(expected), "{after}\n{problems}");
    }
    // Actions alone: nothing is left of the timer, and that is said.
    let text =
        machine_of("a", r#""a": {"on": {"x": "z"}, "after": {"1000": {"actions": "log"}}}, "z": {"type": "final"}"#);
    let imported = read(&text, Source::XState, &Options::default());
    assert!(!imported.text.contains("after"), "{}", imported.text);
    assert_eq!(told(&imported).len(), 1, "{:?}", told(&imported));
}

/// SCXML has no timers but events that are sent later, and taken back (<https://www.w3.org/TR/scxml/#send>).
#[test]
fn delayed_events_of_scxml_are_named_with_their_time() {
    let text = "<scxml name='m' initial='a'>
  <state id='a'>
    <onentry><send event='late' id='t' delay='5s'/><send event='later' delayexpr='n'/></onentry>
    <onexit><cancel sendid='t'/></onexit>
    <transition event='late' target='z'><send event='tell'/></transition>
    <transition event='later' target='z'/>
  </state>
  <final id='z'/>
</scxml>";
    let imported = read(text, Source::Scxml, &Options::default());
    let timer = "give the state an `after` with that time in the definition; leaving the state cancels it";
    assert_eq!(
        told(&imported),
        [
            format!("lost 3:14: scxml.a.onentry[0]: <send> (late, delay 5s) in <onentry> is not carried over ({timer})"),
            format!("lost 3:52: scxml.a.onentry[0]: <send> (later, delayexpr n) in <onentry> is not carried over ({timer})"),
            "lost 4:13: scxml.a.onexit[1]: <cancel> (t) in <onexit> is not carried over (leaving a state cancels its timers here)".to_owned(),
            "lost 5:41: scxml.a.transition[2]: <send> (tell) is not carried over (do this where the run is watched)".to_owned(),
        ]
    );
    Case::new(&imported.text).run("ann start -> started v1 a\nann late -> applied v2 z completed");
}

/// Places by name with metadata, and transitions of one name from different places
/// (<https://symfony.com/doc/current/workflow.html>).
#[test]
fn places_and_transitions_of_symfony_in_each_of_their_forms() {
    let text = "
framework:
  workflows:
    other: {type: state_machine, places: [x], transitions: {}}
    blog_post:
      type: state_machine
      initial_marking: [draft]
      places:
        draft: {metadata: {description: being written}}
        reviewed: ~
        published: ~
        rejected: ~
      transitions:
        - {name: to_review, from: draft, to: reviewed}
        - {name: publish, from: reviewed, to: published, guard: \"is_granted('ROLE_EDITOR')\"}
        - {name: publish, from: draft, to: published, guard: 'subject.trusted'}
        - {name: reject, from: [draft, reviewed], to: rejected}
";
    let options = Options { workflow: Some(WorkflowName::new("blog-post").unwrap()), ..Options::default() };
    let imported = read(text, Source::Symfony, &options);
    assert_eq!(imported.lost, [], "{:?}", told(&imported));
    Case::new(&imported.text).run(
        "ann start data={\"trusted\":false} -> started v1 draft\n\
         bob publish -> guard_rejected: the guard does not hold: data.trusted\n\
         bob to_review -> applied v2 reviewed\n\
         bob[ROLE_EDITOR] publish -> applied v3 published completed",
    );
    Case::new(&imported.text).run("ann start data={} -> started v1 draft\nann reject -> applied v2 rejected completed");
}

/// What would be more than any definition is refused before it is made: short texts can stand for very much.
#[test]
fn machines_that_would_grow_without_bound_are_refused() {
    let guards = with_guards(&[("g", "data.g"), ("h", "data.h")]);
    let refused = |text: &str, source| match import(text, source, &guards) {
        Ok(imported) => panic!("{} bytes", imported.text.len()),
        Err(problems) => {
            assert!(problems.len() <= 100, "{}", problems.len());
            problems.iter().map(|problem| format!("{problem}\n")).collect::<String>()
        }
    };
    // Each state is left without an event by forty ways to each other state.
    let ways = |at: usize| {
        let way = |to: usize| format!(r#"{{"guard": "{}", "target": "s{}"}}"#, ["g", "h"][to % 2], (at + to) % 40);
        (1..40).map(way).collect::<Vec<_>>().join(", ")
    };
    let states: Vec<String> =
        (0..40).map(|at| format!(r#""s{at}": {{"on": {{"e": "s1"}}, "always": [{}]}}"#, ways(at))).collect();
    let many = refused(&machine_of("s0", &states.join(", ")), Source::XState);
    assert!(many.contains("on one level it has more than 5000 transitions"), "{many}");
    let states: Vec<String> = (0..3_000).map(|at| format!(r#""s{at}": {{}}"#)).collect();
    let many = refused(&machine_of("s0", &states.join(", ")), Source::XState);
    assert!(many.contains("it has more than 2000 states"), "{many}");
    let states = (0..30_000).map(|at| format!("<state id='s{at}'/>")).collect::<String>();
    assert!(
        refused(&format!("<scxml name='m'>{states}</scxml>"), Source::Scxml).contains("it has more than 2000 states")
    );
    let events = (0..50_000).map(|at| format!("e{at} ")).collect::<String>();
    let text = format!("<scxml name='m'><state id='a'><transition event='{events}' target='a'/></state></scxml>");
    assert!(refused(&text, Source::Scxml).contains("it has more than 5000 transitions"));
    // Each assignment is twice the one before.
    let doubled = "<assign location='x' expr='x + x'/>".repeat(64);
    let text = format!(
        "<scxml name='m'><state id='a'><transition event='e' target='a'>{doubled}</transition></state></scxml>"
    );
    assert!(refused(&text, Source::Scxml).contains("the assignment to \"x\" cannot be carried over"));
    // A name that is as long as the text is no part of each path below.
    let long = "n".repeat(500_000);
    let inside = (0..2_000).map(|at| format!(r#""f{at}": 1"#)).collect::<Vec<_>>().join(", ");
    let text = machine_of("a", &format!(r#""a": {{"{long}": 1, "states": {{"{long}": {{{inside}}}}}}}"#));
    assert!(refused(&text, Source::XState).contains("the name of the state has more than 128 bytes"));
}

#[test]
fn a_name_is_asked_for_where_there_is_none() {
    let text = "places: [a, b]\ntransitions: {x: {from: a, to: b}}\n";
    assert!(refused(text, Source::Symfony).contains("--workflow NAME"));
    let options = Options { workflow: Some(WorkflowName::new("named").unwrap()), ..Options::default() };
    let imported = read(text, Source::Symfony, &options);
    assert_eq!(Definition::read(&imported.text, Format::Yaml).unwrap().workflow().as_str(), "named");
}

/// What is lost, and what is not, is said for each by itself.
#[test]
fn each_loss_is_named_where_it_stands() {
    let text = r##"{
  "id": "m", "initial": "a", "tags": [], "states": {
    "a": {
      "entry": "hello", "exit": [], "tags": ["x"],
      "on": {"go": "b", "*": "b", "self": "a", "again": {"target": "a", "reenter": true}, "none": {}}
    },
    "b": {
      "initial": "one",
      "on": {"up": {"target": "#deep", "actions": []}},
      "states": {"one": {"on": {"two": "two"}}, "two": {"id": "deep", "always": {"target": "#m.end"}}}
    },
    "lonely": {"on": {"go": "a"}},
    "end": {}
  }
}"##;
    let imported = read(text, Source::XState, &Options::default());
    insta::assert_snapshot!(format!("{}\n{}", imported.text, told(&imported).join("\n")));
}

/// Parts of machines, to be put together in any order.
const PARTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"id\"",
    "\"states\"",
    "\"on\"",
    "\"initial\"",
    "\"always\"",
    "\"after\"",
    "\"target\"",
    "\"guard\"",
    "\"type\"",
    "\"final\"",
    "\"a\"",
    "\"b\"",
    "\".a\"",
    "\"#a\"",
    "\"1\"",
    "null",
    "1",
    "<scxml name='m'>",
    "</scxml>",
    "<state id='a'>",
    "</state>",
    "<final id='b'/>",
    "<transition ",
    "event='a.*' ",
    "cond='a' ",
    "target='b' ",
    "/>",
    "<!--",
    "-->",
    "<initial>",
    "places: [a, b]\n",
    "transitions:\n",
    "  x: {from: a, to: b}\n",
    "  - name: x\n",
    "framework:\n",
    "guard: ",
    "é",
    "\0",
    "&amp;",
];

/// A machine of XState, some of whose names lead nowhere.
fn machine() -> impl Strategy<Value = String> {
    let target = || prop::sample::select(&["a", "b", "c", ".x", "a.x", "#m", "#m.c", "#deep", "#deep.x"][..]);
    let way = (target(), prop::option::of(prop::sample::select(&["g", "h"][..]))).prop_map(|(target, guard)| {
        let guard = guard.map(|guard| format!(", \"guard\": \"{guard}\"")).unwrap_or_default();
        format!("{{\"target\": \"{target}\"{guard}}}")
    });
    let ways = prop::collection::vec(way, 1..3).prop_map(|ways| format!("[{}]", ways.join(", ")));
    let fields = prop::collection::btree_map(prop::sample::select(&["on", "always", "onDone"][..]), ways, 0..3);
    let state = fields.prop_map(|fields| {
        let field = |(name, ways): (&&str, &String)| match *name {
            "on" => format!("\"on\": {{\"e\": {ways}, \"f\": \"b\"}}"),
            name => format!("\"{name}\": {ways}"),
        };
        fields.iter().map(field).collect::<Vec<_>>().join(", ")
    });
    (state.clone(), state.clone(), state).prop_map(|(a, b, x)| {
        let block = |fields: &str| if fields.is_empty() { String::new() } else { format!("{fields}, ") };
        format!(
            "{{\"id\": \"m\", \"initial\": \"a\", \"states\": {{\
             \"a\": {{{}\"initial\": \"x\", \"states\": {{\"x\": {{{}\"id\": \"deep\"}}, \"y\": {{\"type\": \"final\"}}}}}}, \
             \"b\": {{{}\"description\": \"b\"}}, \"c\": {{\"type\": \"final\"}}}}}}",
            block(&a),
            block(&x),
            block(&b)
        )
    })
}

/// Whatever is accepted is a definition, and what is refused is told in the order of the text.
fn check_import(text: &str, source: Source) {
    let names = guard_names(text, source);
    let given = [("g", "data.g"), ("h", "event.h > 1")].into_iter().filter(|(name, _)| names.contains(*name));
    match import(text, source, &with_guards(&given.collect::<Vec<_>>())) {
        Ok(imported) => {
            let again = Definition::read(&imported.text, Format::Yaml).unwrap();
            assert!(!again.mermaid().is_empty());
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)), "{problems:?}");
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_an_importer_panic(parts in prop::collection::vec(prop::sample::select(PARTS), 0..40)) {
        let text = parts.concat();
        for source in [Source::XState, Source::Scxml, Source::Symfony] {
            check_import(&text, source);
        }
        _ = Source::detect("", &text);
    }

    #[test]
    fn no_damage_makes_an_importer_panic(at in 0..2_000_usize, part in prop::sample::select(PARTS), cut in 0..20_usize) {
        let texts = [(FEEDBACK, Source::XState), (TRAFFIC_LIGHT, Source::XState), (MICROWAVE, Source::Scxml), (PULL_REQUEST, Source::Symfony)];
        for (text, source) in texts {
            let at = at % text.len();
            let damaged = format!("{}{part}{}", &text[..at], &text[(at + cut).min(text.len())..]);
            check_import(&damaged, source);
        }
    }

    #[test]
    fn every_machine_is_read_or_refused(text in machine()) {
        check_import(&text, Source::XState);
    }
}
