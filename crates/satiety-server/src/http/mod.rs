//! HTTP server: routes, middleware, connections.
//!
//! ```text
//! listen ──▶ guard (host, origin, caller, rate, permit, timeout) ──▶ /v1 …       the table in `api`
//!                                                           ├─▶ /mcp        mounted by the binary
//!                                                           └─▶ pages       mounted by the binary
//! ```
//!
//! It calls use cases and knows neither the store nor the models.

pub(crate) mod api;
mod app;
mod body;
mod capacity;
mod compression;
mod guard;
mod jobs;
mod listen;
mod live;
pub(crate) mod operations;
mod problem;
pub(crate) mod route;
mod stall;
mod stream;
mod tenants;
mod work;

use std::sync::Arc;
#[cfg(feature = "mcp")]
use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing;
use tower_http::catch_panic::CatchPanicLayer;

#[cfg(feature = "mcp")]
use crate::mcp::{CallLimits, Context, Profile, Reach, Registry, http_service};

pub use api::{ResearchJobProgress, RetrievalJobProgress};
pub use app::{AllowedRoots, App, Limits, ResearchAccess, default_caller_cost};
pub use guard::{CONTENT_POLICY, Peer, RequestId};
pub use jobs::{BenchJobProgress, JobPermit, JobPermits, JobProgress, JobState, JobView};
pub use listen::{ListenError, Listening, Tls, bind};
pub use problem::{Problem, problem_types};
pub use tenants::TenantSettings;

/// Routers served next to `/v1`. Both pass the guard: host, origin, caller, limits, security headers.
#[derive(Debug, Default)]
pub struct Mounts {
    /// Pages of the dashboard, from `/`. GET needs scope `read`, every other method `write`.
    pub pages: Option<Router<Arc<App>>>,
    /// MCP at `/mcp`; needs scope `write`.
    pub mcp: Option<Router<Arc<App>>>,
}

/// MCP service at `/mcp`, for remote callers.
#[cfg(feature = "mcp")]
pub fn mcp(app: &App, mut context: Context, hosts: &[String]) -> Router<Arc<App>> {
    // Its schemas take a while, and each tenant has a service.
    static REGISTRY: LazyLock<Arc<Registry>> =
        LazyLock::new(|| Arc::new(Registry::from_profile(Profile::Full).for_remote_callers()));
    context.reach = Reach::Below {
        root: app.folders.root.clone(),
        permits: app.jobs.permits.clone(),
    };
    context.limits = Some(CallLimits {
        admissions: app.admissions.clone(),
        timeout: app.limits.request,
    });
    let service = http_service(context, Arc::clone(&REGISTRY), hosts, app.ending.clone());
    Router::new().nest_service("/mcp", service)
}

/// Whether the client is a browser that shows a page; API clients do not ask for HTML.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Builds the router of the whole service.
pub fn router(app: Arc<App>, beside: Mounts) -> Router {
    let login = routing::get(crate::auth::login_page).post(crate::auth::login);
    let login = Router::new()
        .route("/login", login)
        .route("/logout", routing::post(crate::auth::logout));
    service(login, &app, beside)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

/// Builds the router of a tenant, which the main router's guard calls.
pub(crate) fn tenant_router(app: Arc<App>, beside: Mounts) -> Router {
    service(Router::new(), &app, beside).with_state(app)
}

/// Adds everything that a main store and a tenant have.
fn service(mut router: Router<Arc<App>>, app: &Arc<App>, beside: Mounts) -> Router<Arc<App>> {
    for route in api::routes() {
        router = route.add_to(router);
    }
    let has_pages = beside.pages.is_some();
    if let Some(pages) = beside.pages {
        router = router.merge(pages.route_layer(from_fn_with_state(app.clone(), guard::pages)));
    }
    if let Some(mcp) = beside.mcp {
        router = router.merge(mcp.route_layer(from_fn_with_state(app.clone(), guard::mcp)));
    }
    router
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").into_response()
        })
        .fallback(move |headers: HeaderMap| async move {
            if has_pages && accepts_html(&headers) {
                return crate::dashboard::not_found();
            }
            Problem::not_found("path not found")
                .hint("see /docs for the available paths")
                .into_response()
        })
        .layer(CatchPanicLayer::custom(|_| {
            Problem::internal("a handler panicked; see the message above").into_response()
        }))
}
