//! Who is asking: a token's principal, or whoever is on this machine.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockkeeper_model::{Actor, Refusal};
use moka::sync::Cache;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::app::AppState;
use crate::limits::{TOKEN_MEMORY, TOKENS_REMEMBERED};
use crate::problem::Problem;
use crate::tokens::{Token, Tokens};

/// The role that may make and revoke tokens.
pub(crate) const ADMIN: &str = "admin";

/// The role that may act as somebody else.
const ACT_AS: &str = "act_as";

/// Paths that say nothing about anybody's work.
const OPEN_PATHS: [&str; 4] = ["/", "/healthz", "/readyz", "/openapi.json"];

/// The gate of a server.
pub(crate) struct Gate {
    pub(crate) tokens: Tokens,
    /// Tokens exist: every request needs one. Fixed at start: the first token is made while the server is stopped.
    pub(crate) tokens_required: bool,
    /// See [`crate::ServerOptions::admins_only`].
    admins_only: bool,
    remembered: Cache<String, Arc<Token>>,
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Somebody on this machine; what they say of themselves is believed, and marked.
    Local,
    /// The principal of a token.
    Principal(Arc<Token>),
}

/// An actor as a body gives it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, try_from = "Value")]
pub(crate) enum ActorBody {
    /// The id alone: no roles.
    Id(String),
    /// The id with roles.
    Full(ActorFields),
}

/// An actor's id with roles.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActorFields {
    /// The id.
    id: String,
    /// The roles; with tokens, only among the token's own.
    #[serde(default)]
    roles: Vec<String>,
}

impl TryFrom<Value> for ActorBody {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(id) => Ok(Self::Id(id)),
            Value::Object(_) => {
                serde_json::from_value(value).map(Self::Full).map_err(|error| format!("the actor: {error}"))
            }
            _ => Err("the actor: write its id, or {id, roles}".to_owned()),
        }
    }
}

impl Gate {
    pub(crate) fn new(tokens: Tokens, tokens_required: bool, admins_only: bool) -> Self {
        let remembered = Cache::builder().max_capacity(TOKENS_REMEMBERED).time_to_live(TOKEN_MEMORY).build();
        Self { tokens, tokens_required, admins_only, remembered }
    }

    /// Asks `caller` for the role `admin`, where this server wants it for what leads past the rules of definitions.
    ///
    /// # Errors
    /// `not_permitted`.
    pub(crate) fn past_rules(&self, caller: &Caller) -> Result<(), Problem> {
        if self.admins_only { caller.admin() } else { Ok(()) }
    }

    /// Forgets what is remembered of tokens: one was revoked.
    pub(crate) fn forget(&self) {
        self.remembered.invalidate_all();
    }

    async fn caller(&self, headers: &HeaderMap, uri: &Uri) -> Result<Caller, Refusal> {
        if !self.tokens_required {
            local_only(headers, uri)?;
            return Ok(Caller::Local);
        }
        let unauthenticated = |detail: &str| Refusal::Unauthenticated { detail: detail.to_owned() };
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret =
            value.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        let Some((_, secret)) = secret else {
            return Err(unauthenticated(
                "a token is needed: send `Authorization: Bearer TOKEN` (CLI: LOCKKEEPER_TOKEN)",
            ));
        };
        let secret = secret.trim();
        if let Some(token) = self.remembered.get(secret) {
            return Ok(Caller::Principal(token));
        }
        match self.tokens.find(secret).await? {
            Some(token) => {
                let token = Arc::new(token);
                self.remembered.insert(secret.to_owned(), token.clone());
                Ok(Caller::Principal(token))
            }
            None => Err(unauthenticated("this token is not known, or was revoked")),
        }
    }
}

/// Lets a request in, or answers it.
pub(crate) async fn gate(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let open = OPEN_PATHS.contains(&request.uri().path());
    if !(open && state.gate.tokens_required) {
        match state.gate.caller(request.headers(), request.uri()).await {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
            }
            Err(refusal) => return Problem::from(refusal).into_response(),
        }
    }
    next.run(request).await
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let missing = || Refusal::Unauthenticated { detail: "the request did not pass the gate".to_owned() };
        parts.extensions.get::<Self>().cloned().ok_or_else(|| missing().into())
    }
}

