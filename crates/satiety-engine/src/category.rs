//! Error categories: each determines the HTTP status, the exit code, the title, and whether a retry can help.

use satiety::eviction::EvictionError;
use satiety::harness::{ExpansionError, ProposalError};
use satiety::retrieval::RetrievalError;
use satiety_models::EmbedError;
use satiety_models::chat::ChatError;
use satiety_store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::bench::target::OpenError;
use crate::experiment::ExperimentError;
use crate::harness::HarnessError;
use crate::memory::MemoryError;
use crate::operations::CallError;
use crate::research::sources::SearchError;
use crate::retrieval::GoldenError;
use crate::root_path::OutsideRoot;

/// Category of an error. Its schema, with the comments below, is the source of the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// The requested object does not exist.
    NotFound,
    /// The request conflicts with the current state: the object already exists, or the proposal was already
    /// answered.
    Conflict,
    /// Concurrent changes to the same object; retrying may succeed.
    Contended,
    /// The request is malformed or its values are invalid.
    Invalid,
    /// The request exceeds the size or cost limit of a single request.
    TooLarge,
    /// The caller has exceeded its rate limit.
    RateLimited,
    /// The tenant's storage quota is exhausted; reading and deleting still work.
    OutOfStorage,
    /// The preconditions of the requested action are not met.
    Forbidden,
    /// A check failed: a weakening, a missing signature, a tampered record, or an action reserved for a
    /// person.
    Refused,
    /// The database, the network or a model does not respond; retrying later may succeed.
    Unavailable,
    /// An error that the caller cannot resolve.
    Internal,
}

impl ErrorCategory {
    pub fn http_status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::Conflict | Self::Contended => 409,
            Self::Invalid => 422,
            Self::TooLarge => 413,
            Self::RateLimited => 429,
            Self::OutOfStorage => 507,
            Self::Forbidden | Self::Refused => 403,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    /// Title of the problem, as an HTTP response or a page shows it.
    pub fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Conflict | Self::Contended => "Conflict",
            Self::Invalid => "Invalid request",
            Self::TooLarge => "Content too large",
            Self::RateLimited => "Too many requests",
            Self::OutOfStorage => "Insufficient storage",
            Self::Forbidden | Self::Refused => "Forbidden",
            Self::Unavailable => "Service unavailable",
            Self::Internal => "Internal server error",
        }
    }

    /// Whether the same request can succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Contended | Self::RateLimited | Self::Unavailable)
    }

    /// Exit code of a command: 1 check failed, 2 bad input, 4 environment.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::NotFound
            | Self::Conflict
            | Self::Invalid
            | Self::TooLarge
            | Self::RateLimited
            | Self::OutOfStorage
            | Self::Forbidden => 2,
            Self::Contended | Self::Unavailable | Self::Internal => 4,
        }
    }
}

impl EngineError {
    pub fn category(&self) -> ErrorCategory {
        use ErrorCategory::{
            Conflict, Forbidden, Internal, Invalid, NotFound, OutOfStorage, RateLimited, Refused, TooLarge,
            Unavailable,
        };
        match self {
            Self::Store(error) => store_category(error),
            Self::Harness(error) => error.category(),
            Self::Memory(error) => error.category(),
            Self::Golden(error) => error.category(),
            Self::Ab(error) => error.category(),
            Self::Call(error) => error.category(),
            Self::Search(error) => error.category(),
            Self::Eviction(error) => match error {
                EvictionError::NoItem { .. } | EvictionError::UnknownIds { .. } => NotFound,
                EvictionError::AlreadyResolved { .. } | EvictionError::Late { .. } => Conflict,
                _ => Invalid,
            },
            Self::Ranking { problem, .. } => match problem {
                RetrievalError::NoSharedQueries
                | RetrievalError::Duplicate { .. }
                | RetrievalError::NeedsFacts { .. } => Conflict,
                _ => Invalid,
            },
            Self::NotFound { .. } | Self::NoResearch { .. } => NotFound,
            Self::AlreadyExists { .. }
            | Self::Conflict { .. }
            | Self::NoChatModel
            | Self::ResearchEnded { .. } => Conflict,
            Self::TooCostly { .. } => TooLarge,
            Self::BudgetSpent { .. }
            | Self::Chat(ChatError::NotAdmitted(_))
            | Self::Sorting {
                cause: ChatError::NotAdmitted(_),
                ..
            } => RateLimited,
            Self::QuotaExceeded { exceeded, .. } => match exceeded.quota {
                satiety::quota::Quota::StorageBytes => OutOfStorage,
                _ => RateLimited,
            },
            Self::EvictRefused { .. } | Self::OnlyMain { .. } => Forbidden,
            Self::NeedsAdminToken { .. } => Refused,
            // A path that does not exist is the caller's mistake; a failing disk is not.
            Self::File {
                action: "read",
                cause,
                ..
            } if is_absent(cause) => Invalid,
            Self::Model(EmbedError::BadSpec { .. })
            | Self::Chat(ChatError::BadSpec { .. })
            | Self::Target(OpenError::Description { .. } | OpenError::Outside { .. })
            | Self::Input { .. }
            | Self::Log { .. }
            | Self::ProgressProfile { .. }
            | Self::Pairs { .. }
            | Self::NoProfile { .. }
            | Self::ProfileFile { .. }
            | Self::Conversation(_)
            | Self::Statistics(_)
            | Self::Packed { .. }
            | Self::WhichJudgments { .. }
            | Self::NoField { .. }
            | Self::NoVariance
            | Self::NoSuite { .. }
            | Self::Suite(_)
            | Self::TargetText { .. }
            | Self::Invalid { .. }
            | Self::Unacceptable { .. }
            | Self::PoolFormat { .. }
            | Self::Corpus(_)
            | Self::Figures(_)
            | Self::NothingToCompare
            | Self::NoLabels { .. }
            | Self::ResearchSettings(_)
            | Self::GateLine { .. }
            | Self::ResearchNeedsModel
            | Self::NeedsEmbedder { .. } => Invalid,
            Self::Model(_)
            | Self::Chat(_)
            | Self::Sorting { .. }
            | Self::Busy { .. }
            | Self::Overloaded
            | Self::Cancelled => Unavailable,
            Self::BadExtraction { .. }
            | Self::File { .. }
            | Self::Profile(_)
            | Self::Vectors(_)
            | Self::Target(_)
            | Self::Fetch(_)
            | Self::Json(_) => Internal,
        }
    }
}

