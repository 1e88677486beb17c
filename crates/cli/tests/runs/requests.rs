//! The same `request_id` is one start, whoever else begins runs of the id.

use serde_json::json;

use crate::CASE;
use crate::support::call::Call;
use crate::support::world::{World, in_both_worlds};

in_both_worlds!(a_request_is_one_start, a_request_without_an_id_finds_its_own, the_command_line_begins_by_its_policies);

async fn a_request_is_one_start(world: World) {
    let api = world.api();
    api.put("case", CASE).await;
    let body = |request: &str, conflict: &str| json!({ "id": "i", "request_id": request, "conflict_policy": conflict });
    let first = api.start("case", &body("r1", "fail")).await;
    for conflict in ["fail", "use_existing", "terminate_existing"] {
        let again = api.call(&Call::start("case", &body("r1", conflict))).await;
        assert_eq!((again.status, again.outcome().as_str(), again.replayed()), (201, "started", true), "{conflict}");
        assert_eq!((&again.json()["run"], again.version()), (&first["run"], 1), "{conflict}");
    }
    api.send("case", "i", &json!({ "event": "finish" })).await.ok();
    let closed = |answer: crate::support::call::Answer| {
        let problem = answer.problem(409, "already_closed");
        assert_eq!((&problem["run"], &problem["run_status"]), (&first["run"], &json!("completed")));
    };
    closed(api.call(&Call::start("case", &body("r1", "fail"))).await);
    let second = api.start("case", &body("r2", "fail")).await;
    // A late retry of the first must neither end the second nor join it.
    for conflict in ["fail", "use_existing", "terminate_existing", "fail"] {
        closed(api.call(&Call::start("case", &body("r1", conflict))).await);
    }
    let now = api.instance("case", "i").await;
    assert_eq!((&now["run"], &now["version"], &now["status"]), (&second["run"], &json!(3), &json!("running")));
    for bad in [json!(""), json!("x".repeat(257)), json!("a\u{1f}b"), json!(7)] {
        let body = json!({ "id": "i", "request_id": bad });
        api.call(&Call::start("case", &body)).await.problem(400, "malformed");
    }
}

async fn a_request_without_an_id_finds_its_own(world: World) {
    let api = world.api();
    api.put("case", CASE).await;
    let call = || Call::start("case", &json!({ "request_id": "nightly-7" }));
    let first = api.call(&call()).await.ok();
    for key in ["k1", "k2"] {
        let again = api.call(&call().key(key)).await;
        assert_eq!((again.status, &again.json()["id"], &again.json()["run"]), (201, &first["id"], &first["run"]));
    }
    let other = api.call(&Call::start("case", &json!({ "request_id": "nightly-8" }))).await.ok();
    assert_ne!(other["id"], first["id"]);
}

async fn the_command_line_begins_by_its_policies(world: World) {
    world.api().put("case", CASE).await;
    let run = |number: usize, more: &[&str]| {
        let mut args = vec!["start", "case/i"];
        args.extend(more);
        world.cli(number).run(&args)
    };
    assert!(run(0, &["--request-id", "r1"]).ok().starts_with("started: case/i is in open, version 1"));
    assert!(run(1, &["--request-id", "r1"]).ok().starts_with("started: case/i is in open, version 1"));
    assert!(run(0, &["--conflict-policy", "use_existing"]).ok().starts_with("attached: case/i is in open, version 1"));
    assert!(run(1, &[]).failed(1).contains("already_running"));
    assert!(
        run(0, &["--conflict-policy", "terminate_existing"]).ok().starts_with("started: case/i is in open, version 3")
    );
    assert!(run(1, &["--request-id", "r1"]).failed(1).contains("already_closed"));
    let both = ["--reuse-policy", "reject_duplicate", "--conflict-policy", "terminate_existing"];
    assert!(run(0, &both).failed(1).contains("makes no sense"));
    world.cli(0).run(&["send", "case/i", "finish"]).ok();
    assert!(run(1, &["--reuse-policy", "reject_duplicate"]).failed(1).contains("already_closed"));
    assert!(run(1, &["--reuse-policy", "allow_duplicate_failed_only"]).failed(1).contains("completed"));
    assert!(run(0, &["--reuse-policy", "allow_duplicate"]).ok().starts_with("started: case/i is in open, version 5"));
    run(0, &["--reuse-policy", "sometimes"]).failed(2);
}
