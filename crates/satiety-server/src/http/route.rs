//! Routes as values. A route says once what it takes, what it gives and who may ask, by the types of its handler; the router
//! and the OpenAPI document are both made from that, so neither can say what the other does not.
//!
//! Everything that all routes do alike is here: permission, reading, answers that may be asked for again (`Idempotency-Key`),
//! entity tags, the audit log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use satiety_engine::serving::{Repeatable, Repeated};
use satiety_engine::tokens::AuditEntry;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::app::App;
use super::body::FromBody;
use super::capacity;
use super::operations::{Binding, Bound};
use super::problem::Problem;
use crate::auth::{Caller, Scope, audit, permit};

/// The header that makes a write repeatable.
const KEY: &str = "idempotency-key";

/// A route: what it is, what it takes and gives, and what it does.
pub(crate) struct Route {
    /// What it is.
    pub(crate) about: About,
    /// What it takes and gives.
    pub(crate) shape: Shape,
    /// The operation that it is bound to; its request is what the route takes.
    pub(crate) bound: Option<Arc<Bound>>,
    router: MethodRouter<Arc<App>>,
}

/// What answers a request: the response as JSON.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, Problem>> + Send>>;

/// What a route is.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// The method.
    pub(crate) method: Method,
    /// The path, with its parameters in braces.
    pub(crate) path: &'static str,
    /// Its name in the document.
    pub(crate) id: &'static str,
    /// What it does, in a line.
    pub(crate) summary: &'static str,
    /// Who may ask; nobody need say who they are where it is absent.
    pub(crate) scope: Option<Scope>,
    /// The status when all went well.
    pub(crate) status: u16,
    /// Whether it keeps something: it can be repeated by key, and is in the audit log.
    pub(crate) writes: bool,
    /// Whether its answer is a stream of events, of which a caller may have only so many.
    pub(crate) is_stream: bool,
}

/// What a route takes and gives, each as a function that makes its schema.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) path: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) query: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) body: fn(&mut SchemaGenerator) -> Option<Schema>,
    pub(crate) answer: Answer,
}

/// What a route gives.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// JSON of this schema.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Something of this type.
    Other(&'static str),
}

/// A request that was read.
pub(crate) struct Call<P, Q, B> {
    pub(crate) app: Arc<App>,
    pub(crate) path: P,
    pub(crate) query: Q,
    pub(crate) body: B,
}

/// No parameters.
#[derive(Debug, Clone, Copy, serde::Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// Looks at something.
pub(crate) fn get<P, Q, T, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    P: Parameters,
    Q: Parameters,
    T: Serialize + JsonSchema + Send + 'static,
    F: Fn(Call<P, Q, super::body::NoBody>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let about = About {
        method: Method::GET,
        path,
        id,
        summary,
        scope: Some(Scope::Read),
        status: 200,
        writes: false,
        is_stream: false,
    };
    Route::new(about, handler)
}

/// Has something worked out that nobody keeps.
pub(crate) fn ask<P, Q, B, T, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    P: Parameters,
    Q: Parameters,
    B: FromBody + 'static,
    T: Serialize + JsonSchema + Send + 'static,
    F: Fn(Call<P, Q, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let about = About {
        method: Method::POST,
        path,
        id,
        summary,
        scope: Some(Scope::Read),
        status: 200,
        writes: false,
        is_stream: false,
    };
    Route::new(about, handler)
}

/// Changes something.
pub(crate) fn change<P, Q, B, T, F, Fut>(
    method: Method,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    P: Parameters,
    Q: Parameters,
    B: FromBody + 'static,
    T: Serialize + JsonSchema + Send + 'static,
    F: Fn(Call<P, Q, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let about = About {
        method,
        path,
        id,
        summary,
        scope: Some(Scope::Write),
        status: 200,
        writes: true,
        is_stream: false,
    };
    Route::new(about, handler)
}

/// Something that is no JSON: a page, a stream, figures.
pub(crate) fn raw<P, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    content_type: &'static str,
    handler: F,
) -> Route
where
    P: Parameters,
    F: Fn(Arc<App>, P, HeaderMap) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    let about = About {
        method: Method::GET,
        path,
        id,
        summary,
        scope: Some(Scope::Read),
        status: 200,
        writes: false,
        is_stream: content_type == "text/event-stream",
    };
    Route {
        shape: Shape {
            path: P::schema(),
            query: None,
            body: |_| None,
            answer: Answer::Other(content_type),
        },
        bound: None,
        router: raw_router(&about, handler),
        about,
    }
}

impl Route {
    fn new<P, Q, B, T, F, Fut>(about: About, handler: F) -> Self
    where
        P: Parameters,
        Q: Parameters,
        B: FromBody + 'static,
        T: Serialize + JsonSchema + Send + 'static,
        F: Fn(Call<P, Q, B>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        Self {
            shape: Shape {
                path: P::schema(),
                query: Q::schema(),
                body: B::schema,
                answer: Answer::Json(SchemaGenerator::subschema_for::<T>),
            },
            bound: None,
            router: router(about.clone(), handler),
            about,
        }
    }

    /// The route of an operation; none where the table has no such operation.
    pub(crate) fn of_operation(binding: Binding) -> Option<Self> {
        let bound = Arc::new(Bound::new(binding)?);
        let about = bound.about();
        let answering = bound.clone();
        let handler = move |State(app): State<Arc<App>>, request: Request| {
            let bound = answering.clone();
            let answer = async move {
                let answer = bound.answer(app, request).await;
                answer.unwrap_or_else(IntoResponse::into_response)
            };
            Box::pin(answer) as Pin<Box<dyn Future<Output = Response> + Send>>
        };
        Some(Self {
            shape: Shape {
                path: None,
                query: None,
                body: |_| None,
                answer: Answer::Json(bound.operation.response.reference),
            },
            router: on(filter(&about.method), handler),
            bound: Some(bound),
            about,
        })
    }

