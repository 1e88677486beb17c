//! Bad input: refused where it arrives, by what is wrong with it, in the form of a problem document; or kept exactly.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod bodies;
mod definitions;
mod expressions;
mod fences;
mod headers;
mod ids;
mod numbers;
mod pages;
mod routes;
mod sizes;
mod unbuilt;
mod unknown;

use serde_json::json;

use crate::support::api::Api;
use crate::support::server::{Server, Store};
use crate::support::world::World;

/// A little of everything.
const ITEM: &str = "
workflow: item
initial: draft
states:
  draft:
    on:
      set: {assign: {value: event.value}}
      add: {assign: {n: data.n + event.n}}
      submit: {target: review, guard: size(event) >= 0}
  review: {on: {approve: done, finish: done, reject: draft}}
  done: {type: final}
";

/// A server with the workflow `item` and its instance `i`.
async fn begin() -> (Store, Server, Api) {
    let store = Store::new();
    let server = store.serve();
    let api = server.api();
    prepare(&api).await;
    (store, server, api)
}

/// Any nodes with the same.
async fn begin_in(world: &World) -> Api {
    let api = world.api();
    prepare(&api).await;
    api
}

async fn prepare(api: &Api) {
    api.put("item", ITEM).await;
    api.start("item", &json!({ "id": "i" })).await;
}
