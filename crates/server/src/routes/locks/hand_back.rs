//! Leases that nobody takes: the client went while it waited, or before it had the answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use lockkeeper_locks::{LeaseId, LockService};
use lockkeeper_model::Refusal;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::limits::{HAND_BACK_PAUSE, HAND_BACK_TRIES};
use crate::problem::Problem;

/// A lease, or a place in the queue, that is given back when this is dropped.
pub(crate) struct HandBack {
    service: Arc<dyn LockService>,
    places: Arc<Semaphore>,
    /// None: it has been taken, or there is nothing.
    lease: Option<LeaseId>,
}

impl HandBack {
    /// To be made before the lease is asked for: what an ask gets may come after its future is gone. None: nothing is to
    /// be given back.
    pub(crate) fn new(service: Arc<dyn LockService>, places: Arc<Semaphore>, lease: Option<LeaseId>) -> Self {
        Self { service, places, lease }
    }

    /// There is nothing to be given back.
    pub(crate) fn forget(mut self) {
        self.lease = None;
    }

    /// An answer that takes the lease over. If the connection does not take the answer, the lease is given back.
    pub(crate) fn answer(self, view: &impl Serialize) -> Result<Response, Problem> {
        let text = serde_json::to_vec(view).map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
        let length = HeaderValue::from(text.len());
        let body = stream::once(async move {
            self.forget();
            Ok::<_, Infallible>(Bytes::from(text))
        });
        let mut response = Response::new(Body::from_stream(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, length);
        Ok(response)
    }
}

impl Drop for HandBack {
    fn drop(&mut self) {
        let Some(lease) = self.lease else { return };
        let (Ok(place), Ok(runtime)) = (self.places.clone().try_acquire_owned(), Handle::try_current()) else {
            tracing::warn!(%lease, "a lease that nobody took is not given back: it ends with its time to live");
            return;
        };
        let service = self.service.clone();
        runtime.spawn(async move {
            give_back(&*service, lease).await;
            drop(place);
        });
    }
}

/// Barred: the ask may still be on its way.
async fn give_back(service: &dyn LockService, lease: LeaseId) {
    let mut pause = HAND_BACK_PAUSE;
    for _ in 0..HAND_BACK_TRIES {
        match service.release(lease, true).await {
            Ok(release) => return tracing::debug!(%lease, ?release, "given back: nobody took it"),
            Err(error) => tracing::debug!(%lease, %error, "not given back yet"),
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(Duration::from_secs(1));
    }
    tracing::warn!(%lease, "a lease that nobody took could not be given back: it ends with its time to live");
}
