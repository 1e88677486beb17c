//! How long things are kept: what a block says, and what is wrong in it.

use std::time::Duration;

use lockkeeper_model::definition::{Keep, Retention, RetentionOutline};
use lockkeeper_model::limits::{RETENTION_MAX, RETENTION_MIN};
use lockkeeper_model::{Definition, Format, Problem};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn read(block: &str) -> Result<Definition, Vec<Problem>> {
    let text =
        format!("workflow: w\ninitial: a\nretention: {block}\nstates:\n  a: {{on: {{go: b}}}}\n  b: {{type: final}}\n");
    Definition::read(&text, Format::Yaml)
}

#[test]
fn each_field_is_read() {
    let kept = |closed, history| Retention { closed, history };
    for (block, expected) in [
        ("", kept(None, None)),
        ("{}", kept(None, None)),
        ("{closed: 90d}", kept(Some(Keep::For(90 * DAY)), None)),
        ("{history: 30d}", kept(None, Some(Keep::For(30 * DAY)))),
        ("{closed: 24h, history: forever}", kept(Some(Keep::For(DAY)), Some(Keep::Forever))),
        ("{closed: forever}", kept(Some(Keep::Forever), None)),
        ("{closed: 1h}", kept(Some(Keep::For(RETENTION_MIN)), None)),
        ("{closed: 3660d}", kept(Some(Keep::For(RETENTION_MAX)), None)),
    ] {
        assert_eq!(*read(block).unwrap().retention(), expected, "{block}");
    }
    let json = r#"{"workflow": "w", "initial": "a", "retention": {"closed": "90d", "history": "forever"},
        "states": {"a": {"on": {"go": "b"}}, "b": {"type": "final"}}}"#;
    let definition = Definition::read(json, Format::Json).unwrap();
    assert_eq!(*definition.retention(), kept(Some(Keep::For(90 * DAY)), Some(Keep::Forever)));
    // What was accepted is read again as it was.
    assert_eq!(Definition::read_accepted(json, Format::Json).unwrap().retention(), definition.retention());
}

#[test]
fn it_is_told_as_it_is_written() {
    assert_eq!(read("{}").unwrap().retention().outline(), None);
    let outline = read("{closed: 48h, history: forever}").unwrap().retention().outline();
    let expected = RetentionOutline { closed: Some("2d".to_owned()), history: Some("forever".to_owned()) };
    assert_eq!(outline, Some(expected.clone()));
    // And reads as what it was.
    let again = read(&serde_json::to_string(&expected).unwrap()).unwrap();
    assert_eq!(again.retention().outline(), Some(expected));
}

#[test]
fn what_is_wrong_is_told_at_its_place() {
    for (block, path, message) in [
        ("{closed: 90}", "retention.closed", "expected a duration or `forever`"),
        ("{closed: '90'}", "retention.closed", "is not a duration"),
        ("{closed: -90d}", "retention.closed", "is not a duration"),
        ("{closed: 1.5d}", "retention.closed", "is not a duration"),
        ("{closed: 3w}", "retention.closed", "is not a duration"),
        ("{closed: 0d}", "retention.closed", "too short; at least 1h"),
        ("{history: 30m}", "retention.history", "too short; at least 1h"),
        ("{history: 3661d}", "retention.history", "too long; at most 3660d"),
        ("{history: 18446744073709551615d}", "retention.history", "is not a duration"),
        ("{history: none}", "retention.history", "did you mean \"forever\"?"),
        ("{history: never}", "retention.history", "did you mean \"forever\"?"),
        ("{history: foreever}", "retention.history", "did you mean \"forever\"?"),
        ("{history: null}", "retention.history", "expected a duration or `forever`"),
        ("{history: [30d]}", "retention.history", "expected a duration or `forever`"),
        ("{history: true}", "retention.history", "expected a duration or `forever`"),
        ("{close: 90d}", "retention.close", "did you mean \"closed\"?"),
        ("{data: 90d}", "retention.data", "not in this version"),
        ("90d", "retention", "expected a block of fields"),
        ("forever", "retention", "expected a block of fields"),
        ("[90d]", "retention", "expected a block of fields"),
    ] {
        let problems = read(block).expect_err(block);
        assert_eq!(problems.len(), 1, "{block}: {problems:?}");
        let Problem { line, path: found, message: told, remedy, .. } = &problems[0];
        assert_eq!((*line, found.as_str()), (3, path), "{block}");
        assert!(told.contains(message), "{block}: {told}");
        assert!(!remedy.is_empty(), "{block}");
    }
}

#[test]
fn it_belongs_to_the_workflow() {
    let text = "workflow: w\ninitial: a\nstates:\n  a: {retention: {closed: 90d}, on: {go: b}}\n  b: {type: final}\n";
    let problems = Definition::read(text, Format::Yaml).unwrap_err();
    assert!(problems[0].message.contains("unknown field \"retention\""), "{problems:?}");
}
