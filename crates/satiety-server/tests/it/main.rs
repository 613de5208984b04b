//! Tests the server over TCP on loopback, with a separate database for each test.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod annotations;
mod api;
mod attacks;
mod auth;
mod document;
mod fields;
mod idempotency;
mod memory_rules;
mod memory_truth;
mod operation;
mod progress;
mod run_pages;
mod runs;
mod streams;
mod support;
mod tenants;
