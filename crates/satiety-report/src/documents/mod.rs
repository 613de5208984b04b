//! Documents for the library's results, one file per capability. The engine adds its own blocks around them.

pub mod bench;
pub mod eviction;
pub mod progress;
pub mod research;
