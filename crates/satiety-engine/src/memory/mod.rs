//! An agent's memory: save, change, search, learn. The index is an immutable snapshot that follows the
//! database, including changes of other processes; the library decides what is found, and why.

mod attribution;
mod directory_index;
mod duplicates;
mod embedding;
mod error;
mod feedback;
mod import;
mod index;
mod index_file;
mod memories;
mod query_log;
mod read;
mod scope;
mod search;
mod sessions;
mod tasks;

pub(crate) use attribution::{attributed_probability, past_query};
pub use directory_index::{IndexRequest, IndexResponse, RefusedFile};
pub use duplicates::{ConflictingMemory, DuplicateMemory, SaveAction};
pub(crate) use embedding::embedded_text;
pub use embedding::{EmbedResponse, EmbeddingProgress};
pub use error::MemoryError;
pub use feedback::{LinkRequest, LinkResponse, ValidateRequest, ValidateResponse};
pub use import::{
    ImportProgress, ImportRecordsRequest, ImportRequest, ImportSource, ImportedMemories, RefusedRecord,
};
pub(crate) use index::Cache;
pub use index::IndexActivity;
pub(crate) use index_file::{cache_path, write_private_file};
pub use memories::{
    DeleteRequest, DeleteResponse, GetRequest, ListRequest, ListResponse, Memories, Memory, MemoryHealth,
    MemoryPage, SaveRequest, SaveResponse, UpdateRequest,
};
pub use read::{MatchRequest, MemoryLink, ReadMemory, ReadRequest};
pub use satiety::memory::{
    ExcludedResult, MemoryResult, MemorySearch, SearchOutcome, SearchTelemetry, TriggerMatch, WeakResult,
};
pub use scope::MemorySettings;
pub(crate) use search::link_of;
pub use search::{MatchedTriggers, SearchRequest};
pub use sessions::{SessionSummary, Sessions, TaskMetrics, TaskSummary};
pub use tasks::{Lesson, Postflight, PostflightRequest, Preflight, PreflightRequest};
