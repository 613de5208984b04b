//! Benchmarks: asking the systems under test.

pub mod target;
