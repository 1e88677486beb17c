//! Tokens of a database are those of all its nodes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Guarded;
use crate::support::call::Call;
use crate::support::server::Store;

/// How long another node may take to notice a revocation (its memory of a principal), and some more.
const NOTICED_WITHIN: Duration = Duration::from_secs(8);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_node_is_known_on_the_other_until_it_is_revoked() {
    let guarded = Guarded::on(Store::shared()).await;
    let other = guarded.store.serve();
    let api = other.api();
    let ann = guarded.token("ann", &["finance"]).await;
    let approve = Call::send("purchase", "po-1", &json!({ "event": "approve" })).token(&ann);
    let voted = api.call(&approve).await.ok();
    assert_eq!(voted["approval"]["voters"], json!(["ann"]), "with its principal and its roles");
    api.get("/v1/workflows").await.problem(401, "unauthenticated");

    let revoke = Call::new(reqwest::Method::DELETE, "/v1/tokens/ann").token(&guarded.admin);
    guarded.api.call(&revoke).await.ok();
    let look = Call::get("/v1/workflows").token(&ann);
    guarded.api.call(&look).await.problem(401, "unauthenticated");
    let begin = Instant::now();
    while api.call(&look).await.status != 401 {
        assert!(begin.elapsed() < NOTICED_WITHIN, "still good on the other node after {:?}", begin.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    // One that the other node has never seen is refused there at once.
    let bob = guarded.token("bob", &[]).await;
    let revoke = Call::new(reqwest::Method::DELETE, "/v1/tokens/bob").token(&guarded.admin);
    guarded.api.call(&revoke).await.ok();
    api.call(&Call::get("/v1/workflows").token(&bob)).await.problem(401, "unauthenticated");
}

/// A database, unlike a file, is open to the command line while nodes run.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_tokens_in_the_database() {
    let guarded = Guarded::on(Store::shared()).await;
    let url = guarded.store.url();
    let made = guarded.store.cli().run(&["token", "create", "--name", "ops", "--roles", "admin", "--store", &url]);
    let secret = made.ok().to_owned();
    guarded.call(Call::get("/v1/tokens"), &secret).await.ok();
    assert_eq!(guarded.store.cli().run(&["token", "revoke", "ops", "--store", &url]).ok(), "revoked: ops");
    let other = guarded.store.serve();
    other.api().call(&Call::get("/v1/tokens").token(&secret)).await.problem(401, "unauthenticated");
}
