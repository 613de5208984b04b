//! satiety
