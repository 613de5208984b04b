//! What the measuring programs share: CPU time, seeded text, conversations.

pub mod claims;
pub mod conversations;
pub mod measure;
