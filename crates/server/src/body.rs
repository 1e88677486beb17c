//! Bodies, queries and headers as typed values; what cannot be read is a `malformed` problem that says where.

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use lockkeeper_model::Refusal;
use lockkeeper_model::limits::KEY_BYTES_MAX;
use lockkeeper_model::names::check_text;
use serde::de::DeserializeOwned;

use crate::limits::{BODY_BYTES_MAX, REQUEST_READ_MAX};
use crate::problem::{Problem, malformed};

/// The whole body, bounded in bytes and in time.
pub(crate) struct Raw(pub(crate) Bytes);

/// A JSON body. The content type is not asked for: `curl -d` gives another one, and `Origin` is checked elsewhere.
/// An empty body is `{}`.
pub(crate) struct Json<T>(pub(crate) T);

/// The query string.
pub(crate) struct Params<T>(pub(crate) T);

/// The header `Idempotency-Key`.
pub(crate) struct Key(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let reading = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
        match tokio::time::timeout(REQUEST_READ_MAX, reading).await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(error)) => Err(unread(&error)),
            Err(_elapsed) => Err(malformed("the body did not arrive in time")),
        }
    }
}

fn unread(error: &axum::Error) -> Problem {
    let limit = "length limit exceeded";
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if cause.to_string().contains(limit) {
            return Refusal::TooLarge {
                what: "the body".to_owned(),
                limit: BODY_BYTES_MAX,
                actual: BODY_BYTES_MAX + 1,
            }
            .into();
        }
        source = cause.source();
    }
    malformed(format!("the body broke off: {error}"))
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text)
            .map(Self)
            .map_err(|error| malformed(format!("the body is not as expected: {error}")))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        query.map(|Query(params)| Self(params)).map_err(|error| malformed(format!("the query: {}", error.body_text())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        key(&parts.headers).map(Self)
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed("Idempotency-Key is given twice"));
    }
    let text = value.to_str().map_err(|_| malformed("Idempotency-Key may hold visible ASCII characters only"))?;
    check_text("Idempotency-Key", text, KEY_BYTES_MAX)?;
    Ok(Some(text.to_owned()))
}
