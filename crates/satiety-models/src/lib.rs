//! satiety-models
