//! `explain`: how an instance's commands commit, for people and for programs.

use serde_json::json;

use crate::begin;
use crate::support::call::instance;

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_explained_by_its_node() {
    let (_store, server, cli) = begin("purchase");
    cli.run(&["start", "purchase/a/b", "--as", "ann", "--data", r#"{"amount": 1}"#]).ok();
    cli.run(&["send", "purchase/a/b", "submit", "--as", "ann"]).ok();

    let told = cli.run(&["explain", "purchase/a/b", "-o", "json"]).json();
    let process = format!(":{}", server.program.pid());
    let node = told["node"].as_str().unwrap();
    assert!(node.ends_with(&process) && node.len() > process.len(), "{told}");
    assert_eq!((&told["workflow"], &told["id"]), (&json!("purchase"), &json!("a/b")));
    assert_eq!((&told["version"], &told["state"]), (&json!(2), &json!("review")));
    assert_eq!((&told["rung"], &told["since"], &told["switches"]), (&json!("optimistic"), &json!(null), &json!([])));
    assert!(told["tries"].as_f64().unwrap() > 1.5 && told["contended"] == json!(0.0), "{told}");
    assert!(told["waits"]["round_trip"]["mean_ms"].as_f64().unwrap() > 0.0, "{told}");
    // The command line prints the answer as it is.
    let answer = server.api().get(&instance("purchase", "a/b", "/explain")).await.ok();
    let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&told), names(&answer));

    let said = cli.run(&["explain", "purchase/a/b"]);
    let lines: Vec<&str> = said.ok().lines().collect();
    assert_eq!(lines[..2], ["purchase/a/b".to_owned(), format!("  node         {node}")]);
    assert!(lines[2].starts_with("  rung         optimistic "), "{said:?}");
    assert!(lines[4].starts_with("  lately       0 of 2 tries contended (0 %)"), "{said:?}");
    assert_eq!(said.err, "", "nothing to warn of");
}

#[test]
fn what_is_not_there_is_not_explained() {
    let (_store, _server, cli) = begin("purchase");
    let said = cli.run(&["explain", "purchase/nobody"]);
    assert!(said.failed(1).starts_with("error: unknown_instance (LK0005)"), "{said:?}");
    assert_eq!(cli.run(&["explain", "purchase"]).code, Some(2));
}
