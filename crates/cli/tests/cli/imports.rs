//! Machines of other tools: put as definitions, and run.

use crate::support::server::Store;

const LIGHT: &str = include_str!("../../../model/tests/suite/machines/traffic_light.json");
const FEEDBACK: &str = include_str!("../../../model/tests/suite/machines/feedback.json");
const MICROWAVE: &str = include_str!("../../../model/tests/suite/machines/microwave.scxml");

#[test]
fn a_machine_of_xstate_runs() {
    let store = Store::new();
    let server = store.serve();
    let cli = server.cli();
    std::fs::write(store.dir().join("light.json"), LIGHT).unwrap();
    assert_eq!(cli.run(&["apply", "-f", "light.json"]).ok(), "light: version 1");
    cli.run(&["start", "light/1"]).ok();
    for (event, state) in
        [("TIMER", "yellow"), ("TIMER", "red.walk"), ("COUNTDOWN", "red.wait"), ("COUNTDOWN", "green")]
    {
        let before = cli.run(&["get", "light/1", "-o", "json"]).json()["state"].as_str().unwrap().to_owned();
        let moved = cli.run(&["send", "light/1", event, "--from", &before, "-o", "json"]).json();
        assert_eq!((moved["outcome"].as_str(), moved["state"].as_str()), (Some("applied"), Some(state)), "{moved}");
    }
}

#[test]
fn a_machine_of_scxml_runs() {
    let store = Store::new();
    let server = store.serve();
    let cli = server.cli();
    std::fs::write(store.dir().join("microwave.scxml"), MICROWAVE).unwrap();
    let said = cli.run(&["apply", "-f", "microwave.scxml"]);
    let shown = said.failed(1);
    assert!(shown.contains("[microwave.scxml:4:5]") && shown.contains("data comes with the start"), "{shown}");
    assert!(shown.contains("1 part of microwave.scxml cannot be carried over; --lossy does without"), "{shown}");
    let said = cli.run(&["apply", "-f", "microwave.scxml", "--lossy"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("data comes with the start"), "named all the same: {said:?}");
    cli.run(&["start", "microwave/1", "--data", "{\"cook_time\": 2, \"door_closed\": true, \"timer\": 0}"]).ok();
    for (event, state) in [("turn.on", "cooking"), ("time", "cooking"), ("time", "off")] {
        let moved = cli.run(&["send", "microwave/1", event, "-o", "json"]).json();
        assert_eq!(moved["state"].as_str(), Some(state), "{event}: {moved}");
    }
}

#[test]
fn what_it_becomes_can_be_looked_at() {
    let store = Store::new();
    let cli = store.cli();
    std::fs::write(store.dir().join("feedback.json"), FEEDBACK).unwrap();
    let asked = cli.run(&["show", "feedback.json"]);
    assert!(asked.failed(1).contains("--guard 'feedbackValid=CEL'"), "{asked:?}");
    let flags = ["--lossy", "--guard", "feedbackValid=size(event.feedback) > 0", "--workflow", "feedback"];
    let show = |more: &str| cli.run(&[&["show", "feedback.json", more][..], &flags].concat());
    let text = show("--text");
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.out.starts_with("workflow: feedback\ninitial: prompt\n"), "{text:?}");
    assert!(show("--mermaid").out.starts_with("stateDiagram-v2\n"));
    std::fs::write(store.dir().join("feedback.yaml"), &text.out).unwrap();
    assert!(cli.run(&["show", "feedback.yaml"]).ok().starts_with("workflow feedback, begins in prompt"));
}

/// Programs are told what people are told.
#[test]
fn what_is_lost_is_in_the_json() {
    let store = Store::new();
    let server = store.serve();
    let cli = server.cli();
    std::fs::write(store.dir().join("microwave.scxml"), MICROWAVE).unwrap();
    for command in [&["show", "microwave.scxml"][..], &["apply", "-f", "microwave.scxml"]] {
        let document = cli.run(&[command, &["--lossy", "-o", "json"]].concat()).json();
        let warnings = document["warnings"].as_array().unwrap();
        let has = |text: &str| warnings.iter().any(|warning| warning["message"].as_str().unwrap().contains(text));
        assert!(has("data comes with the start"), "{document}");
    }
}

#[test]
fn flags_of_machines_are_obeyed_or_refused() {
    let store = Store::new();
    let cli = store.cli();
    let machine = r#"{"id": "m", "initial": "a", "states": {"a": {"on": {"e": {"guard": "x => x = 1", "target": "z"}}}, "z": {"type": "final"}}}"#;
    std::fs::write(store.dir().join("m.json"), machine).unwrap();
    std::fs::write(store.dir().join("d.yaml"), "workflow: d\ninitial: a\nstates: {a: {type: final}}\n").unwrap();
    let shown = cli.run(&["show", "m.json", "--text", "--guard", "x => x = 1=data.x == 1"]);
    assert!(shown.ok().contains("guard: \"data.x == 1\""), "{shown:?}");
    let unused = cli.run(&["show", "m.json", "--guard", "x => x = 1=true", "--guard", "y=true"]);
    assert!(unused.failed(1).contains("the machine has no guard \"y\""), "{unused:?}");
    for flags in [["--workflow", "other"], ["--guard", "x=true"]] {
        let native = cli.run(&[&["show", "d.yaml"][..], &flags].concat());
        assert!(native.failed(2).contains("is a definition, and no machine of another tool"), "{native:?}");
        let several = cli.run(&[&["apply", "-f", "m.json", "-f", "d.yaml"][..], &flags].concat());
        assert!(several.failed(2).contains("give one file"), "{several:?}");
    }
}
