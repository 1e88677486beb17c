//! Every cell of the table of start policies (DESIGN 7), as an HTTP client sees it. With `--no-capture` it is printed as it
//! was measured.

use serde_json::{Value, json};

use crate::CASE;
use crate::support::api::Api;
use crate::support::call::{Answer, Call, instance};
use crate::support::world::{World, in_both_worlds};

in_both_worlds!(every_cell, a_run_id_keeps_ends_to_their_run);

const REUSE: [&str; 3] = ["allow_duplicate", "allow_duplicate_failed_only", "reject_duplicate"];
const CONFLICT: [&str; 3] = ["fail", "use_existing", "terminate_existing"];
const STATUSES: [&str; 6] = ["running", "completed", "failed", "canceled", "terminated", "timed_out"];

/// Run 1 of an id, brought into a status; as it was told.
async fn begin(api: &Api, id: &str, status: &str) -> Value {
    let mut body = json!({ "id": id });
    if status == "timed_out" {
        body["execution_timeout_ms"] = json!(1);
    }
    let begun = api.start("case", &body).await;
    let close = json!({ "reason": "the table" });
    match status {
        "completed" => drop(api.send("case", id, &json!({ "event": "finish" })).await.ok()),
        "failed" => drop(api.send("case", id, &json!({ "event": "fail" })).await.ok()),
        "canceled" => drop(api.call(&Call::post(instance("case", id, "/cancel"), &close)).await.ok()),
        "terminated" => drop(api.call(&Call::post(instance("case", id, "/terminate"), &close)).await.ok()),
        "timed_out" => drop(api.get(&instance("case", id, "/history?cursor=1&wait_ms=20000")).await.ok()),
        _ => {}
    }
    assert_eq!(api.instance("case", id).await["status"], status);
    begun
}

/// What the table says.
fn expected(reuse: &str, conflict: &str, status: &str) -> (u16, &'static str) {
    match (reuse, conflict, status) {
        ("reject_duplicate", "terminate_existing", _) => (400, "malformed"),
        (_, "fail", "running") => (409, "already_running"),
        (_, "use_existing", "running") => (200, "attached"),
        (_, _, "running") => (201, "started"),
        ("reject_duplicate", ..) | ("allow_duplicate_failed_only", _, "completed") => (409, "already_closed"),
        _ => (201, "started"),
    }
}

async fn every_cell(world: World) {
    let api = world.api();
    api.put("case", CASE).await;
    println!("{:<28} {:<19} {:<11} outcome", "reuse_policy", "conflict_policy", "last run");
    for reuse in REUSE {
        for conflict in CONFLICT {
            for status in STATUSES {
                let id = format!("{reuse}/{conflict}/{status}");
                let first = begin(&api, &id, status).await;
                let before = api.instance("case", &id).await;
                let body = json!({ "id": id, "reuse_policy": reuse, "conflict_policy": conflict });
                let answer = api.call(&Call::start("case", &body)).await;
                println!("{reuse:<28} {conflict:<19} {status:<11} {} {}", answer.status, answer.outcome());
                let told = (answer.status, answer.outcome());
                let expected = expected(reuse, conflict, status);
                assert_eq!((told.0, told.1.as_str()), expected, "{id}: {answer:?}");
                check(&api, &id, &first, &before, &answer).await;
            }
        }
    }
}

/// What holds beside the outcome: which run is told, what became of the one before, and that a refusal has done nothing.
async fn check(api: &Api, id: &str, first: &Value, before: &Value, answer: &Answer) {
    let (told, now) = (answer.json(), api.instance("case", id).await);
    let version = before["version"].as_i64().unwrap();
    match answer.outcome().as_str() {
        "started" => {
            let replaces = before["status"] == "running";
            assert_ne!(told["run"], first["run"], "{id}");
            assert_eq!((&now["run"], &now["status"]), (&told["run"], &json!("running")), "{id}");
            assert_eq!(now["version"], version + if replaces { 2 } else { 1 }, "{id}: versions never restart");
            assert!(answer.headers.contains_key("location"), "{id}");
            if replaces {
                let history = api.get(&instance("case", id, "/history")).await.ok();
                let ended = &history["items"][1];
                assert_eq!((&ended["kind"], &ended["run"]), (&json!("terminate"), &first["run"]), "{id}");
                assert!(ended["reason"].as_str().unwrap().contains("terminate_existing"), "{id}: {ended}");
            }
        }
        "attached" => {
            assert_eq!((&told["run"], &told["version"]), (&first["run"], &json!(version)), "{id}");
            assert_eq!(now, *before, "{id}");
            assert!(answer.headers.contains_key("location"), "{id}");
        }
        "already_running" => assert_eq!(answer.problem(409, "already_running")["run"], first["run"], "{id}"),
        "already_closed" => {
            let problem = answer.problem(409, "already_closed");
            assert_eq!((&problem["run"], &problem["run_status"]), (&first["run"], &before["status"]), "{id}");
        }
        _ => {
            let detail = answer.detail(400, "malformed");
            assert!(detail.contains("terminate_existing") && detail.contains("write"), "{id}: {detail}");
        }
    }
    if answer.status >= 400 {
        assert_eq!(now, *before, "{id}: a refusal has no effect");
    }
}

async fn a_run_id_keeps_ends_to_their_run(world: World) {
    let api = world.api();
    api.put("case", CASE).await;
    let one = begin(&api, "i", "canceled").await["run"].clone();
    let two = api.start("case", &json!({ "id": "i" })).await;
    for way in ["terminate", "cancel"] {
        let body = json!({ "run": one, "reason": "run 1 is meant" });
        let problem = api.call(&Call::post(instance("case", "i", &format!("/{way}")), &body)).await;
        let problem = problem.problem(409, "state_mismatch");
        assert_eq!((&problem["reason"], &problem["actual"]), (&json!("run"), &two["run"]), "{way}");
        let cli = world.cli(1).run(&[way, "case/i", "--run", one.as_str().unwrap(), "--reason", "run 1"]);
        assert!(cli.failed(1).contains("state_mismatch"), "{way}");
    }
    assert_eq!(api.instance("case", "i").await["status"], "running");
    let body = json!({ "run": two["run"], "reason": "run 2 is meant" });
    api.call(&Call::post(instance("case", "i", "/terminate"), &body)).await.ok();
    assert_eq!(api.instance("case", "i").await["status"], "terminated");
}
