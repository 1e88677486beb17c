//! The workflows and instances that the clients share.

use serde_json::json;

use crate::support::api::Api;

/// Moves that leave the state as it is.
const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}}}
";

/// Never below zero.
const STOCK: &str = "
workflow: stock
initial: active
states:
  active:
    on:
      take: {guard: data.on_hand >= event.quantity, assign: {on_hand: data.on_hand - event.quantity}}
      put: {assign: {on_hand: data.on_hand + event.quantity}}
";

/// Three must agree; then it begins anew.
const REVIEW: &str = "
workflow: review
initial: open
states:
  open: {on: {approve: {target: approved, approval: {quorum: 3}}}}
  approved: {on: {reopen: open}}
";

pub(crate) const COUNTERS: u64 = 4;
pub(crate) const STOCKS: u64 = 2;
pub(crate) const REVIEWS: u64 = 2;

/// What each stock begins with: little enough that takes are refused, too.
pub(crate) const ON_HAND: i64 = 50;

/// Puts the workflows and starts the instances.
pub(crate) async fn prepare(api: &Api) {
    for (workflow, text) in [("counter", COUNTER), ("stock", STOCK), ("review", REVIEW)] {
        api.put(workflow, text).await;
    }
    for (workflow, instances) in [("counter", COUNTERS), ("stock", STOCKS), ("review", REVIEWS)] {
        for number in 0..instances {
            let data = json!({ "n": 0, "on_hand": ON_HAND });
            api.start(workflow, &json!({ "id": number.to_string(), "data": data })).await;
        }
    }
}
