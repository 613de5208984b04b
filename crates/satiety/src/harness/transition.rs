//! Signed transitions: the only way to a harness that asks less, or that cannot be compared.
//!
//! A transition leads from exactly one lock to exactly one other and carries both, so that whoever checks a change needs
//! nothing but the change and the keys of its base. Its id is part of the lock that it leads to and stays there: the lock
//! that it leads from can never be reached again, so it is used once.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{Approval, ApprovalError, KeyRing, LONGEST, check_lifetime, check_signature, verify};
use super::lock::{Lock, compare_locks};
use super::manifest::{Change, Manifest, ManifestError, RigorDiff, compare};
use super::proposal::Proposal;
use crate::bench::hash::canonical_json;

/// What is signed is never mistaken for anything else that the same key signs.
const DOMAIN: &str = "satiety harness transition v1\n";
/// More steps between two harnesses are not searched; each one doubles the work.
const MOST_STEPS: usize = 10;

/// What an approver signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionStatement {
    /// The form of this value: 1.
    pub format: u32,
    /// The id of the transition, chosen before it is signed; it is part of the lock that it leads to.
    pub id: String,
    /// Hash of the lock that it leads from.
    pub from: String,
    /// Hash of the lock that it leads to.
    pub to: String,
    /// Why the harness must change in this way.
    pub reason: String,
    /// What was shown to the approver: every change that asks less, cannot be compared, or needs approval.
    pub changes: Vec<Change>,
    /// The approver, by the name that the key is registered under.
    pub approver: String,
    /// When it was signed.
    pub approved_at: Timestamp,
    /// Until when it may be used.
    pub expires_at: Timestamp,
}

/// A signed transition with both locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// What was signed.
    pub statement: TransitionStatement,
    /// Ed25519 over the statement, 128 hexadecimal digits.
    pub signature: String,
    /// The lock that it leads from.
    pub from: Lock,
    /// The lock that it leads to.
    pub to: Lock,
}

/// A signed step that a tree brings along.
#[derive(Debug, Clone, PartialEq)]
pub enum SignedStep {
    /// A transition between locks.
    Transition(Box<Transition>),
    /// An expansion that was approved and applied.
    Expansion(Box<AppliedProposal>),
}

/// A proposal that was applied, with the signature that allowed it and the harnesses that it leads from and to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppliedProposal {
    /// The proposal, whole.
    pub proposal: Proposal,
    /// The signature.
    pub approval: Approval,
    /// The harness that it leads from; absent in files of the first version, which count no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Manifest>,
    /// The harness that it leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Manifest>,
}

/// Whether one harness may follow another, and by what right.
#[derive(Debug, Clone, PartialEq)]
pub struct Succession {
    /// What lies between them.
    pub diff: RigorDiff,
    /// Whether the step is allowed.
    pub allowed: bool,
    /// The signed steps that were used, in order.
    pub used: Vec<String>,
    /// Signed steps that could not be used, with the reason.
    pub unused: Vec<(String, String)>,
}

/// What a check takes beside the two locks.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// The keys of the old side. Keys of the new side never count.
    pub keys: &'a KeyRing,
    /// The time at which signatures must be valid.
    pub now: Timestamp,
    /// Whether a harness without approvers may get its first ones.
    pub accept_first_keys: bool,
    /// Places whose need for approval is met by evidence.
    pub justified: &'a BTreeSet<String>,
}

impl TransitionStatement {
    /// The bytes that are signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{DOMAIN}{}", canonical_json(&value)).into_bytes()
    }

    /// A statement about the step between two locks, valid for the given time.
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
    /// Whether it is what an approver signed, and may be used now.
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
        // Without its id in the lock that it leads to, it could be used again.
        if statement.format != 1 || !self.to.transitions.contains(&statement.id) {
            return Err(ApprovalError::OtherProposal { field: "id" });
        }
        check_lifetime(statement.approved_at, statement.expires_at, now)
    }
}

impl SignedStep {
    /// Its name in reports.
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

    /// The lock after this step, where it can be taken from `current` without weakening anything on the way.
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
            return Err("it does not carry the harnesses that it leads from and to".into());
        };
        verify(&self.approval, &self.proposal, keys, &BTreeSet::new(), now).map_err(|why| why.to_string())?;
        let statement = &self.approval.statement;
        if from.version() != statement.from_version || to.version() != statement.to_version {
            return Err("its harnesses are not those that were signed".into());
        }
        self.proposal.check(from, to).map_err(|why| why.to_string())
    }
}

/// Whether `new` may follow `old`: nothing asks less and nothing needs approval, or signed steps lead there.
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
    for step in usable.drain(usable.len().min(MOST_STEPS)..) {
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
    let leftover = usable.iter().map(|step| {
        let why = "does not lead from the base to this harness";
        (step.name().to_owned(), why.to_owned())
    });
    unused.extend(leftover);
    Ok(Succession {
        diff,
        allowed: false,
        used: Vec::new(),
        unused,
    })
}

/// A series of steps from one lock to another in which everything between the steps is allowed.
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
            let mut whole = vec![*step];
            whole.extend(path);
            return Ok(Some(whole));
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
