//! Placeholder for MCP targets in a build without the cargo feature `mcp`.

use satiety::bench::contract::Request;
use satiety::bench::contract::spec::McpSpec;

use super::{Attempt, OpenError, TargetContext};

/// Uninhabited in this build.
#[derive(Debug)]
pub enum Mcp {}

impl Mcp {
    pub(super) fn open(_spec: &McpSpec, _surroundings: &TargetContext) -> Result<Self, OpenError> {
        Err(OpenError::description(
            "type",
            crate::feature_disabled("MCP", "mcp"),
        ))
    }

    #[expect(clippy::unused_async, reason = "same signature as the other targets")]
    pub(super) async fn call(&self, _request: &Request) -> Attempt {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "same signature as the other targets")]
    pub(super) async fn close(&self) {
        match *self {}
    }
}
