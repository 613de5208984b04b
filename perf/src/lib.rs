//! Shared code of the benchmark programs: CPU time, seeded text, conversations.

pub mod claims;
pub mod conversations;
pub mod measure;
