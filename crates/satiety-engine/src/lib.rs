//! satiety-engine
