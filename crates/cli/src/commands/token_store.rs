//! Tokens in a store that no server has open: how the first token comes to be.

use std::sync::Arc;

use lockkeeper_engine::SystemClock;
use lockkeeper_model::Refusal;
use lockkeeper_server::tokens::{Token, TokenError, Tokens};
use lockkeeper_store::Store;
use lockkeeper_store::limits::PAGE_MAX;
use serde_json::json;

use crate::client::Answer;
use crate::failure::Failure;
use crate::store_url;

/// Who made a token that was made beside the server.
const BY: &str = "command line";

/// A store that is closed in order when the command is done.
struct Opened {
    store: Arc<dyn Store>,
    tokens: Tokens,
}

async fn open(store: &str) -> Result<Opened, Failure> {
    let store = store_url::open(store).await?;
    Ok(Opened { tokens: Tokens::new(store.clone(), Arc::new(SystemClock)), store })
}

/// Makes a token; the answer is that of `POST /v1/tokens`.
pub(crate) async fn create(store: &str, name: &str, roles: &[String]) -> Result<Answer, Failure> {
    let opened = open(store).await?;
    let created = opened.tokens.create(name, roles.to_vec(), BY).await;
    opened.store.close().await;
    let (token, secret) = created.map_err(failure)?;
    let document = json!({ "name": token.name, "roles": token.roles, "token": secret });
    Ok(Answer { text: document.to_string(), replayed: false })
}

/// Lists tokens; the answer is that of `GET /v1/tokens`.
pub(crate) async fn list(store: &str) -> Result<String, Failure> {
    let opened = open(store).await?;
    let listed = all(&opened.tokens).await;
    opened.store.close().await;
    let items = listed.map_err(|refusal| failure(refusal.into()))?;
    Ok(json!({ "items": items, "next_cursor": null }).to_string())
}

async fn all(tokens: &Tokens) -> Result<Vec<Token>, Refusal> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = tokens.list(PAGE_MAX, cursor).await?;
        items.extend(page);
        cursor = next;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

/// Revokes a token.
pub(crate) async fn revoke(store: &str, name: &str) -> Result<(), Failure> {
    let opened = open(store).await?;
    let revoked = opened.tokens.revoke(name).await;
    opened.store.close().await;
    revoked.map(|_| ()).map_err(failure)
}

fn failure(error: TokenError) -> Failure {
    match error {
        TokenError::Refused(refusal) => {
            Failure::failed(format!("{} ({}): {refusal}", refusal.outcome(), refusal.code()))
        }
        TokenError::NotFound { .. } => Failure::failed(error),
    }
}
