//! satiety

pub mod text;
