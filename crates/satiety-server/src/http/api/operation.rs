//! What those need who run the server: health, readiness, figures, the document, the audit log.

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use satiety_engine::operations::{Effect, NoFields, Operation};
use satiety_engine::tokens::AuditLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::operations::operation;
use crate::http::problem::Problem;
use crate::http::route::{Route, raw};
use crate::{metrics, openapi};

pub(super) fn operations() -> Vec<Operation> {
    let read = (Scope::Read, Effect::Read);
    vec![
        operation("live", "Liveness: the server answers", read, live),
        operation(
            "ready",
            "Readiness: database reachable and not shutting down",
            read,
            ready,
        ),
        operation("health", "Get the server, its store and its models", read, health),
        operation(
            "audit_log",
            "List writes that were made through servers, the latest first",
            (Scope::Admin, Effect::Read),
            audit,
        ),
    ]
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        raw(
            "/metrics",
            "metrics",
            "Figures for Prometheus",
            "application/openmetrics-text",
            |app, _, _| Box::pin(figures(app)),
        ),
        raw(
            "/openapi.json",
            "openapi",
            "This document",
            "application/json",
            |app, _, _| Box::pin(async move { Ok(document(&app)) }),
        ),
        raw(
            "/docs",
            "docs",
            "This document as a page",
            "text/html",
            |_, _, _| Box::pin(async { Ok(Html(openapi::page(&openapi::document())).into_response()) }),
        ),
        raw(
            "/docs/style.css",
            "docs_style",
            "How the page looks",
            "text/css",
            |_, _, _| Box::pin(async { Ok(style()) }),
        )
        .public(),
    ]
}

/// A word.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Word {
    /// `ok`.
    status: &'static str,
}

async fn live(_: Arc<App>, _: NoFields) -> Result<Word, Problem> {
    Ok(Word { status: "ok" })
}

async fn ready(app: Arc<App>, _: NoFields) -> Result<Word, Problem> {
    if app.is_ending() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is about to end",
        ));
    }
    app.engine.database().ping().await.map_err(|error| {
        let mut problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer").retry_after(1);
        problem.inside = Some(Box::new(error.to_string()));
        problem
    })?;
    Ok(Word { status: "ok" })
}

/// The server, its store and its models.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// The program's version.
    version: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
    /// The sentence model of the settings.
    embedder: String,
    /// The chat model of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<String>,
    /// Jobs that run.
    jobs_running: usize,
    /// Jobs that wait.
    jobs_waiting: usize,
}

async fn health(app: Arc<App>, _: NoFields) -> Result<Health, Problem> {
    app.engine.database().ping().await?;
    let settings = app.engine.settings();
    let (jobs_waiting, jobs_running) = app.jobs.depth();
    // What follows `@` is an address inside of somebody's network.
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

/// How far back.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multiplicity {
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

async fn audit(app: Arc<App>, request: Multiplicity) -> Result<AuditLog, Problem> {
    Ok(app.engine.tokens().audit_log(request.limit.unwrap_or(50)).await?)
}

async fn figures(app: Arc<App>) -> Result<Response, Problem> {
    metrics::gather(&app).await;
    let kind = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(metrics::CONTENT_TYPE),
    )];
    Ok((kind, app.metrics.text()).into_response())
}

fn document(app: &App) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (kind, app.document.clone()).into_response()
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
