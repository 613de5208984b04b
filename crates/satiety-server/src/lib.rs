//! Server surfaces on the engine's use cases: dashboard, HTTP API with OpenAPI document, MCP, metrics.
//!
//! A surface may use `satiety-engine` and the library's types, never the store or the models; a test in
//! `satiety-cli` enforces this.

pub mod auth;
pub mod dashboard;
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod metrics;
pub mod openapi;
#[cfg_attr(not(feature = "otel"), path = "traces_stub.rs")]
pub mod traces;
