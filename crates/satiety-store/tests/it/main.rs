//! The contract of the store, on both engines, and its behavior on faults.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a panic fails the test"
)]

mod browse;
mod conformance;
mod durability;
mod eviction;
mod experiment;
mod faults;
mod fleet;
mod golden;
mod harness;
mod hook_sessions;
mod memory;
mod migrations;
mod partitions;
mod pooler;
mod rates;
mod restore;
mod retention;
mod server;
mod sharing;
mod support;
mod tenants;
mod transfer;
mod work;
