//! Is the conversation still producing anything, and what to do about it?

pub mod input;
pub mod wire;
