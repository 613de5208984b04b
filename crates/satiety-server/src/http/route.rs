//! Routes as values, and what all of them do alike: permission, reading, answers that may be asked for again
//! (`Idempotency-Key`), entity tags, the audit log. Router and OpenAPI document are both made from the routes.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use satiety_engine::maintenance::{Repeatable, Repeated};
use satiety_engine::tokens::AuditEntry;
use tracing::Instrument as _;

use super::app::App;
use super::capacity;
use super::operations::{Binding, Bound};
use super::problem::Problem;
use crate::auth::{Caller, Scope, audit, permit};

/// The header that makes a write repeatable.
const KEY: &str = "idempotency-key";

type RouteFuture = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// What answers a request: the response as JSON.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, Problem>> + Send>>;

/// A route.
pub(crate) struct Route {
    /// What is said about it.
    pub(crate) about: RouteInfo,
    /// What it answers with.
    pub(crate) kind: Kind,
}

/// What a route answers with.
#[derive(Clone)]
pub(crate) enum Kind {
    /// The response of an operation, as JSON.
    Operation(Arc<Bound>),
    /// Something else of this content type; the handler gets the `id` of the path, or nothing.
    Raw(&'static str, fn(Arc<App>, String, HeaderMap) -> RouteFuture),
}

/// What is said about a route.
#[derive(Debug, Clone)]
pub(crate) struct RouteInfo {
    pub(crate) method: Method,
    /// The path, with its parameters in braces.
    pub(crate) path: &'static str,
    /// Its name in the document.
    pub(crate) id: &'static str,
    /// What it does, in a line.
    pub(crate) summary: &'static str,
    /// Required scope; `None` makes the route public.
    pub(crate) scope: Option<Scope>,
    /// The status of success.
    pub(crate) status: u16,
    /// Whether it stores something: it can be repeated by key, and is in the audit log.
    pub(crate) writes: bool,
}

/// A route that answers with something other than JSON: a page, a stream, metrics.
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
    /// The route of an operation; none where there is no such operation.
    pub(crate) fn of_operation(binding: Binding) -> Option<Self> {
        let bound = Bound::new(binding)?;
        Some(Self {
            about: bound.about(),
            kind: Kind::Operation(Arc::new(bound)),
        })
    }

    /// For callers without a token.
    pub(crate) fn public(mut self) -> Self {
        self.about.scope = None;
        self
    }

    /// Adds it to a router.
    pub(crate) fn add_to(self, router: Router<Arc<App>>) -> Router<Arc<App>> {
        let Self { about, kind } = self;
        // Only methods of the table come here.
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
        .map_err(|rejection| {
            Problem::bad_request(format!("the path cannot be read: {}", rejection.body_text()))
        })?;
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

/// Lets a caller in who has the scope.
pub(crate) fn allow(parts: &Parts, scope: Option<Scope>) -> Result<Option<Caller>, Problem> {
    let caller = parts.extensions.get::<Caller>();
    match scope {
        Some(scope) => permit(caller, scope).map(|caller| Some(caller.clone())),
        None => Ok(caller.cloned()),
    }
}

/// Carries out what a request asks for and makes a response of it, with the status of success.
pub(crate) async fn finish(
    app: Arc<App>,
    parts: Parts,
    caller: Option<Caller>,
    (status, writes): (StatusCode, bool),
    bytes: &[u8],
    work: Work,
) -> Result<Response, Problem> {
    if !writes {
        return Ok(tagged(&parts, status, work.await?));
    }
    let repeatable = repeatable(&parts, caller.as_ref(), bytes)?;
    // A write is carried out to its end, whether or not somebody still waits for the answer.
    let entry = audit::entry(parts.method.as_str(), parts.uri.path(), &parts.extensions);
    // What has to be computed before something is kept still has the request's limits and its deadline.
    let key = caller.as_ref().map(Caller::key).unwrap_or_default();
    let deadline = std::time::Instant::now() + app.limits.request;
    let admission = app.admissions.request(key, Some(deadline));
    let work = admission
        .scope(carry_out(app, work, repeatable, status, entry))
        .in_current_span();
    let task = tokio::spawn(work);
    task.await
        .map_err(|error| Problem::inside(format!("a write ended early: {error}")))?
}

/// Reads a body that is not too large and arrives in time.
pub(crate) async fn read_body(app: &App, body: Body) -> Result<Bytes, Problem> {
    let reading = tokio::time::timeout(app.limits.headers, to_bytes(body, app.limits.body));
    match reading.await {
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let limit = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
                .any(|error| error.to_string().contains("length limit exceeded"));
            Err(if limit {
                Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!("the body has more than {} bytes", app.limits.body),
                )
            } else {
                Problem::bad_request("the body could not be read")
            })
        }
    }
}

/// The write under its key, where it has one.
fn repeatable(parts: &Parts, caller: Option<&Caller>, body: &[u8]) -> Result<Option<Repeatable>, Problem> {
    let Some(key) = parts.headers.get(KEY) else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| Problem::bad_request("an `Idempotency-Key` has 1 to 255 printable letters"))?;
    let who = caller.map_or("", |caller| &caller.who);
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let request = [parts.method.as_str().as_bytes(), target.as_bytes(), body];
    Ok(Some(Repeatable::new(who, key, &request)))
}

/// Carries a write out, keeps its answer for who sends it again, and notes who did it.
async fn carry_out(
    app: Arc<App>,
    work: Work,
    repeatable: Option<Repeatable>,
    status: StatusCode,
    entry: AuditEntry,
) -> Result<Response, Problem> {
    let _writing = app.writing();
    if let Some(write) = &repeatable {
        match app.engine.database().repeated(write).await? {
            Repeated::First => {}
            Repeated::UnderWay => {
                return Err(Problem::new(
                    StatusCode::CONFLICT,
                    "a request with this `Idempotency-Key` is still being carried out",
                )
                .retry_after(1));
            }
            Repeated::OtherRequest => {
                return Err(
                    Problem::unprocessable("this `Idempotency-Key` was used for another request")
                        .hint("take a new key for each request, and the same for each repetition"),
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
    if let Some(write) = &repeatable {
        let kept = match &outcome {
            Ok(text) => {
                let text = String::from_utf8_lossy(text);
                app.engine
                    .database()
                    .keep_answer(write, status.as_u16(), &text)
                    .await
            }
            // Nothing was done; the same key may come again with a better request.
            Err(_) => app.engine.database().forget_attempt(write).await,
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "an answer could not be kept for repetition");
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

/// An answer with its tag, or the word that it has not changed.
fn tagged(parts: &Parts, status: StatusCode, body: Vec<u8>) -> Response {
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
