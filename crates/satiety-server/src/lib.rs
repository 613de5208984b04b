//! satiety-server
