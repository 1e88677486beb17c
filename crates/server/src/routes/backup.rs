//! A backup of the store, made while it goes on.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lockkeeper_model::Refusal;
use lockkeeper_store::Scratch;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_blocking;

use crate::app::AppState;
use crate::auth::Caller;
use crate::limits::BACKUP_STALL_MAX;
use crate::problem::Problem;
use crate::views::ProblemView;

/// Bytes that are read and sent at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that are read before they are asked for.
const PIECES_AHEAD: usize = 1;

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
    let inside = store.scratch();
    let scratch = spawn_blocking(move || Scratch::new(&inside)).await.map_err(|error| failed(&error))?;
    let scratch = scratch.map_err(|error| failed(&error))?;
    let path = scratch.file();
    let summary = tokio::select! {
        made = store.backup(&path) => made.map_err(|error| failed(&error))?,
        () = state.stopping.cancelled() => return Err(failed(&"this node is shutting down").into()),
    };
    let file = File::open(&path).map_err(|error| failed(&error))?;
    let bytes = file.metadata().map_err(|error| failed(&error))?.len();
    // The open file is all that is needed: nothing is left behind, however this ends.
    drop(scratch);
    let (pieces, mut taken) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(send(file, pieces, BACKUP_STALL_MAX, permit));
    let pieces = stream::poll_fn(move |context| taken.poll_recv(context));
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    if let Ok(content) = HeaderValue::from_str(&summary.content) {
        headers.insert(CONTENT, content);
    }
    Ok(response)
}

/// Sends the file, as fast as its client takes it; holds the place for backups for as long. A client that stalls, or a disk
/// that fails, cuts the connection: the client sees that the file is short.
async fn send(
    file: File,
    pieces: mpsc::Sender<std::io::Result<Bytes>>,
    stall_max: Duration,
    _place: OwnedSemaphorePermit,
) {
    let file = Arc::new(file);
    loop {
        let from = file.clone();
        let read = spawn_blocking(move || piece(&from)).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let (ended, failed) = (read.as_ref().is_ok_and(Bytes::is_empty), read.is_err());
        if ended || pieces.send_timeout(read, stall_max).await.is_err() || failed {
            return;
        }
    }
}

fn piece(mut file: &File) -> std::io::Result<Bytes> {
    let mut bytes = vec![0; PIECE_BYTES];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::sync::Semaphore;

    use super::*;

    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 10 * PIECE_BYTES + 1]).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file
    }

    #[tokio::test]
    async fn a_client_that_stalls_loses_its_place() {
        let places = Arc::new(Semaphore::new(1));
        let (pieces, mut taken) = mpsc::channel(PIECES_AHEAD);
        send(file(), pieces, Duration::from_millis(10), places.clone().try_acquire_owned().unwrap()).await;
        assert_eq!(places.available_permits(), 1);
        assert_eq!(taken.recv().await.unwrap().unwrap().len(), PIECE_BYTES);
        assert!(taken.recv().await.is_none(), "cut short");
    }

    #[tokio::test]
    async fn a_client_that_takes_it_gets_it_whole() {
        let places = Arc::new(Semaphore::new(1));
        let (pieces, mut taken) = mpsc::channel(PIECES_AHEAD);
        let place = places.clone().try_acquire_owned().unwrap();
        let sending = tokio::spawn(send(file(), pieces, BACKUP_STALL_MAX, place));
        let mut bytes = 0;
        while let Some(piece) = taken.recv().await {
            bytes += piece.unwrap().len();
        }
        assert_eq!(bytes, 10 * PIECE_BYTES + 1);
        sending.await.unwrap();
        assert_eq!(places.available_permits(), 1);
    }
}
