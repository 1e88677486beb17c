//! Tokens in a store that no server has open: how the first token comes to be.

use crate::client::Answer;
use crate::failure::Failure;

/// Makes a token; the answer is that of `POST /v1/tokens`.
pub(crate) async fn create(_store: &str, _name: &str, _roles: &[String]) -> Result<Answer, Failure> {
    Err(not_wired())
}

/// Lists tokens; the answer is that of `GET /v1/tokens`.
pub(crate) async fn list(_store: &str) -> Result<String, Failure> {
    Err(not_wired())
}

/// Revokes a token.
pub(crate) async fn revoke(_store: &str, _name: &str) -> Result<(), Failure> {
    Err(not_wired())
}

fn not_wired() -> Failure {
    Failure::failed("token --store: not wired yet")
}
