//! What the measuring programs share: CPU time, memory, seeded text.

pub mod claims;
pub mod measure;
