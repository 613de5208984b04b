//! The place of HTTP, MCP, dashboard and metrics: surfaces over the engine's use cases.
//!
//! Nothing is served yet. The crate stands here so that the border does: a surface may use `satiety-engine` and the
//! library's types, never the store or the models, and a test of the command line checks that.
