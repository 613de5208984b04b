//! Shared code of the benchmark programs: CPU time, seeded text, conversations of all kinds, machine-readable results.

pub mod claims;
pub mod conversations;
pub mod growth;
pub mod measure;
pub mod rows;
pub mod server;
