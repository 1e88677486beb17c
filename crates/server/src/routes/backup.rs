//! A backup of the store, made while it goes on.

use std::fs::File;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lockkeeper_model::Refusal;
use tokio::task::spawn_blocking;

use crate::app::AppState;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::views::ProblemView;

/// Bytes that are read and sent at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Where the digest of the content is told.
const CONTENT: HeaderName = HeaderName::from_static("lockkeeper-content");

/// A backup of the whole store, as it is at one moment; moves go on meanwhile. It is made first, and then sent.
///
/// The file has a seal over all that is in it: `lockkeeper restore` refuses one that was cut short or changed. Asks for the
/// role `admin`.
#[utoipa::path(
    post, path = "/v1/backup", operation_id = "make_backup", tag = "operations",
    responses(
        (status = 200, description = "The file, for `lockkeeper restore`; its content's SHA-256 in `lockkeeper-content`",
         body = String, content_type = "application/octet-stream"),
        (status = 403, description = "`not_permitted`: the role `admin` is needed",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn make(State(state): State<AppState>, caller: Caller) -> Result<Response, Problem> {
    caller.admin()?;
    let Ok(permit) = state.backups.clone().try_acquire_owned() else {
        return Err(Refusal::Busy { detail: "a backup is being made on this node already".to_owned() }.into());
    };
    let store = state.engine.store().clone();
    let failed =
        |error: &dyn std::fmt::Display| Refusal::Unavailable { detail: format!("no backup was made: {error}") };
    let folder = tempfile::Builder::new().prefix(".lockkeeper-backup-").tempdir_in(store.scratch());
    let folder = folder.map_err(|error| failed(&error))?;
    let path = folder.path().join("backup");
    let summary = store.backup(&path).await.map_err(|error| failed(&error))?;
    let file = File::open(&path).map_err(|error| failed(&error))?;
    let bytes = file.metadata().map_err(|error| failed(&error))?.len();
    // The open file is all that is needed: nothing is left behind, however this ends.
    drop(folder);
    let pieces = stream::unfold(Some((file, permit)), |sending| async {
        let (file, permit) = sending?;
        match spawn_blocking(move || piece(file)).await {
            Ok(Ok((_, read))) if read.is_empty() => None,
            Ok(Ok((file, read))) => Some((Ok(read), Some((file, permit)))),
            // The connection is cut: its client sees that the file is short.
            Ok(Err(error)) => Some((Err(error), None)),
            Err(error) => Some((Err(std::io::Error::other(error)), None)),
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    if let Ok(content) = HeaderValue::from_str(&summary.content) {
        headers.insert(CONTENT, content);
    }
    Ok(response)
}

fn piece(mut file: File) -> std::io::Result<(File, Bytes)> {
    let mut bytes = vec![0; PIECE_BYTES];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    Ok((file, bytes.into()))
}
