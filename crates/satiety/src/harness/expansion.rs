//! An expansion of the harness as a protocol without I/O: research, proposal, a person's approval, application step by
//! step, verification; or rejection, or rollback.
//!
//! [`Expansion::next`] says what is to be done, [`Expansion::observe`] takes what came of it. The whole state is a
//! value that is stored after every step: whoever was interrupted asks again and does the same step again, so steps must
//! be such that doing one twice does no harm. The state trusts nobody: manifests are compared again, signatures
//! verified, versions checked.

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

/// Where an expansion stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Candidates are looked for.
    Research,
    /// A proposal waits for a person.
    AwaitingApproval,
    /// 1. The current version is archived.
    Archiving,
    /// 2. Thresholds are tightened.
    ApplyingThresholds,
    /// 3. Suites are added, disabled.
    AddingBenchmarks,
    /// 4. Cases are added, disabled.
    AddingEdgeCases,
    /// 5. New cases are enabled one at a time.
    Enabling,
    /// 6. The system must still pass at baseline.
    Verifying,
    /// 7. The new version is committed.
    Committing,
    /// 8. The expansion is logged.
    Logging,
    /// The archive is restored.
    RollingBack,
    /// Applied.
    Done,
    /// A person said no.
    Rejected,
    /// The old version is back; a person should look.
    RolledBack,
}

/// One expansion, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expansion {
    /// `exp-…`.
    pub expansion_id: String,
    /// When it was triggered.
    pub triggered_at: Timestamp,
    /// Why.
    pub trigger_reason: String,
    /// How soon it should happen.
    pub urgency: Urgency,
    /// The rolling average at that time.
    pub saturation_score_at_trigger: f64,
    /// The harness version that it starts from.
    pub from_version: String,
    /// Where it stands.
    pub phase: Phase,
    /// What research found.
    #[serde(default)]
    pub findings: Option<Value>,
    /// What is proposed.
    #[serde(default)]
    pub proposal: Option<Proposal>,
    /// The approval that is being used.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// New cases that were enabled, and how the system did at once.
    #[serde(default)]
    pub outcomes: Vec<CaseOutcome>,
    /// Why and by whom it is rolled back or was rejected.
    #[serde(default)]
    pub ended: Option<Ending>,
    /// The one exemption from the ratchet, when it was made use of.
    #[serde(default)]
    pub exemption: Option<Exemption>,
    /// When the new version was committed.
    #[serde(default)]
    pub applied_at: Option<Timestamp>,
}

/// How the system did on a new case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseOutcome {
    /// Which.
    pub case: CaseRef,
    /// Whether it passed at once.
    pub passed: bool,
}

/// Who ended an expansion, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Restoring the archived version of the expansion that is being applied: the only way back that the ratchet allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exemption {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
    /// The version that was given up.
    pub from_version: String,
    /// The archived version that is back.
    pub to_version: String,
    /// When.
    pub at: Timestamp,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Look for candidates and propose.
    Research,
    /// Ask a person to sign.
    AwaitApproval(&'a Proposal),
    /// Keep the current version safe.
    Archive {
        /// Its hash.
        version: &'a str,
    },
    /// Tighten thresholds.
    ApplyThresholds(&'a [ThresholdIncrease]),
    /// Add these cases of new suites, disabled.
    AddBenchmarks(&'a [CaseRef]),
    /// Add these cases, disabled.
    AddEdgeCases(&'a [CaseRef]),
    /// Enable this case and run it.
    Enable(&'a CaseRef),
    /// Run the old cases: does the system still pass as it did?
    VerifyBaseline,
    /// Make this the harness.
    Commit {
        /// Its hash.
        version: &'a str,
    },
    /// Append to the ledger.
    Log,
    /// Bring the archived version back.
    Restore {
        /// Its hash.
        version: &'a str,
        /// By whom and why.
        ending: &'a Ending,
    },
    /// Nothing is left to be done.
    Finished(Phase),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// What research found; proposals follow.
    Found(Value),
    /// A proposal with the manifests that it leads from and to. Replaces one that waits for approval.
    Proposed {
        /// The proposal.
        proposal: Box<Proposal>,
        /// The current harness.
        old: Box<Manifest>,
        /// The proposed one.
        new: Box<Manifest>,
    },
    /// A person signed.
    Approved(Approval),
    /// A person said no; that needs no signature.
    Rejected(Ending),
    /// This version is archived.
    Archived(String),
    /// Thresholds are as proposed.
    ThresholdsApplied,
    /// Suites are there, disabled.
    BenchmarksAdded,
    /// Cases are there, disabled.
    EdgeCasesAdded,
    /// A case is enabled and was run.
    Enabled(CaseOutcome),
    /// Whether the system still passes at baseline, and what was seen.
    BaselineVerified {
        /// Whether it does.
        passes: bool,
        /// In a sentence.
        detail: String,
    },
    /// This version is the harness now.
    Committed(String),
    /// The ledger has it.
    Logged,
    /// Somebody wants the old version back while the new one is being applied.
    RollbackRequested(Ending),
    /// This version is back.
    Restored(String),
}

/// What an observation is held against.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Whose signature counts.
    pub keys: &'a KeyRing,
    /// Approvals that were used.
    pub spent: &'a BTreeSet<String>,
    /// The time, never before the ledger's last entry: a clock that was set back must not revive an approval.
    pub now: Timestamp,
}

/// Something for the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// What kind.
    pub kind: String,
    /// What happened.
    pub body: Value,
}

/// Why an observation was refused. The state is as it was.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExpansionError {
    /// It does not fit.
    #[error("{got} does not fit the phase {phase:?}; ask for the next step")]
    Unexpected {
        /// Where the expansion stands.
        phase: Phase,
        /// What came.
        got: &'static str,
    },
    /// Another version than it should be.
    #[error("the {what} version is {found}, not {expected}; somebody changed the harness meanwhile")]
    Version {
        /// Which one.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Cases are enabled one at a time, in order.
    #[error("the next case to enable is {expected}, not {found}")]
    Order {
        /// What comes next.
        expected: String,
        /// What came.
        found: String,
    },
    /// Nobody took the responsibility.
    #[error("rejecting and rolling back need a name and a reason")]
    Anonymous,
    /// The proposal is none.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// The approval does not count.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
}

impl Expansion {
    /// A new expansion, triggered by a window of cycles.
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

    /// What is to be done next; the same until something is observed.
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

    /// Whether nothing is left to be done; then the latch is released.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Rejected | Phase::RolledBack)
    }

    /// New cases that the system failed at once.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.passed).count()
    }

    /// As a record in the specification's shape, with the phase beside it.
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
