//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
mod builtin;
mod catalogue;
mod chat;
mod http;
mod model_directory;
mod reference;