    /// Only for this scope.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.about.scope = Some(scope);
        let scope = self.about.scope;
        self.router = self.router.layer(axum::Extension(Needs(scope)));
        self
    }

    /// For everybody.
    pub(crate) fn public(mut self) -> Self {
        self.about.scope = None;
        self.router = self.router.layer(axum::Extension(Needs(None)));
        self
    }

    /// With this status when all went well.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.about.status = status;
        self.router = self.router.layer(axum::Extension(Gives(status)));
        self
    }

    /// Adds it to a router.
    pub(crate) fn add_to(self, router: Router<Arc<App>>) -> Router<Arc<App>> {
        router.route(self.about.path, self.router)
    }
}

/// The scope that a route needs, where it is not the usual one.
#[derive(Debug, Clone, Copy)]
struct Needs(Option<Scope>);

/// The status that a route gives, where it is not the usual one.
#[derive(Debug, Clone, Copy)]
struct Gives(u16);

/// Parameters of a path or a query.
pub(crate) trait Parameters: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its schema; none where there are none.
    fn schema() -> Option<fn(&mut SchemaGenerator) -> Schema> {
        Some(|generator| Self::json_schema(generator))
    }
}

impl Parameters for Nothing {
    fn schema() -> Option<fn(&mut SchemaGenerator) -> Schema> {
        None
    }
}

fn filter(method: &Method) -> MethodFilter {
    // Only methods of the table below come here.
    MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET)
}

fn router<P, Q, B, T, F, Fut>(about: About, handler: F) -> MethodRouter<Arc<App>>
where
    P: Parameters,
    Q: Parameters,
    B: FromBody + 'static,
    T: Serialize + Send + 'static,
    F: Fn(Call<P, Q, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let method = filter(&about.method);
    let about = Arc::new(about);
    on(method, move |State(app): State<Arc<App>>, request: Request| {
        let (about, handler) = (about.clone(), handler.clone());
        async move {
            match answer(app, &about, request, handler).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        }
    })
}

fn raw_router<P, F, Fut>(about: &About, handler: F) -> MethodRouter<Arc<App>>
where
    P: Parameters,
    F: Fn(Arc<App>, P, HeaderMap) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    let (method, scope) = (filter(&about.method), about.scope);
    let (is_stream, id) = (about.is_stream, about.id);
    on(method, move |State(app): State<Arc<App>>, request: Request| {
        let handler = handler.clone();
        async move {
            let (mut parts, _) = request.into_parts();
            let work = async {
                let caller = allow(&parts, scope)?;
                let path = path(&mut parts).await?;
                app.schemas.check_parameters(id, &mut parts).await?;
                if !is_stream {
                    return handler(app, path, parts.headers).await;
                }
                let key = caller.map_or_else(String::new, |caller| caller.key());
                let permit = app.streams.admit(&key)?;
                Ok(capacity::hold(handler(app, path, parts.headers).await?, permit))
            };
            work.await.unwrap_or_else(IntoResponse::into_response)
        }
    })
}

/// Lets in who may come in.
pub(crate) fn allow(parts: &Parts, usual: Option<Scope>) -> Result<Option<Caller>, Problem> {
    let needed = parts.extensions.get::<Needs>().map_or(usual, |needs| needs.0);
    let caller = parts.extensions.get::<Caller>();
    match needed {
        Some(scope) => permit(caller, scope).map(|caller| Some(caller.clone())),
        None => Ok(caller.cloned()),
    }
}

async fn path<P: Parameters>(parts: &mut Parts) -> Result<P, Problem> {
    let Path(path) = Path::<P>::from_request_parts(parts, &())
        .await
        .map_err(|rejection| {
            Problem::bad_request(format!("the path cannot be read: {}", rejection.body_text()))
        })?;
    Ok(path)
}

async fn answer<P, Q, B, T, F, Fut>(
    app: Arc<App>,
    about: &About,
    request: Request,
    handler: F,
) -> Result<Response, Problem>
where
    P: Parameters,
    Q: Parameters,
    B: FromBody + 'static,
    T: Serialize + Send + 'static,
    F: Fn(Call<P, Q, B>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let (mut parts, body) = request.into_parts();
    let caller = allow(&parts, about.scope)?;
    let status = parts
        .extensions
        .get::<Gives>()
        .map_or(about.status, |gives| gives.0);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let path = path::<P>(&mut parts).await?;
    let Query(query) = Query::<Q>::try_from_uri(&parts.uri).map_err(|rejection| {
        Problem::bad_request(format!("the query cannot be read: {}", rejection.body_text()))
    })?;
    app.schemas.check_parameters(about.id, &mut parts).await?;
    let bytes = read_body(&app, body).await?;
    let body = B::read(&parts.headers, &bytes)?;
    app.schemas.check_body(about.id, &bytes)?;
    let call = Call {
        app: app.clone(),
        path,
        query,
        body,
    };
    let work = handler(call);
    let work = Box::pin(async move { written(work.await?) });
    finish(app, parts, caller, (status, about.writes), &bytes, work).await
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
        match app.engine.repeated(write).await? {
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
                app.engine.keep_answer(write, status.as_u16(), &text).await
            }
            // Nothing was done; the same key may come again with a better request.
            Err(_) => app.engine.forget_attempt(write).await,
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

fn written(value: impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(&value).map_err(|error| Problem::inside(format!("cannot write JSON: {error}")))
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
