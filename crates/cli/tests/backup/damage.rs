//! Backups that are not as they were made.

use std::fs;

use serde_json::json;

use crate::COUNTER;
use crate::support::server::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_short_or_changed_is_refused() {
    let store = Store::new();
    let server = store.serve();
    let api = server.api();
    api.put("counter", COUNTER).await;
    for n in 0..20 {
        api.start("counter", &json!({ "id": format!("c{n}"), "data": { "n": 0, "text": "x".repeat(500) } })).await;
    }
    let file = store.dir().join("good").display().to_string();
    let made = server.cli().run(&["backup", &file, "-o", "json"]).json();
    let good = fs::read(&file).unwrap();
    let target = Store::new();
    let refused = |bytes: &[u8], what: &str| {
        let bad = target.dir().join("bad").display().to_string();
        fs::write(&bad, bytes).unwrap();
        let said = target.cli().run(&["restore", &bad, "--store", &target.url()]);
        assert!(said.failed(1).contains("is not a whole backup"), "{what}: {said:?}");
        assert!(!target.file().exists(), "{what}");
    };
    for length in [0, 10, 100, 4096, good.len() / 2, good.len() - 4096, good.len() - 1] {
        refused(&good[..length], &format!("the first {length} bytes"));
    }
    // Texts lie where a flipped bit breaks no structure.
    let texts: Vec<usize> = (0..good.len() - 8).filter(|place| good[*place..].starts_with(b"xxxxxxxx")).collect();
    let mut noticed = 0;
    for place in texts.iter().step_by(texts.len() / 30 + 1) {
        let mut bytes = good.clone();
        bytes[*place] ^= 1;
        let bad = store.dir().join("bad").display().to_string();
        fs::write(&bad, bytes).unwrap();
        let fresh = Store::new();
        let said = fresh.cli().run(&["restore", &bad, "--store", &fresh.url(), "-o", "json"]);
        match said.code {
            Some(0) => assert_eq!(said.json(), made, "room that no row takes up has changed"),
            _ => {
                assert!(said.failed_json(1).to_string().contains("is not a whole backup"), "{place}: {said:?}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > 10, "most of the texts are in rows: {noticed}");
    server.stop();
    refused(&fs::read(store.file()).unwrap(), "the file of a store");
    let said = target.cli().run(&["restore", "nowhere", "--store", &target.url()]);
    assert!(said.failed(1).contains("there is no such file"), "{said:?}");
    target.cli().run(&["restore", &file, "--store", &target.url()]).ok();
}
