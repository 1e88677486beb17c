//! Bearer tokens: each names a principal and its roles. Only a hash is stored, so the store's file gives no token away.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_engine::Clock;
use lockkeeper_model::{Actor, Refusal, Timestamp};
use lockkeeper_store::{
    Alarm, ChangeSet, CommitError, Facets, ListOrder, ListQuery, ReadError, Record, RecordKey, Store, Verdict,
};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The space of tokens. `$` cannot begin a workflow's name.
const SPACE: &str = "$token";

/// What a token's text begins with, so that a leaked one is recognised.
const PREFIX: &str = "lk_";

const ACTIVE: &str = "active";
const REVOKED: &str = "revoked";

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name, which is the principal's id.
    pub name: String,
    /// The principal's roles.
    pub roles: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Why a token could not be made or revoked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TokenError {
    /// The request itself is wrong, or the store did not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such token.
    #[error("there is no token {name:?}; active are: {}", known.join(", "))]
    NotFound {
        /// What was asked for.
        name: String,
        /// Those that are active.
        known: Vec<String>,
    },
}

/// The tokens in a store.
#[derive(Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Tokens {
    /// The tokens of `store`.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Whether there has ever been a token: from then on every request needs one.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn any(&self) -> Result<bool, Refusal> {
        Ok(!self.page(None, None, 1, None).await?.0.is_empty())
    }

    /// Makes a token. The secret is returned once and cannot be read again.
    ///
    /// # Errors
    /// `malformed` for a bad name or one that is in use; `unavailable`, `unknown`.
    pub async fn create(&self, name: &str, roles: Vec<String>, by: &str) -> Result<(Token, String), TokenError> {
        let actor = Actor::new(name, roles, true).map_err(|e| Refusal::Malformed { detail: e.to_string() })?;
        let current = self.record(name).await?;
        if current.as_ref().is_some_and(|record| record.facets.secondary == ACTIVE) {
            let detail = format!("there is a token {name:?} already: revoke it first, or choose another name");
            return Err(Refusal::Malformed { detail }.into());
        }
        let secret = format!("{PREFIX}{}", hex(&rand::rng().random::<[u8; 32]>()));
        let token = Token {
            name: actor.id,
            roles: actor.roles,
            created_at: self.clock.now(),
            created_by: by.to_owned(),
            revoked_at: None,
        };
        self.write(current, &token, hash(&secret), ACTIVE).await?;
        Ok((token, secret))
    }

    /// Revokes a token; other nodes notice within seconds.
    ///
    /// # Errors
    /// [`TokenError::NotFound`] naming the active ones; `unavailable`, `unknown`.
    pub async fn revoke(&self, name: &str) -> Result<Token, TokenError> {
        let record = self.record(name).await?.filter(|record| record.facets.secondary == ACTIVE);
        let Some(record) = record else {
            let (active, _) = self.page(None, Some(ACTIVE), lockkeeper_store::limits::PAGE_MAX, None).await?;
            let known = active.into_iter().map(|token| token.name).collect();
            return Err(TokenError::NotFound { name: name.to_owned(), known });
        };
        let mut token = decode(&record)?;
        token.revoked_at = Some(self.clock.now());
        let hash = record.facets.primary.clone();
        self.write(Some(record), &token, hash, REVOKED).await?;
        Ok(token)
    }

    /// Tokens by name, revoked ones included, with the cursor of the next page.
    ///
    /// # Errors
    /// `malformed` for a foreign cursor; `unavailable`.
    pub async fn list(&self, limit: usize, cursor: Option<String>) -> Result<(Vec<Token>, Option<String>), Refusal> {
        self.page(None, None, limit, cursor).await
    }

    /// The token with this secret, while it is active.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn find(&self, secret: &str) -> Result<Option<Token>, Refusal> {
        let (found, _) = self.page(Some(hash(secret)), Some(ACTIVE), 1, None).await?;
        Ok(found.into_iter().next())
    }

    async fn record(&self, name: &str) -> Result<Option<Record>, Refusal> {
        self.store.read(&RecordKey::new(SPACE, name)).await.map_err(refusal)
    }

    async fn page(
        &self,
        hash: Option<String>,
        status: Option<&str>,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<(Vec<Token>, Option<String>), Refusal> {
        // Only the order of creation has an index by facet, and every request looks a hash up.
        let order = if hash.is_some() { ListOrder::Newest } else { ListOrder::Id };
        let query = ListQuery {
            primary: hash,
            secondary: status.map(str::to_owned),
            cursor,
            ..ListQuery::all(SPACE, order, limit)
        };
        let page = self.store.list(&query).await.map_err(refusal)?;
        Ok((page.records.iter().map(decode).collect::<Result<_, _>>()?, page.next))
    }

    async fn write(&self, current: Option<Record>, token: &Token, hash: String, status: &str) -> Result<(), Refusal> {
        let body = serde_json::to_vec(token).map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
        let body = Bytes::from(body);
        let set = ChangeSet {
            key: RecordKey::new(SPACE, &token.name),
            commit_id: Uuid::new_v4(),
            expected_version: current.as_ref().map_or(0, |record| record.version),
            facets: Facets { primary: hash, secondary: status.to_owned() },
            body: body.clone(),
            events: vec![body],
            keys: Vec::new(),
            requires: Vec::new(),
            fences: Vec::new(),
            alarm: Alarm::Keep,
            at: self.clock.now(),
            life: current.map(|record| record.life),
        };
        match self.store.commit(set).await {
            Ok(Verdict::Committed) => Ok(()),
            Ok(Verdict::Rejected { reason, .. }) => Err(Refusal::Malformed { detail: reason }),
            Ok(
                Verdict::Lost(_)
                | Verdict::KeysTaken(_)
                | Verdict::Unmet { .. }
                | Verdict::Fenced { .. }
                | Verdict::LockTimeout { .. },
            ) => Err(Refusal::Busy {
                detail: format!("the token {:?} is being changed by another; try again", token.name),
            }),
            Err(CommitError::Unavailable(detail)) => Err(Refusal::Unavailable { detail }),
            Err(CommitError::Unknown(detail)) => Err(Refusal::Unknown { detail }),
        }
    }
}

fn refusal(error: ReadError) -> Refusal {
    match error {
        ReadError::Unavailable(detail) => Refusal::Unavailable { detail },
        ReadError::BadCursor(_) => Refusal::Malformed { detail: error.to_string() },
    }
}

fn decode(record: &Record) -> Result<Token, Refusal> {
    serde_json::from_slice(&record.body)
        .map_err(|error| Refusal::Unavailable { detail: format!("a token in the store cannot be read: {error}") })
}

/// SHA-256 of a secret. A slow hash would add nothing: the secret is 256 random bits, not a password.
fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
