//! What a stream is sent.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::COUNTER;
use crate::follower::{Stream, http};
use crate::support::call::Call;
use crate::support::world::{World, in_both_worlds};

/// Far above what it takes: some milliseconds.
const SOON: Duration = Duration::from_secs(2);

async fn open(world: &World, query: &str, last: Option<&str>) -> Stream {
    Stream::open(&http(), world.node(1).url(), query, last).await.expect("a stream")
}

async fn a_stream_brings_what_happens(world: World) {
    let api = world.node(0).api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "before", "data": { "n": 0 } })).await;
    let mut stream = open(&world, "", None).await;
    let first = stream.next().await.expect("an event");
    assert!(first.id.is_some() && first.data.is_null(), "where it begins: {first:?}");
    let begun = Instant::now();
    api.start("counter", &json!({ "id": "ä/1", "data": { "n": 0 }, "actor": "ann" })).await;
    let mut change = stream.change().await;
    if change.data["id"] == "before" {
        // It was still held back when the stream began.
        change = stream.change().await;
    }
    // On a server that tests share, transactions of others hold the feed back.
    let is_alone = world.node(0).url() == world.node(1).url();
    assert!(!is_alone || begun.elapsed() < SOON, "after {:?}", begun.elapsed());
    let data = &change.data;
    assert_eq!((change.name.as_str(), &data["kind"]), ("start", &json!("start")));
    assert_eq!((&data["workflow"], &data["id"], &data["version"]), (&json!("counter"), &json!("ä/1"), &json!(1)));
    assert_eq!((&data["actor"], &data["to"], data["run"].is_string()), (&json!("ann"), &json!("counting"), true));
    api.send("counter", "ä/1", &json!({ "event": "count" })).await.ok();
    let next = stream.change().await;
    assert_eq!((next.name.as_str(), &next.data["version"]), ("move", &json!(2)));
    // Taken up again behind the first of the two, by header and by query.
    let id = change.id.expect("an id");
    for (query, last) in [(String::new(), Some(id.as_str())), (format!("?after={id}"), None)] {
        assert_eq!(open(&world, &query, last).await.change().await.data, next.data);
    }
}

async fn a_stream_can_be_filtered(world: World) {
    let api = world.node(0).api();
    api.put("counter", COUNTER).await;
    api.put("other", &COUNTER.replace("workflow: counter", "workflow: other")).await;
    for workflow in ["counter", "other"] {
        for id in ["a", "b"] {
            api.start(workflow, &json!({ "id": id, "data": { "n": 0 } })).await;
            api.send(workflow, id, &json!({ "event": "count" })).await.ok();
        }
    }
    for (query, expected) in [
        ("&workflow=other&kind=start", vec!["other/a/1", "other/b/1"]),
        ("&id=b", vec!["counter/b/1", "counter/b/2", "other/b/1", "other/b/2"]),
        ("&workflow=other&id=a&kind=move", vec!["other/a/2"]),
    ] {
        let mut stream = open(&world, &format!("?after=begin{query}"), None).await;
        for expected in expected {
            let change = stream.change().await;
            let text = |name: &str| change.data[name].to_string().replace('"', "");
            assert_eq!(format!("{}/{}/{}", text("workflow"), text("id"), text("version")), expected, "{query}");
        }
    }
}

async fn what_is_no_place_is_refused(world: World) {
    let api = world.node(0).api();
    let get = async |query: &str| api.get(&format!("/v1/events{query}")).await;
    get("?after=x").await.problem(400, "malformed");
    get("?workflow=X").await.problem(400, "malformed");
    get("?unknown=1").await.problem(400, "malformed");
    let refused = api.call(&Call::get("/v1/events").header("Last-Event-ID", "1-2-3")).await;
    refused.problem(400, "malformed");
    let gone = get("?after=1-0-1-1-1").await.problem(410, "gone");
    assert_eq!(gone["code"], "LK0034");
}

async fn a_graceful_end_ends_the_streams(world: World) {
    let mut stream = open(&world, "", None).await;
    stream.next().await.expect("an event");
    let begun = Instant::now();
    let world = tokio::task::block_in_place(|| world.restart());
    assert!(stream.next().await.is_none());
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for a stream: {:?}", begun.elapsed());
    drop(world);
}

in_both_worlds!(
    a_stream_brings_what_happens,
    a_stream_can_be_filtered,
    what_is_no_place_is_refused,
    a_graceful_end_ends_the_streams,
);
