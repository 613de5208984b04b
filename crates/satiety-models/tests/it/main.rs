//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "inside tests a panic is the message")]
mod builtin;
mod catalogue;
mod chat;
mod http;
mod model_directory;
mod reference;
