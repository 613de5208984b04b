//! What those need who run the server: health, readiness, figures, the document, the audit log.

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use satiety_engine::tokens::AuditLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::Scope;
use crate::http::app::App;
use crate::http::body::NoBody;
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, get, raw};
use crate::{metrics, openapi};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/healthz", "live", "Whether the server lives", live).public(),
        get(
            "/readyz",
            "ready",
            "Whether it can work: the store answers, and it is not about to end",
            ready,
        )
        .public(),
        get(
            "/v1/health",
            "health",
            "The server, its store and its models",
            health,
        ),
        get(
            "/v1/audit",
            "audit_log",
            "Writes that were made through servers, the latest first",
            audit,
        )
        .scope(Scope::Admin),
        raw(
            "/metrics",
            "metrics",
            "Figures for Prometheus",
            "application/openmetrics-text",
            figures,
        ),
        raw(
            "/openapi.json",
            "openapi",
            "This document",
            "application/json",
            document,
        ),
        raw("/docs", "docs", "This document as a page", "text/html", docs),
        raw(
            "/docs/style.css",
            "docs_style",
            "How the page looks",
            "text/css",
            style,
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

async fn live(_: Call<Nothing, Nothing, NoBody>) -> Result<Word, Problem> {
    Ok(Word { status: "ok" })
}

async fn ready(call: Call<Nothing, Nothing, NoBody>) -> Result<Word, Problem> {
    if call.app.is_ending() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is about to end",
        ));
    }
    call.app.engine.ping().await.map_err(|error| {
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

async fn health(call: Call<Nothing, Nothing, NoBody>) -> Result<Health, Problem> {
    call.app.engine.ping().await?;
    let settings = call.app.engine.settings();
    let (jobs_waiting, jobs_running) = call.app.jobs.depth();
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
pub(crate) struct HowMany {
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Parameters for HowMany {}

async fn audit(call: Call<Nothing, HowMany, NoBody>) -> Result<AuditLog, Problem> {
    Ok(call.app.engine.audit_log(super::limit(call.query.limit)?).await?)
}

async fn figures(app: Arc<App>, _: Nothing, _: axum::http::HeaderMap) -> Result<Response, Problem> {
    metrics::gather(&app).await;
    let kind = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(metrics::CONTENT_TYPE),
    )];
    Ok((kind, app.metrics.text()).into_response())
}

async fn document(app: Arc<App>, _: Nothing, _: axum::http::HeaderMap) -> Result<Response, Problem> {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((kind, app.document.clone()).into_response())
}

async fn docs(_: Arc<App>, _: Nothing, _: axum::http::HeaderMap) -> Result<Response, Problem> {
    Ok(Html(openapi::page(&openapi::document())).into_response())
}

async fn style(_: Arc<App>, _: Nothing, _: axum::http::HeaderMap) -> Result<Response, Problem> {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/css; charset=utf-8"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600")),
    ];
    Ok((headers, openapi::style()).into_response())
}
