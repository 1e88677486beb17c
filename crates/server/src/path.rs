//! Names in paths: percent-decoded byte for byte, or 400.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use lockkeeper_model::limits::ID_BYTES_MAX;
use lockkeeper_model::names::check_text;
use lockkeeper_model::{InstanceKey, WorkflowName};
use serde::de::DeserializeOwned;

use crate::problem::{Problem, malformed};

/// `{workflow}`.
pub(crate) struct WorkflowPath(pub(crate) WorkflowName);

/// `{workflow}` and `{id}`.
pub(crate) struct InstancePath(pub(crate) InstanceKey);

/// `{resource}`: the name of a lock.
pub(crate) struct ResourcePath(pub(crate) String);

/// `{name}` of a token.
pub(crate) struct NamePath(pub(crate) String);

async fn decoded<S: Send + Sync, T: DeserializeOwned + Send>(parts: &mut Parts, state: &S) -> Result<T, Problem> {
    let path: Result<Path<T>, _> = Path::from_request_parts(parts, state).await;
    path.map(|Path(names)| names).map_err(|error| malformed(format!("the path: {}", error.body_text())))
}

impl<S: Send + Sync> FromRequestParts<S> for WorkflowPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let workflow: String = decoded(parts, state).await?;
        Ok(Self(WorkflowName::new(&workflow)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for InstancePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (workflow, id): (String, String) = decoded(parts, state).await?;
        Ok(Self(InstanceKey::new(&workflow, &id)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ResourcePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let resource: String = decoded(parts, state).await?;
        check_text("resource", &resource, ID_BYTES_MAX)?;
        if matches!(resource.as_str(), "." | "..") {
            return Err(malformed("the resource cannot be called `.` or `..`: they vanish from URLs"));
        }
        Ok(Self(resource))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        decoded(parts, state).await.map(Self)
    }
}
