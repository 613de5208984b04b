//! Expansion of the harness as a state machine without I/O: research, proposal, human approval, stepwise
//! application and verification; or rejection, or rollback.
//!
//! [`Expansion::next`] returns the next step, and [`Expansion::observe`] takes its result. The whole state is
//! a value that is stored after every step. After an interruption the same step is repeated, so steps must be
//! idempotent. The state machine trusts no input: it compares manifests, verifies signatures and checks
//! versions again.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::approval::{Approval, ApprovalError, KeyRing, verify};
use super::cycles::{Consistency, CycleError, Record, SCHEMA_VERSION, Urgency, expansion_key};
use super::manifest::Manifest;
use super::proposal::{CaseRef, Proposal, ProposalError, ThresholdIncrease};

mod observe;
#[cfg(test)]
mod tests;

/// Phase of an expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Research looks for candidates.
    Research,
    /// A proposal waits for human approval.
    AwaitingApproval,
    /// Step 1: the current version is archived.
    Archiving,
    /// Step 2: thresholds are tightened.
    ApplyingThresholds,
    /// Step 3: new suites are added, disabled.
    AddingBenchmarks,
    /// Step 4: new cases are added, disabled.
    AddingEdgeCases,
    /// Step 5: new cases are enabled one at a time.
    Enabling,
    /// Step 6: the system must still pass at baseline.
    Verifying,
    /// Step 7: the new version is committed.
    Committing,
    /// Step 8: the expansion is logged.
    Logging,
    /// The archived version is being restored.
    RollingBack,
    /// The expansion was applied.
    Done,
    /// A person rejected the expansion.
    Rejected,
    /// The old version is restored; a person should review the cause.
    RolledBack,
}

/// Complete state of an expansion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expansion {
    /// Id of the expansion, `exp-…`.
    pub expansion_id: String,
    /// Time at which it was triggered.
    pub triggered_at: Timestamp,
    /// Reason why it was triggered.
    pub trigger_reason: String,
    /// Urgency of the expansion.
    pub urgency: Urgency,
    /// Rolling average of the saturation score when it was triggered.
    pub saturation_score_at_trigger: f64,
    /// Harness version from which it starts.
    pub from_version: String,
    /// Current phase of the expansion.
    pub phase: Phase,
    /// Findings of the research.
    #[serde(default)]
    pub findings: Option<Value>,
    /// Current proposal, if there is one.
    #[serde(default)]
    pub proposal: Option<Proposal>,
    /// Approval in use, if there is one.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// Enabled new cases, each with the first result of the system.
    #[serde(default)]
    pub outcomes: Vec<CaseOutcome>,
    /// Who rejected the expansion or rolled it back, and why.
    #[serde(default)]
    pub ended: Option<Justification>,
    /// Use of the only exemption from the ratchet: the rollback.
    #[serde(default)]
    pub exemption: Option<Exemption>,
    /// Time at which the new version was committed.
    #[serde(default)]
    pub applied_at: Option<Timestamp>,
}

/// First result of the system on a new case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseOutcome {
    /// Suite and id of the case.
    pub case: CaseRef,
    /// Whether the system passed it when it was enabled.
    pub passed: bool,
}

/// Person or program that ended an expansion or started a new history, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Justification {
    /// Name of the person or program.
    pub by: String,
    /// Reason for ending the expansion.
    pub why: String,
}

/// Restoration of the archived version during an expansion: the only weakening that the ratchet permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exemption {
    /// Name of the person or program.
    pub by: String,
    /// Reason for the rollback.
    pub why: String,
    /// Version that was given up.
    pub from_version: String,
    /// Archived version that was restored.
    pub to_version: String,
    /// Time of the restoration.
    pub at: Timestamp,
}

