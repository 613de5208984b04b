//! Satiety's decisions: is the next unit still worth it?
//!
//! Every capability answers that question about a different resource: a round of a conversation, a search, a chunk
//! of context, a feature, a change, a benchmark. This crate holds the answers and nothing else: values in, verdict
//! with its reasons out. It does no I/O, reads no clock, draws no hidden chance (a lint fence in `clippy.toml`
//! checks that), so every answer can be replayed.

pub mod admission;
pub mod bench;
pub mod cancel;
pub mod dialogue;
pub mod eviction;
pub mod experiment;
pub mod explanation;
pub mod harness;
pub mod ids;
pub mod memory;
pub mod research;
pub mod retrieval;
pub mod stats;
pub mod text;
