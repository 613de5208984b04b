//! satiety

pub mod stats;
