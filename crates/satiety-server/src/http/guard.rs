//! Middleware for every request: host and origin checks, authentication, rate limit, concurrency limit,
//! timeout. Responses get a request id, security headers and metrics.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tracing::{Instrument as _, field};

use super::app::App;
use super::capacity;
use super::compression;
use super::problem::Problem;
use super::route::read_body;
use crate::auth::{Access, Caller, Scope, audit, is_safe, permit};
use crate::traces;

/// Id of a request, also in the log.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Remote end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Address and port of the client.
    pub address: SocketAddr,
    /// Whether the connection exceeds the limit, so that only health checks are answered.
    pub is_reserve: bool,
}

/// Whether a path is a health endpoint: no token, separate capacity, not rate-limited.
pub(crate) fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// How long a request waits for a permit before it gets 503.
const PERMIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Pages may load resources only from this server and may not be framed.
pub const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Security headers of every response.
const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not `no-referrer`: with it, browsers send `Origin: null` with the forms of our own pages.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Runs the checks and passes the request on, or responds with a problem.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = uuid::Uuid::now_v7().simple().to_string();
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = field::Empty,
        http.request.method = %method,
        http.route = route,
        http.response.status_code = field::Empty,
        request_id = id,
    );
    traces::continue_trace(&span, request.headers());
    let in_flight = app.metrics.begin();
    let answering = async {
        match authenticate(&app, &mut request).await {
            Err(problem) => problem.into_response(),
            Ok(()) => Box::pin(pass(&app, request, next)).await,
        }
    };
    let response = answering.instrument(span.clone()).await;
    drop(in_flight);
    let took = started.elapsed();
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "error");
    }
    let trace = traces::sampled_trace(&span);
    app.metrics
        .request(method.as_str(), &route, status.as_u16(), took, trace);
    tracing::info!(request_id = id, %method, route, status = status.as_u16(), ms = took.as_secs_f64() * 1e3, "request");
    finish(&app, response, &id)
}

/// Authenticates and authorizes; stores the caller in the request.
async fn authenticate(app: &App, request: &mut Request) -> Result<(), Problem> {
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned());
    app.auth
        .names
        .check(request.method(), request.headers(), authority.as_deref())?;
    let address = request
        .extensions()
        .get::<Peer>()
        .map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.address.ip());
    // Health checks must work without a token.
    if is_health(request.uri().path()) {
        return Ok(());
    }
    if request
        .extensions()
        .get::<Peer>()
        .is_some_and(|peer| peer.is_reserve)
    {
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many open connections")
                .hint("reuse connections for several requests")
                .retry_after(1),
        );
    }
    let caller = app.auth.caller(&app.engine, request.headers(), address).await?;
    app.auth.rates.request(caller.as_ref(), address)?;
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    Ok(())
}

async fn pass(app: &App, request: Request, next: Next) -> Response {
    // Health checks are cheap and must be answered even under full load.
    if is_health(request.uri().path()) {
        return next.run(request).await;
    }
    let full = || {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is busy")
            .retry_after(1)
            .into_response()
    };
    let caller = request.extensions().get::<Caller>();
    let key = caller.map(Caller::key).unwrap_or_default();
    // A session ends at the main store, which has all tokens.
    let tenant = caller
        .and_then(|caller| caller.tenant.clone())
        .filter(|_| !matches!(request.uri().path(), "/login" | "/logout"));
    let permits = async {
        // First that of the tenant: a tenant that waits for itself takes nothing from the others.
        let own = match &tenant {
            Some(tenant) => {
                let permits = app.tenants.permits(tenant, app.limits.concurrent);
                Some(permits.acquire_owned().await.ok()?)
            }
            None => None,
        };
        Some((own, app.room.acquire().await.ok()?))
    };
    let Ok(Some(_permits)) = tokio::time::timeout(PERMIT_TIMEOUT, permits).await else {
        return full();
    };
    let deadline = Instant::now() + app.limits.request;
    let answering = async {
        match tenant {
            None => next.run(request).await,
            Some(tenant) => app.tenants.answer(app, &tenant, request).await,
        }
    };
    // Dropped at the timeout or when the client disconnects, together with its computation.
    let answering = app.admissions.request(key, Some(deadline)).scope(answering);
    match tokio::time::timeout(app.limits.request, answering).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "request timeout; a write that has already started is still completed",
        )
        .retry_after(5)
        .into_response(),
    }
}

