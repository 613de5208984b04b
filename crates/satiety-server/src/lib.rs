//! Surfaces over the engine's use cases: pages and charts now, HTTP, MCP, dashboard and metrics in their time.
//!
//! A surface may use `satiety-engine` and the library's types, never the store or the models, and a test of the command
//! line checks that.

pub mod charts;
pub mod html;
pub mod mcp;
pub mod reports;
