//! What kind of trouble an error is, finer than whose fault: what an HTTP status is chosen by.

use satiety::retrieval::RetrievalError;
use satiety_store::StoreError;

use crate::ab::AbError;
use crate::harness::HarnessError;
use crate::memory::MemoryError;
use crate::operations::CallError;
use crate::retrieval::GoldenError;
use crate::rooted::NotBelow;
use crate::{EngineError, Fault};

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// What was asked for by its name is not there.
    NotThere,
    /// It does not fit with what is there: already answered, already in force, changed by somebody else.
    Conflict,
    /// What was asked cannot be done as asked.
    Unacceptable,
    /// One request may not ask for so much.
    TooLarge,
    /// This caller has asked for too much lately.
    TooMuch,
    /// It was understood and is not allowed.
    Refused,
    /// The store, the network or a model does not answer; it may do so later.
    Unavailable,
    /// Something that the asker can do nothing about.
    Internal,
}

impl EngineError {
    /// What kind of trouble this is.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::NotThere { .. }
            | Self::NoResearch { .. }
            | Self::Store(StoreError::NotThere { .. })
            | Self::Ab(AbError::NotThere(_))
            | Self::Golden(GoldenError::NoRun(_))
            | Self::Call(CallError::NotBelow(NotBelow::Missing(_)))
            | Self::Memory(MemoryError::NotThere(_) | MemoryError::OtherProject { .. })
            | Self::Eviction(
                satiety::eviction::EvictionError::NoItem { .. }
                | satiety::eviction::EvictionError::UnknownIds { .. },
            )
            | Self::Harness(HarnessError::NoExpansion | HarnessError::NoSuchExpansion(_)) => {
                Trouble::NotThere
            }
            Self::AlreadyThere { .. }
            | Self::EvictConflict { .. }
            | Self::NoChatModel
            | Self::Memory(MemoryError::SelfLink(_))
            | Self::Ranking {
                problem:
                    RetrievalError::NoSharedQueries
                    | RetrievalError::Duplicate { .. }
                    | RetrievalError::NeedsFacts { .. },
                ..
            }
            | Self::Store(StoreError::AlreadyThere { .. })
            | Self::ResearchEnded { .. }
            | Self::Ab(AbError::Exists(_) | AbError::Status { .. } | AbError::Contended(_))
            | Self::Golden(GoldenError::RunEnded(_))
            | Self::Eviction(
                satiety::eviction::EvictionError::AlreadyResolved { .. }
                | satiety::eviction::EvictionError::Late { .. },
            )
            | Self::Harness(HarnessError::Conflict | HarnessError::NothingNew { .. }) => Trouble::Conflict,
            Self::TooCostly { .. } => Trouble::TooLarge,
            Self::BudgetSpent { .. } => Trouble::TooMuch,
            Self::Overloaded | Self::Cancelled => Trouble::Unavailable,
            Self::EvictRefused { .. } => Trouble::Refused,
            Self::Store(
                StoreError::Unreachable { .. }
                | StoreError::Busy { .. }
                | StoreError::DiskFull { .. }
                | StoreError::LoginRefused { .. }
                | StoreError::CannotOpen { .. },
            )
            | Self::Busy { .. }
            | Self::Model(_)
            | Self::Chat(_)
            | Self::Sorting { .. }
                if self.fault() == Fault::Environment =>
            {
                Trouble::Unavailable
            }
            _ => match self.fault() {
                Fault::Request => Trouble::Unacceptable,
                Fault::Refused => Trouble::Refused,
                Fault::Environment => Trouble::Internal,
            },
        }
    }
}
