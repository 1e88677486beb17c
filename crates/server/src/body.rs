//! Bodies, queries and headers as typed values; what cannot be read is a `malformed` problem that says where.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use lockkeeper_model::Refusal;
use lockkeeper_model::limits::KEY_BYTES_MAX;
use lockkeeper_model::names::check_text;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::app::AppState;
use crate::limits::{BODY_BYTES_MAX, BODY_DISCARDED_MAX, REQUEST_READ_MAX};
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

impl FromRequest<AppState> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let asks_first = request.headers().contains_key(header::EXPECT);
        let mut body = request.into_body();
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if asks_first && announced > BODY_BYTES_MAX {
            return Err(too_large(announced));
        }
        let reading = tokio::time::timeout(REQUEST_READ_MAX, read(&mut body));
        // A body that is not here yet does not hold up the end of the server: nothing of it was accepted.
        let read = tokio::select! {
            biased;
            read = reading => read,
            () = state.stopping.cancelled() => {
                return Err(Refusal::Unavailable { detail: "this node is shutting down; nothing was written".to_owned() }.into());
            }
        };
        match read {
            Ok(Ok(Some(bytes))) => Ok(Self(bytes)),
            Ok(Ok(None)) => {
                discard(&mut body).await;
                Err(too_large(announced.max(BODY_BYTES_MAX + 1)))
            }
            Ok(Err(error)) => Err(malformed(format!("the body broke off: {error}"))),
            Err(_elapsed) => Err(malformed("the body did not arrive in time")),
        }
    }
}

fn too_large(actual: usize) -> Problem {
    Refusal::TooLarge { what: "the body".to_owned(), limit: BODY_BYTES_MAX, actual }.into()
}

/// The whole body; none: it is larger than allowed.
async fn read(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    let mut bytes = Vec::new();
    while let Some(part) = part(body).await {
        let part = part?;
        if bytes.len() + part.len() > BODY_BYTES_MAX {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes.into()))
}

/// Reads on and throws away, within bounds: whoever still writes would meet a closed connection instead of the answer.
async fn discard(body: &mut Body) {
    let (bytes_max, time_max) = BODY_DISCARDED_MAX;
    let discarding = async {
        let mut bytes = 0;
        while let Some(Ok(part)) = part(body).await {
            bytes += part.len();
            if bytes > bytes_max {
                break;
            }
        }
    };
    // Whoever is slower than that may miss the answer.
    let _in_time = tokio::time::timeout(time_max, discarding).await;
}

/// The next bytes, as they come.
async fn part(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                // Trailers are passed over.
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

impl<T: DeserializeOwned> FromRequest<AppState> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text)
            .map(|Object(body)| Self(body))
            .map_err(|error| malformed(format!("the body is not as expected: {error}")))
    }
}

/// Reads a list of objects, none of which may be given as a list of its fields.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let given: Vec<Object<T>> = Vec::deserialize(deserializer)?;
    Ok(given.into_iter().map(|Object(one)| one).collect())
}

/// What is given as an object: serde would take a list, too, as its fields in the order in which they are declared.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
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
