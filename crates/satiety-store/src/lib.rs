//! satiety-store
