//! Routes as values, and their shared handling: authorization, parsing, idempotency (`Idempotency-Key`),
//! entity tags, audit log. The router and the OpenAPI document are generated from them.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use satiety_engine::maintenance::{IdempotentWrite, Repeated};
use satiety_engine::tokens::AuditEntry;
use tracing::Instrument as _;

use super::app::App;
use super::capacity;
use super::operations::{Binding, Bound};
use super::problem::Problem;
use crate::auth::{Caller, Scope, audit, permit};

/// Header that makes a write idempotent.
pub(crate) const KEY: &str = "idempotency-key";

type RouteFuture = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// Handler that returns the response as JSON.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, Problem>> + Send>>;

#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) about: RouteInfo,
    pub(crate) kind: Kind,
}

/// Response type of a route.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Response of an operation, as JSON.
    Operation(Arc<Bound>),
    /// Another content type; the handler gets the `id` of the path, if any.
    Raw(&'static str, fn(Arc<App>, String, HeaderMap) -> RouteFuture),
}

/// Description of a route.
#[derive(Debug, Clone)]
pub(crate) struct RouteInfo {
    pub(crate) method: Method,
    /// Path with its parameters in braces.
    pub(crate) path: &'static str,
    /// Operation id in the OpenAPI document.
    pub(crate) id: &'static str,
    /// One-line summary.
    pub(crate) summary: &'static str,
    /// Required scope; `None` makes the route public.
    pub(crate) scope: Option<Scope>,
    /// HTTP status of success.
    pub(crate) status: u16,
    /// Whether it writes: it is idempotent by key and audited.
    pub(crate) writes: bool,
}

/// Route with a response other than JSON: a page, a stream, metrics.
pub(crate) fn raw(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    content_type: &'static str,
    handler: fn(Arc<App>, String, HeaderMap) -> RouteFuture,
) -> Route {
    Route {
        about: RouteInfo {
            method: Method::GET,
            path,
            id,
            summary,
            scope: Some(Scope::Read),
            status: 200,
            writes: false,
        },
        kind: Kind::Raw(content_type, handler),
    }
}

impl Route {
    /// Route of an operation; `None` if there is none with that name.
    pub(crate) fn of_operation(binding: Binding) -> Option<Self> {
        let bound = Bound::new(binding)?;
        Some(Self {
            about: bound.about(),
            kind: Kind::Operation(Arc::new(bound)),
        })
    }

    /// Makes the route public.
    pub(crate) fn public(mut self) -> Self {
        self.about.scope = None;
        self
    }

    /// Requires the scope `admin`.
    pub(crate) fn admin(mut self) -> Self {
        self.about.scope = Some(Scope::Admin);
        self
    }

    /// Adds the route to a router.
    pub(crate) fn add_to(self, router: Router<Arc<App>>) -> Router<Arc<App>> {
        let Self { about, kind } = self;
        // Only methods of the table occur here.
        let method = MethodFilter::try_from(about.method.clone()).unwrap_or(MethodFilter::GET);
        let scope = about.scope;
        let handler = move |State(app): State<Arc<App>>, request: Request| {
            let kind = kind.clone();
            let answer = async move {
                let answer = match kind {
                    Kind::Operation(bound) => bound.answer(app, request).await,
                    Kind::Raw(content_type, handler) => {
                        let is_stream = content_type == "text/event-stream";
                        answer_raw(app, request, scope, is_stream, handler).await
                    }
                };
                answer.unwrap_or_else(IntoResponse::into_response)
            };
            Box::pin(answer) as Pin<Box<dyn Future<Output = Response> + Send>>
        };
        router.route(about.path, on(method, handler))
    }
}

async fn answer_raw(
    app: Arc<App>,
    request: Request,
    scope: Option<Scope>,
    is_stream: bool,
    handler: fn(Arc<App>, String, HeaderMap) -> RouteFuture,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let caller = allow(&parts, scope)?;
    let path = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|rejection| Problem::bad_request(format!("invalid path: {}", rejection.body_text())))?;
    let id = path
        .iter()
        .find(|(name, _)| *name == "id")
        .map(|(_, id)| id.to_owned());
    if id.as_ref().is_some_and(|id| id.chars().count() > 256) {
        return Err(Problem::unprocessable("`id` must have at most 256 characters").at("id"));
    }
    let id = id.unwrap_or_default();
    if !is_stream {
        return handler(app, id, parts.headers).await;
    }
    let key = caller.map_or_else(String::new, |caller| caller.key());
    let permit = app.streams.admit(&key)?;
    Ok(capacity::hold(handler(app, id, parts.headers).await?, permit))
}

