//! The server as others meet it: over TCP on loopback, with a store of its own for each test.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod api;
mod attacks;
mod auth;
mod document;
mod fields;
mod idempotency;
mod memory_rules;
mod operation;
mod runs;
mod streams;
mod support;
