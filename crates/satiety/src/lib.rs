//! satiety

pub mod dialogue;
