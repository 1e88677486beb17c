//! Who may do what: tokens, roles, and whose server it is.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod actors;
mod administration;
mod approvals;
mod nodes;
mod refusals;

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::server::{Server, Store};

const PURCHASE: &str = "
workflow: purchase
initial: review
states:
  review:
    on:
      approve: {target: approved, approval: {quorum: 2, roles: [finance]}}
      note: {assign: {note: event.text}}
  approved: {type: final}
";

/// A server with tokens.
struct Guarded {
    store: Store,
    server: Server,
    api: Api,
    admin: String,
}

/// Makes a token while no server runs; standard output is its secret alone.
fn create(store: &Store, name: &str, roles: &str) -> String {
    let url = store.url();
    let mut args = vec!["token", "create", "--name", name, "--store", &url];
    if !roles.is_empty() {
        args.extend(["--roles", roles]);
    }
    let secret = store.cli().run(&args).ok().to_owned();
    assert!(secret.starts_with("lk_") && !secret.contains(char::is_whitespace), "{secret:?}");
    secret
}

impl Guarded {
    async fn begin() -> Self {
        Self::on(Store::new()).await
    }

    async fn on(store: Store) -> Self {
        Self::with(store, &[]).await
    }

    /// A server with further arguments.
    async fn with(store: Store, args: &[&str]) -> Self {
        let admin = create(&store, "admin", "admin");
        let server = Server::start_with(store.dir(), &store.url(), args);
        let api = server.api();
        let guarded = Self { store, server, api, admin };
        guarded.call(Call::put("purchase", PURCHASE), &guarded.admin).await.ok();
        let start = Call::start("purchase", &json!({ "id": "po-1" }));
        guarded.call(start, &guarded.admin).await.ok();
        guarded
    }

    async fn call(&self, call: Call, secret: &str) -> crate::support::call::Answer {
        self.api.call(&call.token(secret)).await
    }

    /// Makes a token by the API.
    async fn token(&self, name: &str, roles: &[&str]) -> String {
        let call = Call::post("/v1/tokens", &json!({ "name": name, "roles": roles }));
        let answer = self.call(call, &self.admin).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// Approves as `actor`, or as the token's principal.
    async fn approve(&self, secret: &str, actor: Option<Value>) -> crate::support::call::Answer {
        let mut body = json!({ "event": "approve" });
        if let Some(actor) = actor {
            body["actor"] = actor;
        }
        self.call(Call::send("purchase", "po-1", &body), secret).await
    }

    async fn history(&self) -> Vec<Value> {
        let path = "/v1/workflows/purchase/instances/po-1/history";
        self.call(Call::get(path), &self.admin).await.ok()["items"].as_array().unwrap().clone()
    }
}
