//! What the measuring programs share: CPU time, seeded text.

pub mod claims;
pub mod measure;