/// Next step of an expansion.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Look for candidates and propose changes.
    Research,
    /// Ask a person to sign the proposal.
    AwaitApproval(&'a Proposal),
    /// Archive the current version.
    Archive {
        /// Version to archive.
        version: &'a str,
    },
    /// Tighten these thresholds.
    ApplyThresholds(&'a [ThresholdIncrease]),
    /// Add these cases of new suites, disabled.
    AddBenchmarks(&'a [CaseRef]),
    /// Add these cases to existing suites, disabled.
    AddEdgeCases(&'a [CaseRef]),
    /// Enable this case and run it.
    Enable(&'a CaseRef),
    /// Run the old cases and check that the system still passes at baseline.
    VerifyBaseline,
    /// Commit the new version.
    Commit {
        /// Version to commit.
        version: &'a str,
    },
    /// Append the expansion to the ledger.
    Log,
    /// Restore the archived version.
    Restore {
        /// Version to restore.
        version: &'a str,
        /// Who asked for the rollback, and why.
        ending: &'a Justification,
    },
    /// Nothing is left to do.
    Finished(Phase),
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// Findings of the research; proposals follow.
    Found(Value),
    /// A proposal with the manifests before and after. Replaces one that waits for approval.
    Proposed {
        /// Proposal to be approved.
        proposal: Box<Proposal>,
        /// Current harness.
        old: Box<Manifest>,
        /// Proposed harness.
        new: Box<Manifest>,
    },
    /// A person signed the proposal.
    Approved(Approval),
    /// A person rejected the expansion, which needs no signature.
    Rejected(Justification),
    /// This version is archived.
    Archived(String),
    /// The thresholds are tightened.
    ThresholdsApplied,
    /// The new suites are added, disabled.
    BenchmarksAdded,
    /// The new cases are added, disabled.
    EdgeCasesAdded,
    /// A case is enabled and was run.
    Enabled(CaseOutcome),
    /// The old cases were run.
    BaselineVerified {
        /// Whether the system still passes at baseline.
        passes: bool,
        /// One-sentence summary of the results.
        detail: String,
    },
    /// This version is committed.
    Committed(String),
    /// The ledger contains the expansion.
    Logged,
    /// A person wants to restore the old version while the new one is being applied.
    RollbackRequested(Justification),
    /// This version is restored.
    Restored(String),
}

/// Context in which an observation is checked.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Keys whose signatures are trusted.
    pub keys: &'a KeyRing,
    /// Ids of the approvals that were already used.
    pub spent: &'a BTreeSet<String>,
    /// Current time, never before the last entry of the ledger: a clock that was set back must not revive an
    /// approval.
    pub now: Timestamp,
}

/// Event to be appended to the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Kind of the event.
    pub kind: String,
    /// Details of the event.
    pub body: Value,
}

/// Reason why an observation was rejected; the state is unchanged.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExpansionError {
    /// The observation does not fit the phase.
    #[error("unexpected {got} in phase {phase:?}; request the next step")]
    Unexpected {
        /// Current phase of the expansion.
        phase: Phase,
        /// Observation that was given.
        got: &'static str,
    },
    /// A version or id does not match.
    #[error("the {what} version is {found} (expected {expected}); the harness was changed in the meantime")]
    Version {
        /// Which version differs.
        what: &'static str,
        /// Expected version.
        expected: String,
        /// Actual version.
        found: String,
    },
    /// Cases must be enabled one at a time, in order.
    #[error("cannot enable case {found}: the next case is {expected}")]
    Order {
        /// Case that comes next.
        expected: String,
        /// Case that was given.
        found: String,
    },
    /// A rejection or rollback lacks a name or a reason.
    #[error("a rejection or rollback requires a name and a reason")]
    Anonymous,
    /// The proposal is invalid.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// The approval is invalid.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
}

impl Expansion {
    /// Creates an expansion that was triggered by a window of cycles.
    pub fn triggered(
        expansion_id: impl Into<String>,
        from_version: impl Into<String>,
        trigger: &Consistency,
        average_score: f64,
        now: Timestamp,
    ) -> Self {
        Self {
            expansion_id: expansion_id.into(),
            triggered_at: now,
            trigger_reason: trigger.reason.clone().unwrap_or_default(),
            urgency: trigger.urgency,
            saturation_score_at_trigger: average_score,
            from_version: from_version.into(),
            phase: Phase::Research,
            findings: None,
            proposal: None,
            approval: None,
            outcomes: Vec::new(),
            ended: None,
            exemption: None,
            applied_at: None,
        }
    }

    /// Returns the next step; it stays the same until a result is observed.
    pub fn next(&self) -> Step<'_> {
        let Some(proposal) = &self.proposal else {
            return match self.phase {
                Phase::Research => Step::Research,
                phase => Step::Finished(phase),
            };
        };
        match (self.phase, &self.ended) {
            (Phase::Research, _) => Step::Research,
            (Phase::AwaitingApproval, _) => Step::AwaitApproval(proposal),
            (Phase::Archiving, _) => Step::Archive {
                version: &self.from_version,
            },
            (Phase::ApplyingThresholds, _) => Step::ApplyThresholds(&proposal.content.threshold_increases),
            (Phase::AddingBenchmarks, _) => Step::AddBenchmarks(&proposal.benchmark_cases),
            (Phase::AddingEdgeCases, _) => Step::AddEdgeCases(&proposal.edge_cases),
            (Phase::Enabling, _) => match proposal.new_cases().nth(self.outcomes.len()) {
                Some(case) => Step::Enable(case),
                None => Step::VerifyBaseline,
            },
            (Phase::Verifying, _) => Step::VerifyBaseline,
            (Phase::Committing, _) => Step::Commit {
                version: &proposal.diff.to,
            },
            (Phase::Logging, _) => Step::Log,
            (Phase::RollingBack, Some(ending)) => Step::Restore {
                version: &self.from_version,
                ending,
            },
            (phase, _) => Step::Finished(phase),
        }
    }

    /// Whether the expansion has ended and the latch is released.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Rejected | Phase::RolledBack)
    }

    /// Returns the number of new cases that failed when they were enabled.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.passed).count()
    }

    /// Converts the expansion to a record in the specification's format, extended by the phase.
    pub fn record(&self) -> Result<Record, CycleError> {
        let status = match (self.phase, &self.proposal) {
            (Phase::Research, None) => "in_progress",
            _ => "completed",
        };
        let proposed: Vec<Value> = self
            .proposal
            .iter()
            .map(|proposal| json!({"proposal_id": proposal.proposal_id, "hash": proposal.hash(), "expansion_proposals": proposal.content}))
            .collect();
        let approved = match (&self.approval, self.phase) {
            (_, Phase::Rejected) => Some(false),
            (Some(_), _) => Some(true),
            (None, _) => None,
        };
        let value = json!({
            "expansion_id": self.expansion_id,
            "triggered_at": self.triggered_at,
            "trigger_reason": self.trigger_reason,
            "saturation_score_at_trigger": self.saturation_score_at_trigger,
            "harness_version": self.from_version,
            "research_spawned": {
                "task_id": format!("research-{}", self.expansion_id),
                "status": status,
                "findings": self.findings,
            },
            "proposed_expansions": proposed,
            "human_approved": approved,
            "applied_at": self.applied_at,
            "phase": self.phase,
            "x-schema-version": SCHEMA_VERSION,
        });
        let urgency = serde_json::to_value(self.urgency).unwrap_or_default();
        Ok(
            Record::new(expansion_key(&self.expansion_id)?, value, "expansion_trigger")
                .tagged("x-urgency", urgency.as_str().unwrap_or_default()),
        )
    }
}