impl Caller {
    /// The effective actor of a command.
    ///
    /// # Errors
    /// `malformed`; `not_permitted` where the token may not act as that actor, or has not those roles.
    pub(crate) fn actor(&self, claimed: Option<ActorBody>) -> Result<Actor, Problem> {
        let claimed = claimed.map(|claimed| match claimed {
            ActorBody::Id(id) => (id, Vec::new()),
            ActorBody::Full(ActorFields { id, roles }) => (id, roles),
        });
        match (self, claimed) {
            (Self::Local, None) => Ok(Actor::new(Actor::ANONYMOUS, [], false)?),
            (Self::Local, Some((id, roles))) => Ok(Actor::new(&id, roles, false)?),
            (Self::Principal(token), None) => Ok(Actor::new(&token.name, token.roles.clone(), true)?),
            (Self::Principal(token), Some((id, roles))) => as_claimed(token, &id, roles),
        }
    }

    /// Asks for the role `admin`; without tokens everybody on this machine has it.
    ///
    /// # Errors
    /// `not_permitted`.
    pub(crate) fn admin(&self) -> Result<(), Problem> {
        match self {
            Self::Principal(token) if !token.roles.iter().any(|role| role == ADMIN) => {
                let detail = format!("the token {:?} has not the role `{ADMIN}`", token.name);
                Err(Refusal::NotPermitted { detail, roles: vec![ADMIN.to_owned()] }.into())
            }
            Self::Local | Self::Principal(_) => Ok(()),
        }
    }
}

/// The actor that a token's body names: itself, or another where it may act as others, with roles that it has itself.
fn as_claimed(token: &Token, id: &str, roles: Vec<String>) -> Result<Actor, Problem> {
    if let Some(role) = roles.iter().find(|role| !token.roles.contains(role)) {
        let detail = format!("the token {:?} has not the role {role:?}, so it cannot lend it", token.name);
        return Err(Refusal::NotPermitted { detail, roles: vec![role.clone()] }.into());
    }
    if id == token.name {
        let roles = if roles.is_empty() { token.roles.clone() } else { roles };
        return Ok(Actor::new(id, roles, true)?);
    }
    if !token.roles.iter().any(|role| role == ACT_AS) {
        let detail = format!("the token {:?} may act as itself only; acting as {id:?} needs `{ACT_AS}`", token.name);
        return Err(Refusal::NotPermitted { detail, roles: vec![ACT_AS.to_owned()] }.into());
    }
    // The history names both: who acted, and by whose token.
    Ok(Actor { via: Some(token.name.clone()), ..Actor::new(id, roles, true)? })
}

/// Without tokens, only programs of this machine may ask. A page of the web that a browser here has open must not: its
/// name may resolve to this machine (DNS rebinding), so `Host` is checked, and `Origin` where a browser sends it.
fn local_only(headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
    let refuse = |detail: String| Err(Refusal::NotPermitted { detail, roles: Vec::new() });
    let host =
        headers.get(header::HOST).map(|host| host.to_str().unwrap_or("")).or(uri.authority().map(|a| a.as_str()));
    if !host.is_some_and(is_loopback) {
        return refuse(format!(
            "without tokens only this machine is served, and the Host {:?} is not its name: use 127.0.0.1 or localhost, or make a token",
            host.unwrap_or("")
        ));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("");
        let of_page = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        // Another program's page on another port of this machine is another origin.
        if of_page.is_none() || of_page != host {
            return refuse(format!("without tokens, pages of the origin {origin:?} are not served"));
        }
    }
    Ok(())
}

/// Whether `host` or `host:port` names this machine's loopback.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _port)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_loopback_names_are_local() {
        for good in ["localhost", "LOCALHOST:7070", "127.0.0.1", "127.0.0.1:7070", "127.1.2.3:1", "[::1]", "[::1]:7070"]
        {
            assert!(is_loopback(good), "{good}");
        }
        for bad in
            ["", "example.org", "localhost.example.org", "127.0.0.1.example.org:80", "10.0.0.1", "[::2]:1", "0.0.0.0"]
        {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
