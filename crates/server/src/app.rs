//! The routes, put together.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use lockkeeper_engine::Engine;
use lockkeeper_locks::LockService;
use lockkeeper_model::Refusal;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{Gate, gate};
use crate::headers;
use crate::limits::{BACKUPS_MAX, BODIES_BYTES_MAX, BODY_BYTES_MAX, FEED_STREAMS_MAX, HANDING_BACK_MAX, REQUESTS_MAX};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::routes as r;

/// What every handler can reach.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) engine: Engine,
    pub(crate) locks: Arc<dyn LockService>,
    pub(crate) metrics: Metrics,
    pub(crate) gate: Arc<Gate>,
    pub(crate) started: Instant,
    /// Which node this is.
    pub(crate) node: Arc<str>,
    /// Set when the server is to stop: those who only wait for news give up.
    pub(crate) stopping: CancellationToken,
    /// All permits are free while no request is under way.
    pub(crate) requests: Arc<Semaphore>,
    /// A permit for each lease that nobody took and that is being given back.
    pub(crate) handing_back: Arc<Semaphore>,
    /// A permit for each backup.
    pub(crate) backups: Arc<Semaphore>,
    /// A permit for each stream of events.
    pub(crate) streams: Arc<Semaphore>,
    /// Permits are KiB.
    bodies: Arc<Semaphore>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lockkeeper",
        description = "A workflow engine in which no move is lost and none happens twice. Errors are RFC 9457 problem \
                       details with `code`, `outcome` and `retryable`. Where tokens exist, every request but those to `/`, \
                       `/healthz`, `/readyz` and `/openapi.json` carries `Authorization: Bearer TOKEN`. Answers may gain \
                       fields, and values where they name one of a set: take what you do not know as such.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(r::feed::GapView, r::feed::UnreadableView)),
    modifiers(&Bearer)
)]
struct Api;

/// Describes the bearer token.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        openapi.components.get_or_insert_default().add_security_scheme("token", scheme);
        // The empty alternative: a server without tokens asks for none.
        openapi.security =
            Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("token", []), SecurityRequirement::default()]);
    }
}

impl AppState {
    pub(crate) fn new(
        engine: Engine,
        locks: Arc<dyn LockService>,
        metrics: Metrics,
        gate: Gate,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            engine,
            locks,
            metrics,
            gate: Arc::new(gate),
            started: Instant::now(),
            node: crate::node::name().into(),
            stopping,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            handing_back: Arc::new(Semaphore::new(HANDING_BACK_MAX)),
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
            streams: Arc::new(Semaphore::new(FEED_STREAMS_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX / KIB)),
        }
    }
}

fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(r::workflows::put, r::workflows::get))
        .routes(routes!(r::workflows::list))
        .routes(routes!(r::instances::start, r::instances::list))
        .routes(routes!(r::instances::get))
        .routes(routes!(r::history::get))
        .routes(routes!(r::explain::get))
        .routes(routes!(r::events::send))
        .routes(routes!(r::feed::follow))
        .routes(routes!(r::closes::terminate))
        .routes(routes!(r::closes::cancel))
        .routes(routes!(r::migrations::migrate))
        .routes(routes!(r::transitions::send))
        .routes(routes!(r::locks::acquire::several))
        .routes(routes!(r::locks::acquire::one))
        .routes(routes!(r::locks::keep::renew_several))
        .routes(routes!(r::locks::keep::renew_one))
        .routes(routes!(r::locks::keep::release_several))
        .routes(routes!(r::locks::keep::release_one))
        .routes(routes!(r::locks::list::list))
        .routes(routes!(r::locks::list::force_release))
        .routes(routes!(r::backup::make))
        .routes(routes!(r::purge::purge))
        .routes(routes!(r::tokens::create, r::tokens::list))
        .routes(routes!(r::tokens::revoke))
        .routes(routes!(r::health::alive))
        .routes(routes!(r::health::ready))
        .routes(routes!(r::metrics::get))
        .routes(routes!(r::about::openapi))
        .routes(routes!(r::about::page))
}

/// The OpenAPI 3.1 document of the server.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = api().into_openapi();
    headers::describe(&mut document);
    document
}

/// The whole service.
pub(crate) fn router(state: AppState) -> Router {
    let (router, _) = api().split_for_parts();
    router
        .fallback(|request: Request| async move {
            Problem::NotFound(format!("there is nothing at {:?}; /openapi.json lists the routes", request.uri().path()))
        })
        .method_not_allowed_fallback(|| async { Problem::MethodNotAllowed })
        .layer(middleware::from_fn_with_state(state.clone(), gate))
        .layer(middleware::from_fn_with_state(state.clone(), bound))
        .with_state(state)
}

/// Bounds the requests under way, in number and in the bytes of their bodies.
async fn bound(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let busy = |detail: String| Problem::from(Refusal::Busy { detail }).into_response();
    let Ok(_request) = state.requests.clone().try_acquire_owned() else {
        if state.stopping.is_cancelled() {
            let detail = "this node is shutting down; nothing was written".to_owned();
            return Problem::from(Refusal::Unavailable { detail }).into_response();
        }
        return busy(format!("{REQUESTS_MAX} requests are under way; send it again a little later"));
    };
    let kib = u32::try_from(body_bytes(&request).div_ceil(KIB)).unwrap_or(u32::MAX);
    let Ok(_body) = state.bodies.clone().try_acquire_many_owned(kib) else {
        return busy("the requests under way fill the memory for bodies; send it again a little later".to_owned());
    };
    next.run(request).await
}

const KIB: usize = 1024;

/// The most that the request's body can come to; a larger one is refused while it is read.
fn body_bytes(request: &Request) -> usize {
    match request.body().size_hint().upper() {
        Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX).min(BODY_BYTES_MAX),
        None => BODY_BYTES_MAX,
    }
}
