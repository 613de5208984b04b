//! Surfaces over the engine's use cases: the dashboard, the HTTP API with its OpenAPI document, metrics.
//!
//! A surface may use `satiety-engine` and the library's types, never the store or the models, and a test of the command
//! line checks that.

pub mod auth;
pub mod dashboard;
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod metrics;
pub mod openapi;
#[cfg_attr(not(feature = "otel"), path = "traces_disabled.rs")]
pub mod traces;
