//! M12: integers are i64 from end to end.

use serde_json::{Value, json};

use crate::begin_in;
use crate::support::call::{Call, instance};
use crate::support::world::{World, in_both_worlds};

/// The edges of i32, of what a double holds exactly, and of i64.
const EXACT: [i64; 8] =
    [i32::MAX as i64, i32::MAX as i64 + 1, (1 << 53) + 1, i64::MAX, i64::MIN, i64::MAX - 1, -(1 << 53) - 1, 0];

async fn integers_are_kept_exactly(world: World) {
    let api = begin_in(&world).await;
    for (place, number) in EXACT.into_iter().enumerate() {
        // By hand, so that no writer of ours can round it.
        let id = format!("n-{place}");
        let start = format!(r#"{{"id":"{id}","data":{{"n":{number},"deep":{{"list":[{number}]}}}}}}"#);
        let set = format!(r#"{{"event":"set","data":{{"value":{number}}}}}"#);
        api.call(&Call::start("item", &json!({})).text(start)).await.ok();
        let node = world.node(place).api();
        node.call(&Call::send("item", &id, &json!({})).text(set)).await.ok();
        let whole = [
            api.get(&instance("item", &id, "")).await.text,
            node.get(&instance("item", &id, "?stale=ok")).await.text,
            api.get("/v1/workflows/item/instances?limit=1").await.text,
            world.cli(1).run(&["get", &format!("item/{id}"), "-o", "json"]).ok().to_owned(),
        ];
        for text in whole {
            let compact: String = text.split_whitespace().collect();
            for field in [format!(r#""n":{number}"#), format!(r#""list":[{number}]"#), format!(r#""value":{number}"#)] {
                assert!(compact.contains(&field), "{field} is not in {compact}");
            }
        }
        let history: String = api.get(&instance("item", &id, "/history")).await.text;
        assert!(history.contains(&format!(r#""value":{number}"#)), "{history}");
    }
}

async fn sums_are_exact_or_refused(world: World) {
    let api = begin_in(&world).await;
    api.start("item", &json!({ "id": "sum", "data": { "n": i64::from(i32::MAX) } })).await;
    let add = |n: Value| Call::send("item", "sum", &json!({ "event": "add", "data": { "n": n } }));
    assert_eq!(api.call(&add(json!(1))).await.outcome(), "applied");
    assert_eq!(api.instance("item", "sum").await["data"]["n"], json!(2_147_483_648_i64));
    let to_the_top = i64::MAX - 2_147_483_648;
    assert_eq!(api.call(&add(json!(to_the_top))).await.outcome(), "applied");
    assert_eq!(api.instance("item", "sum").await["data"]["n"], json!(i64::MAX));
    let problem = api.call(&add(json!(1))).await.problem(422, "guard_error");
    assert_eq!(problem["expression"], "data.n + event.n");
    assert_eq!(api.instance("item", "sum").await["data"]["n"], json!(i64::MAX), "nothing happened");
    // No silent way from integers to floats, or back.
    api.call(&add(json!(1.0))).await.problem(422, "guard_error");
    api.call(&add(json!("1"))).await.problem(422, "guard_error");
    api.call(&add(Value::Null)).await.problem(422, "guard_error");
}

/// What is no i64 is refused rather than rounded.
async fn integers_beyond_i64_are_refused(world: World) {
    let api = begin_in(&world).await;
    let beyond = ["9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775809"];
    let mut kept = Vec::new();
    for number in beyond {
        for data in [format!(r#"{{"value":{number}}}"#), format!(r#"{{"value":[{{"deep":{number}}}]}}"#)] {
            let start = Call::start("item", &json!({})).text(format!(r#"{{"data":{data}}}"#));
            let send = Call::send("item", "i", &json!({})).text(format!(r#"{{"event":"set","data":{data}}}"#));
            for call in [start, send] {
                let answer = api.call(&call).await;
                if answer.status == 400 {
                    answer.problem(400, "malformed");
                } else {
                    kept.push(format!("{number}: {}", answer.text));
                }
            }
        }
    }
    assert_eq!(kept, [""; 0], "taken, though no i64 holds it; now: {}", api.instance("item", "i").await["data"]);
    let fraction = json!({ "event": "set", "data": { "value": 0.1 } });
    api.send("item", "i", &fraction).await.ok();
    assert_eq!(api.instance("item", "i").await["data"]["value"], json!(0.1), "fractions are kept");
}

async fn numbers_of_the_protocol_are_checked(world: World) {
    let api = begin_in(&world).await;
    for field in ["expected_version", "wait_ms"] {
        for number in ["1.5", "\"1\"", "99999999999999999999", "[]"] {
            let body = format!(r#"{{"event":"submit","{field}":{number}}}"#);
            api.call(&Call::send("item", "i", &json!({})).text(body)).await.problem(400, "malformed");
        }
    }
    let negative = r#"{"event":"submit","wait_ms":-1}"#;
    api.call(&Call::send("item", "i", &json!({})).text(negative)).await.problem(400, "malformed");
    for version in [0, -1, i64::MIN, i64::MAX, 2] {
        let body = json!({ "event": "submit", "expected_version": version });
        let problem = api.send("item", "i", &body).await.problem(409, "version_mismatch");
        assert_eq!((&problem["expected"], &problem["actual"]), (&json!(version), &json!(1)));
    }
    let version = api.get("/v1/workflows/item?version=99").await;
    assert!(version.detail(404, "unknown_workflow").contains("versions 1 to 1"), "{version:?}");
    let document = version.problem(404, "unknown_workflow");
    assert_eq!((document["version"].is_i64(), &document["newest"], document.get("known")), (true, &json!(1), None));
    for version in ["0", "-1", "9223372036854775807", "-9223372036854775808"] {
        api.get(&format!("/v1/workflows/item?version={version}")).await.problem(404, "unknown_workflow");
    }
    api.get("/v1/workflows/item?version=x").await.problem(400, "malformed");
}

in_both_worlds!(
    integers_are_kept_exactly,
    sums_are_exact_or_refused,
    integers_beyond_i64_are_refused,
    numbers_of_the_protocol_are_checked,
);
