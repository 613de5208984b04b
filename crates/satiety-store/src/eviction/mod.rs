//! Eviction data: scopes with their items and proposals, and scorer versions.

mod scopes;
mod scorers;

pub use scopes::{ProposalRow, ScopeChange, ScopeItemRow, ScopeRow, ScopeSummaryRow};
pub use scorers::{ActivationRow, ScorerRow};

/// Contexts, eviction proposals and scorers: [`crate::Store::eviction`].
#[derive(Debug, Clone, Copy)]
pub struct Eviction<'s>(pub(crate) &'s crate::Store);
