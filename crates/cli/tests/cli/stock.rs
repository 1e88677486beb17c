//! The stock item: never below zero, and sent twice under one key it counts once.

use serde_json::json;

use crate::begin;

fn take(quantity: i64, key: &str) -> Vec<String> {
    let data = json!({ "quantity": quantity }).to_string();
    ["send", "stock/eu/sku-1", "take", "--data", &data, "--key", key].map(str::to_owned).to_vec()
}

#[test]
fn takes_are_counted_once_and_never_below_zero() {
    let (_store, _server, cli) = begin("stock");
    let run = |args: &[String]| cli.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    // The id has a slash of its own.
    let started = cli.run(&["start", "stock/eu/sku-1", "--data", r#"{"on_hand": 10}"#]);
    assert_eq!(started.ok(), "started: stock/eu/sku-1 is in active, version 1");
    let first = "applied: stock/eu/sku-1 is in active, version 2";
    assert_eq!(run(&take(7, "order-1")).ok(), first);
    assert_eq!(run(&take(7, "order-1")).ok(), format!("{first} (the answer that this key had before)"));
    let other = run(&take(1, "order-1"));
    assert!(other.failed(1).starts_with("error: key_reused (LK0016): "), "{other:?}");
    let guard = "the guard does not hold: event.quantity > 0 && data.on_hand >= event.quantity";
    for quantity in [7, 0, -1] {
        assert_eq!(run(&take(quantity, "order-2")).failed(1), format!("error: guard_rejected (LK0017): {guard}"));
    }
    let retire = cli.run(&["send", "stock/eu/sku-1", "retire"]);
    assert!(retire.failed(1).contains("data.on_hand == 0"), "{retire:?}");
    assert_eq!(run(&take(3, "order-3")).ok(), "applied: stock/eu/sku-1 is in active, version 3");
    let retired = cli.run(&["send", "stock/eu/sku-1", "retire"]);
    assert_eq!(retired.ok(), "applied: stock/eu/sku-1 is in retired, version 4, completed");
    let instance = cli.run(&["get", "stock/eu/sku-1", "-o", "json"]).json();
    assert_eq!((&instance["id"], &instance["data"]), (&json!("eu/sku-1"), &json!({ "on_hand": 0 })));
}

#[test]
fn data_comes_from_an_argument_a_file_or_standard_input() {
    let (store, _server, cli) = begin("stock");
    std::fs::write(store.dir().join("sku.json"), r#"{"on_hand": 4, "name": "gläser"}"#).unwrap();
    cli.run(&["start", "stock/a", "--data", "@sku.json"]).ok();
    cli.run_with(&["start", "stock/b", "--data", "-"], r#"{"on_hand": 9223372036854775807}"#).ok();
    let data = |target: &str| cli.run(&["get", target, "-o", "json"]).json()["data"].clone();
    assert_eq!(data("stock/a"), json!({ "on_hand": 4, "name": "gläser" }));
    assert_eq!(data("stock/b"), json!({ "on_hand": i64::MAX }));
    for bad in ["{", "[1]", "7", "@missing.json", ""] {
        let said = cli.run(&["start", "stock/c", "--data", bad]);
        assert!(said.failed(2).starts_with("error: "), "{bad:?}: {said:?}");
    }
    let card = cli.run(&["get", "stock/a"]);
    assert!(
        card.ok().contains(r#"data         {"name":"gläser","on_hand":4}"#) || card.ok().contains("gläser"),
        "{card:?}"
    );
}

#[test]
fn without_an_id_the_server_chooses_one() {
    let (_store, _server, cli) = begin("stock");
    let start = ["start", "stock", "--data", r#"{"on_hand": 1}"#, "--key", "mail-1", "-o", "json"];
    let (first, again) = (cli.run(&start).json(), cli.run(&start).json());
    assert_eq!((&first["outcome"], &first), (&json!("started"), &again));
    let other = cli.run(&["start", "stock", "--data", r#"{"on_hand": 1}"#, "-o", "json"]).json();
    assert_ne!(first["id"], other["id"]);
}
