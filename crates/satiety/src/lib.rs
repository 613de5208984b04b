//! satiety

pub mod dialogue;
pub mod stats;
