//! Agent memory: the data model of memories, retrieval and ranking, and learning from feedback.
//!
//! [`SearchMachine`] runs a search from the query to the ranked list with its explanations; the caller embeds
//! the query and reads links and texts. [`MemoryIndex`] is the searched index. This module is independent of
//! stores, models, clocks and protocols.
//!
//! ```
//! use satiety::memory::{Channel, Fusion, Hit, Weights, fuse};
//!
//! let words = [Hit::new("a", 8.0), Hit::new("b", 4.0)];
//! let meaning = [Hit::new("b", 0.9), Hit::new("c", 0.6)];
//! let weights = Weights { lexical: 0.5, vector: 0.5, trigger: 0.2, graph: 0.1 };
//! let fused = fuse(&[(Channel::Lexical, &words), (Channel::Vector, &meaning)], weights, Fusion::Score);
//! assert_eq!(fused[0].id, "b"); // (0.5 * 4/8 + 0.5 * 0.9) / 1.0
//! assert_eq!(fused[0].channels[&Channel::Vector].rank, 1);
//! ```

mod attribution;
mod chunk;
mod cpu;
mod dates;
mod duplicates;
mod feedback;
mod fusion;
pub(crate) mod image;
mod import;
mod index;
mod intent;
mod lexical;
mod markdown;
mod mode;
mod model;
mod pipeline;
mod pool;
mod project;
mod provenance;
mod query;
mod rank;
mod relevance;
mod search;
mod session;
pub(crate) mod shared;
mod task;
mod telemetry;
mod trigger;
mod turns;
mod vectors;

pub use crate::text::{LexicalIndex, Question, Term};
pub use attribution::{
    Attribution, AttributionRule, AttributionSettings, Credit, PastQuery, UsedMemory, attribute,
    attribution_settings, reattribute, repeated_query,
};
pub use chunk::{Chunk, ChunkSettings, chunk};
pub use dates::resolved_dates;
pub use duplicates::{
    DuplicateKind, DuplicateSettings, MemoryText, OnDuplicate, Resemblance, compare_memories,
    duplicate_settings, merged_content, suggested_link,
};
pub use feedback::{
    Confidence, FeedbackKind, Validation, learn_from_selection, references, scroll_past, unlearn, validate,
};
pub use fusion::{Channel, ChannelRank, FusedHit, Fusion, Hit, Weights, fuse};
pub use image::ImageError;
#[cfg(feature = "imports")]
pub use import::csv_records;
pub use import::{ImportFormat, ImportRecord, JsonRecord, JsonRecords, import_records};
pub use index::{IndexedChunk, IndexedMemory, MemoryIndex, TriggerMatch};
pub(crate) use intent::wants_depth;
pub use intent::{Classified, Intent, classify, weights};
pub use lexical::{LexicalSettings, TEXT_ANALYSIS_VERSION};
pub use markdown::{MarkdownError, read_markdown};
pub(crate) use mode::choose_mode;
pub use mode::{Mode, ModeChoice, ModeSettings, Pressure, PressureSettings, estimate_tokens};
pub use model::{Draft, DraftError, Link, LinkKind, content_hash, in_folder, parse_tier};
pub use pipeline::{
    ChannelSwitches, CurrencySettings, IntentWeights, LanguageSettings, LinkSettings, ModeTable,
    OutdatedRule, Pipeline, PipelineError, RerankSettings, SessionSettings, ValidPipeline,
};
pub use project::{Author, NeedsPerson, Project, ProjectError, Scope, indexed_tier, may_write};
pub use provenance::{MemoryFilter, Provenance, TimePoint, Validity};
pub use query::{QueryTerms, query_terms, truncate_query};
pub(crate) use rank::session_attention;
pub use rank::{
    Candidate, ConfidenceFactors, Diversity, RankSettings, RankedCandidate, Ranking, TierFactors, rank,
};
pub use relevance::{Calibration, RelevanceSettings, SearchOutcome};
pub use search::{
    Action, ExcludedResult, MemoryResult, MemorySearch, Observation, SearchMachine, SearchQuery,
    SearchTelemetry, SessionHistory, WeakResult,
};
pub use session::{
    LoggedEvent, LoggedQuery, SessionEvalSummary, SessionMetrics, SessionQuery, TaskOutcome, ValidatedId,
    session_summary,
};
pub use task::{Outcome, TaskDeltas, TaskScores, task_deltas};
pub(crate) use telemetry::quality_proxy;
pub use telemetry::{Stage, StageTrace};
pub use trigger::TriggerIndex;
pub use turns::{TurnSettings, speaker};
pub(crate) use vectors::decode_vector;
pub use vectors::{VectorIndex, encode_vector, read_vector};
