//! Benchmarks: asking the systems under test.

pub mod ask;
pub mod cache;
pub mod limits;
pub mod sandbox;
pub mod target;
