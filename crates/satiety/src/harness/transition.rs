//! Signed transitions: the only way to a harness that is weaker or not comparable.
//!
//! A transition leads from exactly one lock to exactly one other and contains both, so checking it needs only
//! the change and the keys of its base. Its id becomes a permanent part of the new lock. The old lock can
//! therefore never be reached again, and the transition is used only once.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{Approval, ApprovalError, KeyRing, LONGEST, check_lifetime, check_signature, verify};
use super::lock::{Lock, compare_locks};
use super::manifest::{Change, Manifest, ManifestError, RigorDiff, compare};
use super::proposal::Proposal;
use crate::bench::hash::canonical_json;

/// Domain separator for signed statements.
const DOMAIN: &str = "satiety harness transition v1\n";
/// Maximum number of signed steps searched between two harnesses; each step doubles the work.
const MAX_STEPS: usize = 10;

/// Statement that an approver signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionStatement {
    /// Format version of the statement: 1.
    pub format: u32,
    /// Id of the transition, chosen before it is signed and recorded in the new lock.
    pub id: String,
    /// Hash of the old lock.
    pub from: String,
    /// Hash of the new lock.
    pub to: String,
    /// Reason why the harness must change in this way.
    pub reason: String,
    /// Changes shown to the approver: all that weaken, are not comparable, or need approval.
    pub changes: Vec<Change>,
    /// Name under which the approver's key is registered.
    pub approver: String,
    /// Time of the signature.
    pub approved_at: Timestamp,
    /// Time until which it may be used.
    pub expires_at: Timestamp,
}

/// Signed transition with both locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// Statement that was signed.
    pub statement: TransitionStatement,
    /// Ed25519 signature of the statement, 128 hexadecimal digits.
    pub signature: String,
    /// Lock before the transition.
    pub from: Lock,
    /// Lock after the transition.
    pub to: Lock,
}

/// Signed step that is stored with the harness.
#[derive(Debug, Clone, PartialEq)]
pub enum SignedStep {
    /// Transition between two locks.
    Transition(Box<Transition>),
    /// Expansion that was approved and applied.
    Expansion(Box<AppliedProposal>),
}

/// Applied proposal, with its approval and the harnesses before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppliedProposal {
    /// Complete proposal that was applied.
    pub proposal: Proposal,
    /// Approval that permitted it.
    pub approval: Approval,
    /// Harness before the proposal; absent in files of the first version, which are no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Manifest>,
    /// Harness after the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Manifest>,
}

/// Whether one harness may succeed another, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Succession {
    /// Difference between the harnesses.
    pub diff: RigorDiff,
    /// Whether the step is allowed.
    pub allowed: bool,
    /// Names of the signed steps that were used, in order.
    pub used: Vec<String>,
    /// Names of signed steps that could not be used, each with the reason.
    pub unused: Vec<(String, String)>,
}

/// Context of a check, in addition to the two locks.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// Keys of the old side; keys of the new side are never trusted.
    pub keys: &'a KeyRing,
    /// Time at which signatures must be valid.
    pub now: Timestamp,
    /// Whether a harness without approvers may get its first ones.
    pub accept_first_keys: bool,
    /// Places whose need for approval is met by evidence.
    pub justified: &'a BTreeSet<String>,
}

impl TransitionStatement {
    /// Returns the bytes to be signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{DOMAIN}{}", canonical_json(&value)).into_bytes()
    }

    /// Creates a statement about the step between two locks, valid for the given time.
    pub fn about(
        (from, to): (&Lock, &Lock),
        id: impl Into<String>,
        reason: impl Into<String>,
        approver: impl Into<String>,
        (now, valid_for): (Timestamp, SignedDuration),
    ) -> Result<Self, ManifestError> {
        let diff = compare_locks(from, to)?;
        let changes = diff
            .objections()
            .chain(diff.needing_approval())
            .cloned()
            .collect();
        Ok(Self {
            format: 1,
            id: id.into(),
            from: from.hash(),
            to: to.hash(),
            reason: reason.into(),
            changes,
            approver: approver.into(),
            approved_at: now,
            expires_at: now.saturating_add(valid_for.min(LONGEST)).unwrap_or(now),
        })
    }
}

impl Transition {
    /// Verifies that an approver signed the transition and that it may be used now.
    pub fn verify(&self, keys: &KeyRing, now: Timestamp) -> Result<(), ApprovalError> {
        let statement = &self.statement;
        check_signature(
            keys,
            &statement.approver,
            &statement.signed_bytes(),
            &self.signature,
        )?;
        for (field, found, wanted) in [
            ("old version", &statement.from, self.from.hash()),
            ("new version", &statement.to, self.to.hash()),
        ] {
            if *found != wanted {
                return Err(ApprovalError::OtherProposal { field });
            }
        }
        // Without its id in the new lock, the transition could be used again.
        if statement.format != 1 || !self.to.transitions.contains(&statement.id) {
            return Err(ApprovalError::OtherProposal { field: "id" });
        }
        check_lifetime(statement.approved_at, statement.expires_at, now)
    }
}

