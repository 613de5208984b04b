//! Routes for operators: health, readiness, metrics, OpenAPI document, audit log.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use satiety_engine::EngineError;
use satiety_engine::doctor::Examination;
use satiety_engine::operations::{Effect, NoFields, Operation};
use satiety_engine::tokens::AuditLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::operations::operation;
use crate::http::problem::Problem;
use crate::http::route::{Route, raw};
use crate::metrics::TextFormat;
use crate::{metrics, openapi};

pub(super) fn operations() -> Vec<Operation> {
    let read = (Scope::Read, Effect::Read);
    vec![
        operation("live", "Liveness: the process is responding", read, live),
        operation(
            "ready",
            "Readiness: database reachable and not shutting down",
            read,
            ready,
        ),
        operation(
            "health",
            "Get the version, store, models and job counts of the server",
            read,
            health,
        ),
        operation(
            "audit_log",
            "List the audit log of writes through servers, newest first",
            (Scope::Admin, Effect::Read),
            audit,
        ),
        operation(
            "fleet",
            "Check the database and all processes on it: schema, clocks, leases, replicas, partitions",
            (Scope::Admin, Effect::Read),
            fleet,
        ),
    ]
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        raw(
            "/metrics",
            "metrics",
            "Get metrics as Prometheus text, or as OpenMetrics with exemplars if `Accept` asks for it",
            "text/plain",
            |app, _, headers| Box::pin(async move { scrape(app, &headers).await }),
        ),
        raw(
            "/metrics/tenants",
            "tenant_metrics",
            "Get today's usage of the tenants in the Prometheus text format",
            "application/openmetrics-text",
            |app, _, _| Box::pin(scrape_tenants(app)),
        )
        .admin(),
        raw(
            "/openapi.json",
            "openapi",
            "Get the OpenAPI document as JSON",
            "application/json",
            |app, _, _| Box::pin(async move { Ok(document(&app)) }),
        ),
        raw(
            "/docs",
            "docs",
            "Show the API documentation as a page",
            "text/html",
            |_, _, _| Box::pin(async { Ok(Html(openapi::page(&openapi::document())).into_response()) }),
        ),
        raw(
            "/docs/style.css",
            "docs_style",
            "Get the style sheet of the documentation",
            "text/css",
            |_, _, _| Box::pin(async { Ok(style()) }),
        )
        .public(),
    ]
}

/// Status of a health probe.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Word {
    /// Always `ok`; failures are problems.
    status: &'static str,
}

async fn live(_: Arc<App>, _: NoFields) -> Result<Word, Problem> {
    Ok(Word { status: "ok" })
}

async fn ready(app: Arc<App>, _: NoFields) -> Result<Word, Problem> {
    if app.is_shutting_down() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down",
        ));
    }
    app.engine.database().ping().await.map_err(|error| {
        let mut problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the store is unavailable").retry_after(1);
        problem.internal = Some(Box::new(error.to_string()));
        problem
    })?;
    Ok(Word { status: "ok" })
}

/// Health of the server, its store and its models.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`; failures are problems.
    status: &'static str,
    /// Version of the satiety program.
    version: &'static str,
    /// Database engine: `sqlite` or `postgres`.
    store: &'static str,
    /// Configured sentence model, without its URL.
    embedder: String,
    /// Configured chat model, without its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<String>,
    /// Number of jobs that are running.
    jobs_running: usize,
    /// Number of jobs that are queued.
    jobs_waiting: usize,
}

async fn health(app: Arc<App>, _: NoFields) -> Result<Health, Problem> {
    app.engine.database().ping().await?;
    let settings = app.engine.settings();
    let (jobs_waiting, jobs_running) = app.jobs.depth();
    // The part after `@` is a possibly internal address.
    let model = |spec: &str| spec.split('@').next().unwrap_or_default().to_owned();
    Ok(Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        store: settings.store.engine(),
        embedder: match settings.embedder.split_once(':') {
            Some(("dir", _)) => "dir".into(),
            _ => model(&settings.embedder),
        },
        chat: settings.chat.as_deref().map(model),
        jobs_running,
        jobs_waiting,
    })
}

/// Limit of a list request.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multiplicity {
    /// Maximum number of entries; default 50.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

async fn audit(app: Arc<App>, request: Multiplicity) -> Result<AuditLog, Problem> {
    Ok(app.engine.tokens().audit_log(request.limit.unwrap_or(50)).await?)
}

async fn fleet(app: Arc<App>, _: NoFields) -> Result<Examination, Problem> {
    // It shows the location of the database, its replicas and its other clients.
    if app.engine.tenant_name().is_some() {
        return Err(Problem::from(EngineError::OnlyMain {
            what: "check the fleet",
        }));
    }
    Ok(app.engine.database().examine_fleet().await)
}

async fn scrape(app: Arc<App>, headers: &HeaderMap) -> Result<Response, Problem> {
    metrics::refresh(&app).await;
    let format = TextFormat::accepted(headers);
    let kind = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        ),
        (header::VARY, HeaderValue::from_static("Accept")),
    ];
    Ok((kind, format.write(&app.metrics)).into_response())
}

async fn scrape_tenants(app: Arc<App>) -> Result<Response, Problem> {
    let text = metrics::tenants_text(&app.engine.tenants().list().await?.tenants);
    let kind = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(TextFormat::OpenMetrics.content_type()),
    )];
    Ok((kind, text).into_response())
}

fn document(app: &App) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (kind, app.document.to_string()).into_response()
}

fn style() -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/css; charset=utf-8"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600")),
    ];
    (headers, openapi::style()).into_response()
}
