//! `list` and `history`: pages, filters, tables.

use serde_json::json;

use crate::begin;

#[test]
fn instances_are_listed_and_filtered() {
    let (_store, _server, cli) = begin("ticket");
    let empty = cli.run(&["list", "ticket"]);
    assert_eq!((empty.ok(), empty.err.trim()), ("", "no instances"));
    for number in 0..5 {
        cli.run(&["start", &format!("ticket/t-{number}")]).ok();
    }
    cli.run(&["send", "ticket/t-3", "escalate", "--data", r#"{"reason": "r"}"#]).ok();
    cli.run(&["cancel", "ticket/t-4", "--reason", "r"]).ok();
    let ids = |args: &[&str]| {
        let listed = cli.run(&[&["list", "ticket", "-o", "json"], args].concat()).json();
        let items = listed["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["t-4", "t-3", "t-2", "t-1", "t-0"], "newest first");
    assert_eq!(ids(&["--state", "escalated"]), ["t-3"]);
    assert_eq!(ids(&["--status", "canceled"]), ["t-4"]);
    assert_eq!(ids(&["--status", "running", "--q=-1"]), ["t-1"]);
    assert_eq!(ids(&["--limit", "2"]), ["t-4", "t-3"]);
    assert_eq!(ids(&["--state", "closed"]), [""; 0]);
    let table = cli.run(&["list", "ticket", "--limit", "2"]);
    let rows: Vec<&str> = table.ok().lines().collect();
    assert!(rows[0].starts_with("ID ") && rows[1].starts_with("t-4 ") && rows.len() == 3, "{table:?}");
    assert!(table.err.contains("there are more"), "{table:?}");
    let workflows = cli.run(&["list"]);
    assert!(workflows.ok().starts_with("WORKFLOW") && workflows.out.contains("ticket"), "{workflows:?}");
    assert_eq!(cli.run(&["list", "-o", "json"]).json()["items"][0]["workflow"], "ticket");
}

/// More than one page of the server's.
#[tokio::test(flavor = "multi_thread")]
async fn long_lists_are_read_to_their_end() {
    let (_store, server, cli) = begin("stock");
    let api = server.api();
    api.start("stock", &json!({ "id": "a", "data": { "on_hand": 0 } })).await;
    for _ in 0..120 {
        api.send("stock", "a", &json!({ "event": "put", "data": { "quantity": 1 } })).await.ok();
    }
    let history = cli.run(&["history", "stock/a", "-o", "json"]).json();
    let versions: Vec<_> = history["items"].as_array().unwrap().iter().map(|item| item["version"].as_i64()).collect();
    assert_eq!(versions, (1..=121).map(Some).collect::<Vec<_>>());
    assert_eq!(history["next_cursor"], json!(null));
    let some = cli.run(&["history", "stock/a", "--limit", "3"]);
    assert_eq!(some.ok().lines().count(), 4, "{some:?}");
    assert!(some.err.contains("there are more"), "{some:?}");
}
