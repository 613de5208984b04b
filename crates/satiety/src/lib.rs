//! satiety

pub mod dialogue;
pub mod stats;
pub mod text;
