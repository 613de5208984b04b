//! What stands in for MCP targets in a build without the cargo feature `mcp`.

use satiety::bench::contract::Request;
use satiety::bench::contract::spec::McpSpec;

use super::{Attempt, OpenError, TargetContext};

/// Never exists in this build.
#[derive(Debug)]
pub enum Mcp {}

impl Mcp {
    pub(super) fn open(_spec: &McpSpec, _surroundings: &TargetContext) -> Result<Self, OpenError> {
        Err(OpenError::description("type", crate::left_out("MCP", "mcp")))
    }

    #[expect(clippy::unused_async, reason = "the other targets' calls wait")]
    pub(super) async fn call(&self, _request: &Request) -> Attempt {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the other targets' ends wait")]
    pub(super) async fn close(&self) {
        match *self {}
    }
}