fn finish(app: &App, mut response: Response, id: &str) -> Response {
    // The problem was created before the request id was known.
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        if let Some(internal) = &problem.internal {
            tracing::error!(request_id = id, status = problem.status, "{internal}");
        }
        problem.request_id = Some(id.into());
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(problem.to_json());
    }
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(CONTENT_POLICY));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if app.is_encrypted() {
        headers.insert(
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=31536000"),
        );
    }
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert("x-request-id", value);
    }
    response
}

/// Middleware for pages: viewing needs `read`, forms need `write`; a browser without a token is redirected to
/// the login. Compresses the response.
pub(crate) async fn pages(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let accepts_gzip = compression::accepts_gzip(request.method(), request.headers());
    let response = pass_page(&app, request, next).await;
    compression::compress(response, accepts_gzip).await
}

async fn pass_page(app: &Arc<App>, request: Request, next: Next) -> Response {
    let needed = if is_safe(request.method()) {
        Scope::Read
    } else {
        Scope::Write
    };
    match permit(request.extensions().get(), needed) {
        Ok(_) if needed == Scope::Read => crate::dashboard::add_status(app, next.run(request).await).await,
        Ok(_) => {
            if let Err(error) = app.engine.admit_storage() {
                return Problem::from(error).into_response();
            }
            let path = request.uri().path();
            let entry = audit::entry(request.method().as_str(), path, request.extensions());
            let response = next.run(request).await;
            audit::note(&app.engine, entry, response.status()).await;
            crate::dashboard::add_status(app, response).await
        }
        Err(problem)
            if problem.status == 401 && app.auth.access() == Access::Tokens && is_safe(request.method()) =>
        {
            let here = request.uri().path_and_query().map_or("/", |here| here.as_str());
            Redirect::to(&format!("/login?next={}", percent_encode(here))).into_response()
        }
        Err(problem) => problem.into_response(),
    }
}

/// Middleware for MCP, whose requests need `write`.
pub(crate) async fn mcp(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    pass_mcp(&app, request, next)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn pass_mcp(app: &App, request: Request, next: Next) -> Result<Response, Problem> {
    const SESSION: &str = "mcp-session-id";
    let caller = permit(request.extensions().get(), Scope::Write)?.key();
    let session = request
        .headers()
        .get(SESSION)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let method = request.method().clone();
    // The SDK reads bodies of any size without a timeout, so it gets one that has already been read.
    let (parts, body) = request.into_parts();
    let bytes = read_body(app, body).await?;
    if super::body::is_too_deep(&bytes) {
        return Err(Problem::bad_request("JSON is nested too deeply"));
    }
    if let Some(session) = &session {
        app.mcp_sessions.touch(session);
    }
    let begins = session.is_none() && method == Method::POST && is_initialize(&bytes);
    let request = Request::from_parts(parts, Body::from(bytes));
    if method == Method::GET {
        let permit = app.streams.admit(&caller)?;
        return Ok(capacity::hold(next.run(request).await, permit));
    }
    if !begins {
        let response = next.run(request).await;
        if let Some(session) = session
            && (method == Method::DELETE || response.status() == StatusCode::NOT_FOUND)
        {
            app.mcp_sessions.end(&session);
        }
        return Ok(response);
    }
    let reservation = uuid::Uuid::now_v7().to_string();
    app.mcp_sessions.reserve(&caller, &reservation)?;
    // Released also when the client disconnects before there is a session.
    let settled = ReservationGuard {
        app,
        reservation: &reservation,
        session: std::cell::OnceCell::new(),
    };
    let response = next.run(request).await;
    if let Some(session) = response
        .headers()
        .get(SESSION)
        .and_then(|value| value.to_str().ok())
    {
        let _ = settled.session.set(session.to_owned());
    }
    drop(settled);
    Ok(response)
}

/// Replaces a reservation with the resulting session on drop.
struct ReservationGuard<'a> {
    app: &'a App,
    reservation: &'a str,
    session: std::cell::OnceCell<String>,
}

impl Drop for ReservationGuard<'_> {
    fn drop(&mut self) {
        self.app
            .mcp_sessions
            .settle(self.reservation, self.session.get().map(String::as_str));
    }
}

/// Whether a message starts a session.
fn is_initialize(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: Option<std::borrow::Cow<'a, str>>,
    }
    serde_json::from_slice::<Message<'_>>(bytes)
        .is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

/// Percent-encodes everything except letters and digits.
fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        use std::fmt::Write as _;
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}
