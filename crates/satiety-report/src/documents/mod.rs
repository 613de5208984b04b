//! Documents of what the library decides, one file a capability. What an engine adds around it is added by the engine.

pub mod bench;
pub mod eviction;
pub mod research;