/// Checks that the caller has the scope.
pub(crate) fn allow(parts: &Parts, scope: Option<Scope>) -> Result<Option<Caller>, Problem> {
    let caller = parts.extensions.get::<Caller>();
    match scope {
        Some(scope) => permit(caller, scope).map(|caller| Some(caller.clone())),
        None => Ok(caller.cloned()),
    }
}

/// Runs the operation of a request and builds its response, with the status of success.
pub(crate) async fn finish(
    app: Arc<App>,
    parts: Parts,
    caller: Option<Caller>,
    (status, writes): (StatusCode, bool),
    bytes: &[u8],
    work: Work,
) -> Result<Response, Problem> {
    if !writes {
        return Ok(with_etag(&parts, status, work.await?));
    }
    let idempotency_record = idempotency_record(&parts, caller.as_ref(), bytes)?;
    // A write is completed even if the client disconnects.
    let entry = audit::entry(parts.method.as_str(), parts.uri.path(), &parts.extensions);
    // Computation before the write is still subject to the request's limits and timeout.
    let key = caller.as_ref().map(Caller::key).unwrap_or_default();
    let deadline = std::time::Instant::now() + app.limits.request;
    let admission = app.admissions.request(key, Some(deadline));
    let work = admission
        .scope(perform_write(app, work, idempotency_record, status, entry))
        .in_current_span();
    let task = tokio::spawn(work);
    task.await
        .map_err(|error| Problem::internal(format!("a write was aborted: {error}")))?
}

/// Reads a body within the limits of size and time.
pub(crate) async fn read_body(app: &App, body: Body) -> Result<Bytes, Problem> {
    let reading = tokio::time::timeout(app.limits.headers, to_bytes(body, app.limits.body));
    match reading.await {
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout while receiving the body",
        )),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let limit = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
                .any(|error| error.to_string().contains("length limit exceeded"));
            Err(if limit {
                Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!("the body exceeds {} bytes", app.limits.body),
                )
            } else {
                Problem::bad_request("cannot read the body")
            })
        }
    }
}

/// Idempotency record of a write with a key.
fn idempotency_record(
    parts: &Parts,
    caller: Option<&Caller>,
    body: &[u8],
) -> Result<Option<IdempotentWrite>, Problem> {
    let Some(key) = parts.headers.get(KEY) else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| {
            Problem::bad_request("`Idempotency-Key` must have 1 to 255 printable ASCII characters")
        })?;
    let who = caller.map_or("", |caller| &caller.who);
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let request = [parts.method.as_str().as_bytes(), target.as_bytes(), body];
    Ok(Some(IdempotentWrite::new(who, key, &request)))
}

/// Performs a write, stores its response for replays, and audits it.
async fn perform_write(
    app: Arc<App>,
    work: Work,
    idempotency_record: Option<IdempotentWrite>,
    status: StatusCode,
    entry: AuditEntry,
) -> Result<Response, Problem> {
    let _writing = app.writing();
    if let Some(write) = &idempotency_record {
        match app.engine.database().repeated(write).await? {
            Repeated::First => {}
            Repeated::InProgress => {
                return Err(Problem::new(
                    StatusCode::CONFLICT,
                    "a request with this `Idempotency-Key` is still in progress",
                )
                .retry_after(1));
            }
            Repeated::OtherRequest => {
                return Err(
                    Problem::unprocessable("this `Idempotency-Key` was used for another request")
                        .hint("use a new key per request, and the same key for retries"),
                );
            }
            Repeated::Answered { status, body } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
                let mut response = json(status, body.into_bytes());
                response
                    .headers_mut()
                    .insert("idempotency-replayed", HeaderValue::from_static("true"));
                return Ok(response);
            }
        }
    }
    let outcome = work.await;
    if let Some(write) = &idempotency_record {
        let kept = match &outcome {
            Ok(text) => {
                let text = String::from_utf8_lossy(text);
                app.engine
                    .database()
                    .store_response(write, status.as_u16(), &text)
                    .await
            }
            // Nothing was written, so the key may be used again with a corrected request.
            Err(_) => app.engine.database().release_key(write).await,
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot store the response for replay");
        }
    }
    let ended = match &outcome {
        Ok(_) => status,
        Err(problem) => StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    audit::note(&app.engine, entry, ended).await;
    Ok(json(status, outcome?))
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, body).into_response()
}

/// Response with its entity tag, or 304 if it is unchanged.
fn with_etag(parts: &Parts, status: StatusCode, body: Vec<u8>) -> Response {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return json(status, body);
    }
    let digest = blake3::hash(&body).to_hex();
    let tag = format!("\"{}\"", digest.get(..32).unwrap_or_default());
    let known = parts
        .headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value == tag || value == "*");
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        json(status, body)
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, value);
    }
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    response
}
