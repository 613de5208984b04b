//! Surfaces over the engine's use cases: pages and charts, the HTTP API with its OpenAPI document, metrics.
//!
//! A surface may use `satiety-engine` and the library's types, never the store or the models, and a test of the command
//! line checks that.

pub mod auth;
pub mod charts;
pub mod dashboard;
pub mod html;
pub mod http;
pub mod mcp;
pub mod metrics;
pub mod openapi;
pub mod reports;
pub mod series;
#[cfg_attr(not(feature = "otel"), path = "traces_left_out.rs")]
pub mod traces;
