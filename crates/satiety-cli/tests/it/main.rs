//! Runs the real command and checks exit code, stdout and stderr.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

#[cfg(unix)]
mod action;
mod analytics;
mod architecture;
mod bench;
mod bench_examples;
#[cfg(target_os = "linux")]
mod bench_kill;
#[cfg(target_os = "linux")]
mod bench_misbehavior;
mod bench_more;
mod command_line;
mod dashboard;
mod dashboard_seed;
mod deploy;
mod dialogue;
mod documents;
mod eviction;
mod experiment;
mod harness;
mod harness_attacks;
mod harness_lock;
mod harness_measures;
mod harness_phases;
mod harness_support;
#[cfg(unix)]
mod hook;
#[cfg(unix)]
mod import_attacks;
mod json_output;
mod mcp;
mod mcp_http;
mod memory;
mod memory_rules;
mod memory_sharing;
mod memory_truth;
mod progress;
#[cfg(target_os = "linux")]
mod promptfoo;
mod research;
mod result_files;
mod retrieval;
mod retrieval_corpus;
mod retrieval_golden;
mod retrieval_peer;
#[cfg(target_os = "linux")]
mod sandbox;
mod sandbox_attacks;
mod serve;
mod serve_faults;
#[cfg(target_os = "linux")]
mod server_load;
mod store;
mod support;
mod surfaces;
mod tenants;
mod traces;
mod trust;
#[cfg(target_os = "linux")]
mod worker_jobs;
mod worker_limits;
mod workers;