impl SignedStep {
    /// Returns the name used in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Transition(transition) => &transition.statement.id,
            Self::Expansion(applied) => &applied.proposal.proposal_id,
        }
    }

    fn verify(&self, keys: &KeyRing, now: Timestamp) -> Result<(), String> {
        match self {
            Self::Transition(transition) => transition.verify(keys, now).map_err(|why| why.to_string()),
            Self::Expansion(applied) => applied.verify(keys, now),
        }
    }

    /// Returns the lock after this step; `None` if it cannot be applied to `current` without weakening
    /// anything.
    fn apply(&self, current: &Lock, authority: &Authority<'_>) -> Result<Option<Lock>, ManifestError> {
        match self {
            Self::Transition(transition) => {
                let diff = compare_locks(current, &transition.from)?;
                Ok(is_allowed(&diff, current, authority).then(|| transition.to.clone()))
            }
            Self::Expansion(applied) => {
                let (Some(from), Some(to)) = (&applied.from, &applied.to) else {
                    return Ok(None);
                };
                let diff = compare(&current.manifest, from)?;
                Ok(is_allowed(&diff, current, authority).then(|| Lock {
                    manifest: to.clone(),
                    ..current.clone()
                }))
            }
        }
    }
}

impl AppliedProposal {
    fn verify(&self, keys: &KeyRing, now: Timestamp) -> Result<(), String> {
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err("the harnesses before and after are missing".into());
        };
        verify(&self.approval, &self.proposal, keys, &BTreeSet::new(), now).map_err(|why| why.to_string())?;
        let statement = &self.approval.statement;
        if from.version() != statement.from_version || to.version() != statement.to_version {
            return Err("the harnesses do not match the signed versions".into());
        }
        self.proposal.check(from, to).map_err(|why| why.to_string())
    }
}

/// Checks whether `new` may succeed `old`: nothing is weaker and nothing needs approval, or signed steps lead
/// there.
pub fn succession(
    old: &Lock,
    new: &Lock,
    steps: &[SignedStep],
    authority: &Authority<'_>,
) -> Result<Succession, ManifestError> {
    let diff = compare_locks(old, new)?;
    if is_allowed(&diff, old, authority) {
        return Ok(Succession {
            diff,
            allowed: true,
            used: Vec::new(),
            unused: Vec::new(),
        });
    }
    let (mut usable, mut unused) = (Vec::new(), Vec::new());
    for step in steps {
        if old.transitions.contains(step.name()) {
            continue;
        }
        match step.verify(authority.keys, authority.now) {
            Ok(()) => usable.push(step),
            Err(why) => unused.push((step.name().to_owned(), why)),
        }
    }
    usable.sort_by_key(|step| step.name());
    for step in usable.drain(usable.len().min(MAX_STEPS)..) {
        unused.push((
            step.name().to_owned(),
            "too many signed steps in one change".into(),
        ));
    }
    if let Some(path) = find_path(old, new, &usable, authority)? {
        return Ok(Succession {
            diff,
            allowed: true,
            used: path.iter().map(|step| step.name().to_owned()).collect(),
            unused,
        });
    }
    let unusable = usable.iter().map(|step| {
        let why = "does not lead from the base to this harness";
        (step.name().to_owned(), why.to_owned())
    });
    unused.extend(unusable);
    Ok(Succession {
        diff,
        allowed: false,
        used: Vec::new(),
        unused,
    })
}

/// Finds a sequence of steps from one lock to another such that everything between the steps is allowed.
fn find_path<'a>(
    current: &Lock,
    goal: &Lock,
    steps: &[&'a SignedStep],
    authority: &Authority<'_>,
) -> Result<Option<Vec<&'a SignedStep>>, ManifestError> {
    for (index, step) in steps.iter().enumerate() {
        let Some(next) = step.apply(current, authority)? else {
            continue;
        };
        if is_allowed(&compare_locks(&next, goal)?, &next, authority) {
            return Ok(Some(vec![step]));
        }
        let rest: Vec<&SignedStep> = steps
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, step)| *step)
            .collect();
        if let Some(path) = find_path(&next, goal, &rest, authority)? {
            let mut full_path = vec![*step];
            full_path.extend(path);
            return Ok(Some(full_path));
        }
    }
    Ok(None)
}

fn is_allowed(diff: &RigorDiff, old: &Lock, authority: &Authority<'_>) -> bool {
    let first_keys = authority.accept_first_keys && old.keys.approvers.is_empty();
    diff.admissible
        && diff.needing_approval().all(|change| {
            authority.justified.contains(&change.place)
                || (first_keys && change.place.starts_with("keys.approvers."))
        })
}

#[cfg(test)]
mod tests;
