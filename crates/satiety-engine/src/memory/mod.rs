//! An agent's memory: save, change, search, learn. The index is an immutable snapshot that follows the store, whoever
//! writes there; what is found, and why, is decided by the library.

mod error;
mod feedback;
mod index;
mod indexing;
mod keeping;
mod logging;
mod reading;
mod scope;
mod searching;
mod sessions;
mod tasks;

pub use error::MemoryError;
pub use feedback::{LinkRequest, Linked, ValidateRequest, Validated};
pub(crate) use index::Cache;
pub use indexing::{IndexRequest, Indexed, RefusedFile};
pub use keeping::{
    DeleteRequest, Deleted, GetRequest, ListRequest, Listed, Memories, Memory, MemoryHealth, MemoryPage,
    SaveRequest, Saved, UpdateRequest,
};
pub use reading::{MatchRequest, MemoryLink, ReadMemory, ReadRequest};
pub use satiety::memory::{Held, MemoryResult, MemorySearch, SearchTelemetry, TriggerMatch};
pub use scope::MemorySettings;
pub use searching::{MatchedTriggers, SearchRequest};
pub use sessions::{ListedSession, ListedTask, Sessions, TaskFigures};
pub use tasks::{Lesson, Postflight, PostflightRequest, Preflight, PreflightRequest};
