//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
mod database;
mod database_export;
mod eviction;
mod experiment;
mod extraction;
mod harness;
mod llm_judge;
mod memory;
mod memory_golden;
mod memory_scale;
mod memory_story;
mod memory_truth;
mod remote_targets;
mod research_fetch;
mod research_loop;
mod research_sources;
mod targets;
