//! A definition that was put on one node holds on all.

use serde_json::json;

use crate::support::call::Call;
use crate::support::world::World;

/// The first state tells which version it is.
fn item(initial: &str) -> String {
    format!(
        "workflow: item\ninitial: {initial}\nstates:\n  {initial}: {{on: {{finish: done}}}}\n  done: {{type: final}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_decided_by_the_newest_wherever_it_was_put() {
    let world = World::of_two();
    for round in 1..=6_usize {
        let (here, there) = (world.node(round).api(), world.node(round + 1).api());
        let put = here.call(&Call::put("item", &item(&format!("draft-{round}")))).await.ok();
        assert_eq!(put["version"], json!(round));
        // This node has used the one before, and remembers it.
        let started = there.start("item", &json!({ "id": round.to_string() })).await;
        assert_eq!(started["state"], json!(format!("draft-{round}")), "{started}");
        // Those that run stay on theirs, on both nodes.
        for api in [&here, &there] {
            let first = api.instance("item", "1").await;
            assert_eq!((&first["state"], &first["definition_version"]), (&json!("draft-1"), &json!(1)));
        }
        assert_eq!(here.get("/v1/workflows/item").await.ok()["version"], json!(round));
        assert_eq!(there.get("/v1/workflows/item").await.ok()["version"], json!(round));
    }
    // The same text on the other node is the same version.
    let again = world.node(0).api().call(&Call::put("item", &item("draft-6"))).await;
    assert_eq!((again.status, &again.json()["version"]), (200, &json!(6)));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_put_on_both_at_once_are_two_versions() {
    let world = World::of_two();
    let (one, two) = (world.node(0).api(), world.node(1).api());
    for round in 0..8_i64 {
        let (here, there) = (item(&format!("here-{round}")), item(&format!("there-{round}")));
        let (here, there) = (Call::put("item", &here), Call::put("item", &there));
        let answers = tokio::join!(one.call(&here), two.call(&there));
        let mut versions = [answers.0.ok()["version"].as_i64(), answers.1.ok()["version"].as_i64()];
        versions.sort_unstable();
        assert_eq!(versions, [Some(2 * round + 1), Some(2 * round + 2)]);
    }
}
