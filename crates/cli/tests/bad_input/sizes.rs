//! M13: what is too large is refused where it is written, and the instance stays usable.

use serde_json::json;

use crate::begin_in;
use crate::support::call::Call;
use crate::support::raw;
use crate::support::world::{World, in_both_worlds};

/// DESIGN 11.
const DATA_MAX: usize = 256 * 1024;
const BODY_MAX: usize = 1024 * 1024;

/// A `set` whose data is `bytes` long as JSON.
fn set(bytes: usize) -> Call {
    let frame = r#"{"value":""}"#.len();
    Call::send("item", "i", &json!({ "event": "set", "data": { "value": "x".repeat(bytes - frame) } }))
}

async fn four_megabytes_are_refused_and_the_instance_stays_usable(world: World) {
    let api = begin_in(&world).await;
    for _ in 0..4 {
        // The data alone is a megabyte, so the body is more than that.
        let problem = api.call(&set(BODY_MAX)).await.problem(413, "too_large");
        assert_eq!(problem["limit"], json!(BODY_MAX));
        let problem = api.call(&set(BODY_MAX - 1024)).await.problem(413, "too_large");
        assert_eq!((&problem["limit"], &problem["actual"]), (&json!(DATA_MAX), &json!(BODY_MAX - 1024)));
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
    let small = json!({ "event": "set", "data": { "value": "small" } });
    assert_eq!(api.send("item", "i", &small).await.outcome(), "applied");
    assert_eq!(api.instance("item", "i").await["data"], json!({ "value": "small" }));
}

async fn the_limit_is_where_it_is_said_to_be(world: World) {
    let api = begin_in(&world).await;
    assert_eq!(api.call(&set(DATA_MAX)).await.outcome(), "applied");
    api.call(&set(DATA_MAX + 1)).await.problem(413, "too_large");
    // Data grows by what is assigned, too: the instance is refused past the limit, not the event.
    api.start("item", &json!({ "id": "full", "data": { "fill": "x".repeat(DATA_MAX - 11) } })).await;
    let more = json!({ "event": "set", "data": { "value": "y".repeat(100) } });
    let problem = api.send("item", "full", &more).await.problem(413, "too_large");
    assert_eq!(problem["limit"], json!(DATA_MAX), "{problem}");
    assert_eq!(api.send("item", "full", &json!({ "event": "submit" })).await.outcome(), "applied");
    let too_much = json!({ "id": "more", "data": { "fill": "x".repeat(DATA_MAX) } });
    api.call(&Call::start("item", &too_much)).await.problem(413, "too_large");
    api.get("/v1/workflows/item/instances/more").await.problem(404, "unknown_instance");
}

/// Characters are counted as the bytes that are stored, not as the sender escaped them.
async fn escapes_do_not_count(world: World) {
    let api = begin_in(&world).await;
    let escaped = r"\u0061".repeat(DATA_MAX / 2);
    let body = format!(r#"{{"event":"set","data":{{"value":"{escaped}"}}}}"#);
    let answer = api.call(&Call::send("item", "i", &json!({})).text(body)).await;
    assert_eq!(answer.outcome(), "applied", "{} bytes of data", DATA_MAX / 2);
}

async fn other_bodies_have_their_limit_too(world: World) {
    let api = begin_in(&world).await;
    let large = "x".repeat(BODY_MAX + 1);
    for call in [
        Call::put("item", &large),
        Call::start("item", &json!({})).text(&large),
        Call::post("/v1/transitions", &json!({})).text(&large),
        Call::post("/v1/workflows/item/instances/i/cancel", &json!({})).text(&large),
    ] {
        api.call(&call).await.problem(413, "too_large");
    }
    let reason = json!({ "reason": "x".repeat(2_049) });
    let cancel = Call::post("/v1/workflows/item/instances/i/cancel", &reason);
    api.call(&cancel).await.problem(400, "malformed");
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

/// The answer arrives, although the sender had not finished.
async fn a_body_of_many_megabytes_is_answered(world: World) {
    let api = begin_in(&world).await;
    for _ in 0..4 {
        api.call(&set(8 * BODY_MAX)).await.problem(413, "too_large");
    }
}

/// What a request announces is enough to refuse it: nobody waits for a body that nobody wants.
async fn a_body_that_is_announced_too_large_is_refused_before_it_comes(world: World) {
    begin_in(&world).await;
    let head = "POST /v1/workflows/item/instances/i/events HTTP/1.1\r\nConnection: close\r\nExpect: 100-continue\r\n";
    let head = format!("{head}Host: {}\r\nContent-Length: 99999999999\r\n\r\n", world.node(1).address());
    let (status, _, _) = raw::exchange(world.node(1).address(), head.as_bytes());
    assert_eq!(status, 413);
}

in_both_worlds!(
    four_megabytes_are_refused_and_the_instance_stays_usable,
    the_limit_is_where_it_is_said_to_be,
    escapes_do_not_count,
    other_bodies_have_their_limit_too,
    a_body_of_many_megabytes_is_answered,
    a_body_that_is_announced_too_large_is_refused_before_it_comes,
);