fn is_absent(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(cause.kind(), NotFound | IsADirectory | NotADirectory)
}

/// Lives here because the store does not know about categories.
fn store_category(error: &StoreError) -> ErrorCategory {
    use ErrorCategory::{Conflict, Internal, Invalid, NotFound, Unavailable};
    match error {
        StoreError::NotFound { .. } => NotFound,
        StoreError::AlreadyExists { .. } => Conflict,
        StoreError::InvalidUrl { .. }
        | StoreError::UnsupportedEngine { .. }
        | StoreError::NoStore { .. }
        | StoreError::Import { .. }
        | StoreError::ConstitutionalMemory { .. }
        | StoreError::NotEmpty { .. }
        | StoreError::InvalidRule { .. } => Invalid,
        StoreError::File { cause, .. } if cause.kind() == std::io::ErrorKind::AlreadyExists => Invalid,
        StoreError::Unreachable { .. }
        | StoreError::Busy { .. }
        | StoreError::DiskFull { .. }
        | StoreError::LoginRefused { .. }
        | StoreError::CannotOpen { .. } => Unavailable,
        StoreError::NotADatabase { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::Corrupt { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::NoSuchDatabase { .. }
        | StoreError::Tls { .. }
        | StoreError::NewerSchema { .. }
        | StoreError::OlderSchema { .. }
        | StoreError::ForeignMigration { .. }
        | StoreError::File { .. }
        | StoreError::Stream { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Engine { .. } => Internal,
    }
}

impl HarnessError {
    fn category(&self) -> ErrorCategory {
        match self {
            // A refusal by the ratchet or the gate is a result; scripts tell it from a mistake by its exit
            // code.
            Self::Weaker { .. }
            | Self::WeakerThanLock { .. }
            | Self::OtherFiles { .. }
            | Self::RegressionTier { .. }
            | Self::Identity { .. }
            | Self::HistoryMissing { .. }
            | Self::AnchorMissing { .. }
            | Self::NewHistory { .. }
            | Self::Stale { .. }
            | Self::LinkedFile { .. }
            | Self::Changed { .. }
            | Self::Archive(_)
            | Self::Broken(_)
            | Self::Tampered { .. }
            | Self::KeysChanged { .. }
            | Self::Link { .. }
            | Self::BadLock { .. }
            | Self::LockedBaseline { .. }
            | Self::Proposal(ProposalError::Weaker(_) | ProposalError::Forged)
            | Self::Expansion(
                ExpansionError::Approval(_)
                | ExpansionError::Version { .. }
                | ExpansionError::Proposal(ProposalError::Weaker(_) | ProposalError::Forged),
            ) => ErrorCategory::Refused,
            Self::NoExpansion | Self::NoSuchExpansion(_) | Self::NoSuchCycle(_) => ErrorCategory::NotFound,
            Self::NothingNew { .. } => ErrorCategory::Conflict,
            Self::Conflict => ErrorCategory::Contended,
            Self::BadProposal { .. } | Self::Undecided { .. } => ErrorCategory::Internal,
            _ => ErrorCategory::Invalid,
        }
    }
}

impl MemoryError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::NotFound(_) | Self::OtherProject { .. } => ErrorCategory::NotFound,
            Self::SelfLink(_) | Self::Duplicate { .. } => ErrorCategory::Conflict,
            Self::NeedsPerson(_) => ErrorCategory::Refused,
            _ => ErrorCategory::Invalid,
        }
    }
}

impl ExperimentError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::NotFound(_) => ErrorCategory::NotFound,
            Self::Exists(_) | Self::Status { .. } => ErrorCategory::Conflict,
            Self::Contended(_) => ErrorCategory::Contended,
            Self::State { .. } | Self::Test { .. } => ErrorCategory::Internal,
            _ => ErrorCategory::Invalid,
        }
    }
}

impl CallError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::Invalid { .. } | Self::OutsideRoot(OutsideRoot::Outside(_)) => ErrorCategory::Invalid,
            Self::OutsideRoot(OutsideRoot::Missing(_)) => ErrorCategory::NotFound,
            Self::NoRoot => ErrorCategory::Refused,
            Self::OutsideRoot(OutsideRoot::Root(_)) | Self::Response(_) | Self::Host(_) => {
                ErrorCategory::Internal
            }
        }
    }
}

impl GoldenError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::NoRun(_) => ErrorCategory::NotFound,
            Self::RunEnded(_) => ErrorCategory::Conflict,
            Self::AllFailed { .. } => ErrorCategory::Internal,
            _ => ErrorCategory::Invalid,
        }
    }
}

impl SearchError {
    /// With [`ErrorCategory::Invalid`], retrying with another query cannot succeed.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::BadSpec { .. } | Self::NoKey { .. } | Self::Unreadable { .. } => ErrorCategory::Invalid,
            _ => ErrorCategory::Internal,
        }
    }
}

#[cfg(test)]
#[path = "category_tests.rs"]
mod tests;
