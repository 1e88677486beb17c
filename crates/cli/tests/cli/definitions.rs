//! `apply` and `show`: definitions and their mistakes.

use serde_json::json;

use crate::support::server::Store;
use crate::{begin, example};

#[test]
fn the_same_text_keeps_its_version() {
    let (store, _server, cli) = begin("stock");
    assert_eq!(cli.run(&["apply", "-f", &example("stock")]).ok(), "stock: version 1");
    let text = std::fs::read_to_string(example("stock")).unwrap();
    let changed = cli.run_with(&["apply", "-f", "-", "-o", "json"], &format!("{text}# changed\n")).json();
    assert_eq!((&changed["workflow"], &changed["version"]), (&json!("stock"), &json!(2)));
    assert_eq!(cli.run(&["apply", "-f", &example("stock")]).ok(), "stock: version 3", "back again is a new version");
    let all = cli.run(&["apply", "-f", &example("purchase"), "--file", &example("ticket")]);
    assert_eq!(all.ok(), "purchase: version 1\nticket: version 1");
    drop(store);
}

#[test]
fn every_mistake_is_shown_in_its_line() {
    let store = Store::new();
    let server = store.serve();
    let cli = server.cli();
    let text = std::fs::read_to_string(example("purchase")).unwrap();
    std::fs::write(store.dir().join("bad.yaml"), text.replace("target: review", "target: reviw")).unwrap();
    let line = text.lines().position(|line| line.contains("target: review")).unwrap() + 1;
    for said in [cli.run(&["apply", "-f", "bad.yaml"]), store.cli().run(&["show", "bad.yaml"])] {
        let shown = said.failed(1);
        assert!(shown.contains(&format!("bad.yaml:{line}:")), "{shown}");
        assert!(shown.contains("there is no state \"reviw\"; did you mean \"review\"?"), "{shown}");
        assert!(
            shown.contains("help: write one of the states: draft, review, escalated, approved, rejected"),
            "{shown}"
        );
        assert!(shown.contains("error: invalid_definition (LK0021): bad.yaml has "), "{shown}");
    }
    let problem = cli.run(&["apply", "-f", "bad.yaml", "-o", "json"]).failed_json(1);
    assert_eq!(problem["outcome"], "invalid_definition");
    assert_eq!(problem["problems"][0]["line"], json!(line), "{problem}");
    // One bad file among good ones: the good ones are put, and the command failed.
    let said = cli.run(&["apply", "-f", &example("stock"), "-f", "bad.yaml", "-f", &example("ticket")]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), "stock: version 1\nticket: version 1\n"), "{said:?}");
    assert!(said.err.contains("reviw"), "{said:?}");
    let none = cli.run(&["apply", "-f", "missing.yaml"]);
    assert!(none.failed(1).contains("missing.yaml"), "{none:?}");
}

#[test]
fn show_needs_no_server() {
    let store = Store::new();
    let cli = store.cli();
    for name in ["purchase", "ticket", "stock"] {
        let shown = cli.run(&["show", &example(name)]);
        assert!(shown.ok().starts_with(&format!("workflow {name}, begins in ")), "{shown:?}");
        let document = cli.run(&["show", &example(name), "-o", "json"]).json();
        assert_eq!(document["workflow"], name);
        assert!(!document["states"].as_array().unwrap().is_empty(), "{document}");
        assert_eq!(document["warnings"], json!([]), "an example has nothing doubtful");
    }
}
