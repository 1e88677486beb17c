//! Data: assigns, stock that never falls below zero, integers at their limits, sizes.

use crate::support::Case;
use lockkeeper_model::limits::{DATA_BYTES_MAX, DATA_DEPTH_MAX};
use serde_json::json;

const STOCK: &str = r#"
workflow: case
initial: stocked
states:
  stocked:
    on:
      take:
        guard: event.quantity > 0 && data.on_hand >= event.quantity
        assign: {on_hand: data.on_hand - event.quantity, taken: "(has(data.taken) ? data.taken : 0) + event.quantity"}
      put: {guard: event.quantity > 0, assign: {on_hand: data.on_hand + event.quantity}}
      set: {assign: {on_hand: event.n}}
      swap: {assign: {a: data.b, b: data.a}}
      keep: {assign: {kept: event}}
      copy: {assign: {twice: "[data.blob, data.blob]"}}
      discontinue: gone
  gone: {type: final}
"#;

#[test]
fn stock_never_falls_below_zero() {
    let mut case = Case::new(STOCK);
    let guard = "event.quantity > 0 && data.on_hand >= event.quantity";
    case.run(&format!(
        r#"
        ann start data={{"on_hand":10}} -> started v1 stocked
        a take data={{"quantity":7}} -> applied v2 stocked
        b take data={{"quantity":7}} -> guard_rejected: the guard does not hold: {guard}
        b take data={{"quantity":-7}} -> guard_rejected: the guard does not hold: {guard}
        b take data={{"quantity":0}} -> guard_rejected: the guard does not hold: {guard}
        b take data={{"quantity":"7"}} -> guard_error: cannot evaluate "{guard}": found no matching overload for '_>=_' applied to '(int, string)'
        b take data={{"quantity":2.5}} -> guard_error: cannot evaluate "data.on_hand - event.quantity": cannot sub int and float
        b take -> guard_error: cannot evaluate "{guard}": there is no field "quantity"
        # Sent twice it is two takes, unless it carries a key.
        b take data={{"quantity":1}} -> applied v3 stocked
        b take data={{"quantity":1}} -> applied v4 stocked
        b take data={{"quantity":1}} v=4 -> applied v5 stocked
        b take data={{"quantity":1}} -> guard_rejected: the guard does not hold: {guard}
        "#
    ));
    assert_eq!(case.data(), json!({"on_hand": 0, "taken": 10}));
}

#[test]
fn assigns_see_the_data_before_and_are_set_together() {
    let mut case = Case::new(STOCK);
    case.run(
        r#"
        ann start data={"a":1,"b":{"c":[2,null]}} -> started v1 stocked
        ann swap -> applied v2 stocked
        "#,
    );
    assert_eq!(case.data(), json!({"a": {"c": [2, null]}, "b": 1}));
    case.run(
        r#"
        ann keep data={"x":[1,{"y":"z"}]} -> applied v3 stocked
        ann start -> already_running: run 00000000-0000-0000-0000-000000000001 of this id is still running
        ann set -> guard_error: cannot evaluate "event.n": there is no field "n"
        "#,
    );
    assert_eq!(case.data(), json!({"a": {"c": [2, null]}, "b": 1, "kept": {"x": [1, {"y": "z"}]}}));
}

#[test]
fn integers_are_64_bits_from_end_to_end() {
    let mut case = Case::new(STOCK);
    let (max, past) = (i64::MAX, i64::MAX as u64 + 1);
    case.run(&format!(
        r#"
        ann start data={{"on_hand":{half}}} -> started v1 stocked
        ann put data={{"quantity":1}} -> applied v2 stocked
        ann put data={{"quantity":{half}}} -> applied v3 stocked
        ann set data={{"n":{max}}} -> applied v4 stocked
        ann put data={{"quantity":1}} -> guard_error: cannot evaluate "data.on_hand + event.quantity": integer overflow in add
        ann set data={{"n":{past}}} -> malformed: event data has the integer {past}; at most {max} either way is allowed: send it as a string
        ann set data={{"n":[{{"m":{past}}}]}} -> malformed: event data has the integer {past}; at most {max} either way is allowed: send it as a string
        ann set data={{"n":{min}}} -> applied v5 stocked
        "#,
        half = i32::MAX,
        min = i64::MIN,
    ));
    assert_eq!(case.data(), json!({"on_hand": i64::MIN}));
    let history: Vec<_> = case.history.iter().map(|(_, entry)| entry.data.get("n").cloned()).collect();
    assert_eq!(history[3], Some(json!(i64::MAX)));
}

