//! The store's contract, on both engines, and what it does when things break.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "in a test, a panic is the message"
)]

mod conformance;
mod durability;
mod eviction;
mod experiment;
mod faults;
mod golden;
mod harness;
mod memory;
mod migrations;
mod retention;
mod server;
mod sharing;
mod support;
mod transfer;
mod work;
