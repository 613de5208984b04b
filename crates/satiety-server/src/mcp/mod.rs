//! Model Context Protocol server: use cases as tools, reports as resources, and two prompts.
//!
//! There is one [`Registry`] of tools, a value; stdio and streamable HTTP serve the same one. Only this
//! directory knows the protocol's SDK. Tools call one use case each and decide nothing.

mod call;
mod handler;
mod prompts;
mod registry;
mod resources;
mod schema;
mod tools;
mod transport;

pub use call::{CallLimits, Context, Reach};
pub use handler::Handler;
pub use registry::{Cost, Profile, Registry, RegistryError, Tool, ToolCost};
pub use transport::{HttpService, ServeError, http_service, serve_stdio};