#[test]
fn versions_pass_31_bits_and_end_at_63() {
    let mut case = Case::new(STOCK);
    case.run(r#"ann start data={"on_hand":5} -> started v1 stocked"#);
    case.history.clear();
    case.current.as_mut().unwrap().version = i64::from(i32::MAX) - 1;
    case.run(
        r#"
        ann take data={"quantity":1} -> applied v2147483647 stocked
        ann take data={"quantity":1} -> applied v2147483648 stocked
        ann take data={"quantity":1} v=2147483648 -> applied v2147483649 stocked
        "#,
    );
    case.history.clear();
    case.current.as_mut().unwrap().version = i64::MAX - 1;
    let exhausted = "malformed: the version counter of this id is exhausted: use another id";
    case.run(&format!(
        r#"
        ann discontinue -> applied v{max} gone completed
        ann discontinue -> already_applied v{max} gone completed, stays
        ann discontinue v={before} -> already_applied v{max} gone completed, stays
        ann start -> {exhausted}
        "#,
        max = i64::MAX,
        before = i64::MAX - 1,
    ));
    case.current.as_mut().unwrap().status = lockkeeper_model::Status::Running;
    case.current.as_mut().unwrap().state = "stocked".to_owned();
    case.run(&format!(
        r#"
        ann take data={{"quantity":1}} -> {exhausted}
        ann cancel -> {exhausted}
        "#
    ));
}

/// A JSON object of exactly `bytes` bytes.
fn sized(bytes: usize) -> String {
    let empty = r#"{"blob":""}"#.len();
    format!(r#"{{"blob":"{}"}}"#, "x".repeat(bytes - empty))
}

#[test]
fn data_is_bounded_in_size_and_depth() {
    let mut case = Case::new(STOCK);
    let most = DATA_BYTES_MAX;
    let too_large =
        |what: &str, bytes: usize| format!("too_large: {what} has {bytes} bytes; at most {most} are allowed");
    case.run(&format!("ann start data={} -> {}", sized(most + 1), too_large("data", most + 1)));
    case.run(&format!("ann start data={} -> started v1 stocked", sized(most)));
    case.run(&format!("ann discontinue data={} -> {}", sized(4 << 20), too_large("event data", 4 << 20)));
    // What is there, and a copy of it.
    let after = r#"{"blob":"","kept":{"blob":""}}"#.len() + 2 * (most - r#"{"blob":""}"#.len());
    case.run(&format!("ann keep data={} -> {}", sized(most), too_large("the data after this event", after)));
    let after = r#"{"blob":"","twice":["",""]}"#.len() + 3 * (most - r#"{"blob":""}"#.len());
    case.run(&format!("ann copy -> {}", too_large("the data after this event", after)));
    let nested = |depth: usize| format!(r#"{{"n":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    case.run("ann look data={} -> unknown_event: there is no event \"look\"; known: copy, discontinue, keep, put, set, swap, take");
    case.run(&format!(
        "ann discontinue data={} -> malformed: event data is nested more than {DATA_DEPTH_MAX} deep",
        nested(DATA_DEPTH_MAX)
    ));
    case.run(&format!("ann discontinue data={} -> applied v2 gone completed", nested(DATA_DEPTH_MAX - 1)));

    let mut case = Case::new(STOCK);
    case.run("ann start -> started v1 stocked");
    case.run(&format!(
        "ann keep data={} -> malformed: the data after this event is nested more than {DATA_DEPTH_MAX} deep",
        nested(DATA_DEPTH_MAX - 1)
    ));
    let stored = serde_json::to_string(case.current.as_ref().unwrap()).unwrap();
    assert!(serde_json::from_str::<lockkeeper_model::Instance>(&stored).is_ok());
}

#[test]
fn nothing_is_copied_that_is_not_assigned() {
    let mut case = Case::new(STOCK);
    case.run(&format!("ann start data={} -> started v1 stocked", sized(DATA_BYTES_MAX)));
    let before = std::sync::Arc::clone(&case.current.as_ref().unwrap().data);
    case.run("ann discontinue -> applied v2 gone completed");
    assert!(std::sync::Arc::ptr_eq(&before, &case.current.as_ref().unwrap().data));
}
