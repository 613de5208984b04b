//! satiety

pub mod dialogue;
pub mod explanation;
pub mod stats;
pub mod text;
