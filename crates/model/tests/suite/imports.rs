//! Machines of other tools, as definitions.
//!
//! The machines are those of public examples, written anew: `toggle`, `feedback` and the traffic light from the
//! documentation of XState (<https://stately.ai/docs>), the microwave from appendix G of SCXML
//! (<https://www.w3.org/TR/scxml/#Examples>), the pull request from Symfony's documentation of state machines
//! (<https://symfony.com/doc/current/workflow/workflow-and-state-machine.html>).

use lockkeeper_model::import::{Imported, Options, Source, import};
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
    match import(text, source, &with_guards(&[("g", "data.g"), ("h", "event.h > 1")])) {
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
