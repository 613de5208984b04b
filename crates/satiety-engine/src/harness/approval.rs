//! The human gate: what there is to approve, a person's signature over it, a person's no, and who may sign.

use crate::handles::HarnessOperations;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use satiety::bench::canonical_json;
use satiety::harness::approval::{LONGEST, check_signature};
use satiety::harness::expansion::{Context, Ending};
use satiety::harness::{
    Approval, Change, ConsistencyThresholds, Expansion, KeyRing, Observation, Phase, Proposal, Rigor,
    Statement,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::HarnessError;
use super::check::CaseSides;
use super::directory::{Folder, shown};
use super::keys::{KeyFile, ring_of};
use super::state::{State, Writing, short};
use crate::EngineError;

/// What is signed is never mistaken for anything else that the same key signs.
const KEYS_DOMAIN: &str = "satiety harness keys v1\n";

/// A proposal that waits for a person.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Pending {
    /// The expansion.
    pub expansion_id: String,
    /// Why it was opened.
    pub trigger_reason: String,
    /// The proposal, whole.
    pub proposal: Proposal,
    /// What a person signs.
    pub proposal_hash: String,
    /// Who may.
    pub approvers: Vec<String>,
    /// Changes that ask more, and all others.
    pub harder: Vec<Change>,
    /// Changes that ask as much in another way: retirements, for instance.
    pub neutral: Vec<Change>,
    /// Each case that changes, before and after, whole.
    pub cases: Vec<CaseSides>,
}

/// A proposal that was approved or rejected.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApprovalDecision {
    /// The expansion.
    pub expansion_id: String,
    /// Where it stands now.
    pub phase: Phase,
    /// By whom.
    pub by: String,
    /// What was signed or why not.
    pub detail: String,
}

/// Who may approve.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Keys {
    /// The settings file that was found.
    pub file: Option<String>,
    /// The keys in it.
    pub approvers: Vec<satiety::harness::ApproverKey>,
    /// Keys that never count.
    pub agent_keys: Vec<String>,
    /// Whether the log knows the same keys; absent before the first.
    pub known: Option<bool>,
    /// What differs, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl HarnessOperations<'_> {
    /// The proposal that waits for a person.
    pub async fn pending(self, folder: &Path, expansion: Option<&str>) -> Result<Pending, EngineError> {
        let folder = Folder::read(folder)?;
        let state = self.history_of(&folder).await?;
        let expansion = state.open_expansion(expansion).await?;
        in_force(&state, &expansion)?;
        let keys = trusted(&state, &folder)?;
        let proposal = waiting(&expansion)?.clone();
        let of = |rigor: Rigor| -> Vec<Change> {
            let changes = proposal.diff.changes.iter();
            changes.filter(|change| change.rigor == rigor).cloned().collect()
        };
        Ok(Pending {
            trigger_reason: expansion.trigger_reason.clone(),
            expansion_id: expansion.expansion_id,
            proposal_hash: proposal.hash(),
            approvers: keys.approvers.into_iter().map(|key| key.name).collect(),
            harder: of(Rigor::Harder),
            neutral: of(Rigor::Neutral),
            cases: proposed_cases(&folder, &proposal),
            proposal,
        })
    }

    /// Signs what waits, with a person's key; nothing is recorded.
    pub fn sign(
        self,
        pending: &Pending,
        key: &KeyFile,
        passphrase: &str,
        valid_for: SignedDuration,
    ) -> Result<Approval, EngineError> {
        let now = Timestamp::now();
        let expires = now
            .checked_add(valid_for.min(LONGEST))
            .map_err(|_| HarnessError::Key("an approval is good for at most 30 days".into()))?;
        key.approve(
            Statement::about(&pending.proposal, &key.name, now, expires),
            passphrase,
        )
    }

    /// Takes a signed approval. There is no other way to approve, on any surface.
    pub async fn approve(self, folder: &Path, approval: Approval) -> Result<ApprovalDecision, EngineError> {
        let folder = Folder::read(folder)?;
        let mut state = self.history_of(&folder).await?;
        let mut expansion = state.expansion(&approval.statement.expansion_id).await?;
        let keys = trusted(&state, &folder)?;
        if !expansion.is_over() {
            in_force(&state, &expansion)?;
        }
        let (by, detail) = (
            approval.statement.approver.clone(),
            approval.statement.proposal_hash.clone(),
        );
        let context = Context {
            keys: &keys,
            spent: &state.spent(),
            now: state.now(),
        };
        let event = expansion
            .observe(Observation::Approved(approval), &context)
            .map_err(HarnessError::from)?;
        let mut writing = Writing::default();
        if state.known_keys().is_none() {
            writing = writing.event("keys", json!({"keys": keys, "by": "first use"}));
        }
        state.write(writing.expansion(event, &expansion)?).await?;
        Ok(ApprovalDecision {
            expansion_id: expansion.expansion_id,
            phase: expansion.phase,
            by,
            detail,
        })
    }

    /// Says no. That needs no signature: it leaves everything as it is.
    pub async fn reject(
        self,
        folder: &Path,
        expansion: Option<&str>,
        ending: Ending,
    ) -> Result<ApprovalDecision, EngineError> {
        let mut state = self.state(folder).await?;
        state.check_history()?;
        let mut expansion = state.open_expansion(expansion).await?;
        let context = Context {
            keys: &KeyRing::default(),
            spent: &state.spent(),
            now: state.now(),
        };
        let event = expansion
            .observe(Observation::Rejected(ending.clone()), &context)
            .map_err(HarnessError::from)?;
        let writing = Writing::default().expansion(event, &expansion)?;
        let writing = release(&state, &expansion, writing).await?;
        state.write(writing).await?;
        Ok(ApprovalDecision {
            expansion_id: expansion.expansion_id,
            phase: expansion.phase,
            by: ending.by,
            detail: ending.why,
        })
    }

    /// Who may approve.
    pub async fn keys(self, folder: &Path) -> Result<Keys, EngineError> {
        let (file, ring) = ring_of(folder)?;
        let known = self.state(folder).await?.known_keys();
        let difference = known.as_ref().and_then(|known| difference(known, &ring));
        Ok(Keys {
            file: file.map(|file| shown(&file)),
            known: known.map(|_| difference.is_none()),
            difference,
            approvers: ring.approvers,
            agent_keys: ring.agent_keys,
        })
    }

    /// Signs a change of the keys with a key that counted before.
    pub async fn accept_keys(
        self,
        folder: &Path,
        key: &KeyFile,
        passphrase: &str,
    ) -> Result<Keys, EngineError> {
        let (_, ring) = ring_of(folder)?;
        let mut state = self.state(folder).await?;
        state.check_history()?;
        if let Some(known) = state.known_keys()
            && difference(&known, &ring).is_some()
        {
            let bytes = signed_ring(&ring);
            let signature = key.sign_bytes(&bytes, passphrase)?;
            check_signature(&known, &key.name, &bytes, &signature)
                .map_err(|why| HarnessError::Key(why.to_string()))?;
            let body = json!({"keys": ring, "by": key.name, "signature": signature});
            state.write(Writing::default().event("keys", body)).await?;
        }
        self.keys(folder).await
    }
}

/// An expansion starts from the version in force, or it would undo what was added since.
pub(super) fn in_force(state: &State, expansion: &Expansion) -> Result<(), HarnessError> {
    match state.version() {
        Some(version) if version != expansion.from_version => Err(HarnessError::Stale {
            id: expansion.expansion_id.clone(),
            from: short(&expansion.from_version).to_owned(),
            in_force: short(version).to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The cases that a proposal adds, and those that it takes out.
fn proposed_cases(folder: &Folder, proposal: &Proposal) -> Vec<CaseSides> {
    let content = &proposal.content;
    let as_value = |case: &satiety::bench::BenchmarkCase| serde_json::to_value(case).unwrap_or_default();
    let known = |suite: &str, id: &str| {
        let cases = &folder.suite(suite)?.suite.cases;
        cases.iter().find(|case| case.case_id == id).map(as_value)
    };
    let side = |suite: &str, case_id: &str, new: Option<&satiety::bench::BenchmarkCase>| CaseSides {
        suite: suite.to_owned(),
        case_id: case_id.to_owned(),
        old: known(suite, case_id),
        new: new.map(as_value),
    };
    let benchmarks = content.new_benchmarks.iter().flat_map(|benchmark| {
        let cases = benchmark.cases.iter();
        cases.map(|case| side(&benchmark.id, &case.case_id, Some(case)))
    });
    let edges = content.new_edge_cases.iter().filter_map(|edge| {
        let (suite, case) = (edge.suite.as_deref()?, edge.case.as_ref()?);
        Some(side(suite, &case.case_id, Some(case)))
    });
    let retirements = content.retirements.iter().flat_map(|retired| {
        [
            side(&retired.suite, &retired.case_id, None),
            side(
                &retired.suite,
                &retired.replacement.case_id,
                Some(&retired.replacement),
            ),
        ]
    });
    benchmarks.chain(edges).chain(retirements).collect()
}

fn signed_ring(ring: &KeyRing) -> Vec<u8> {
    let value = serde_json::to_value(ring).unwrap_or_default();
    format!("{KEYS_DOMAIN}{}", canonical_json(&value)).into_bytes()
}

/// The keys of the repository, if they are those that the log knows.
pub(super) fn trusted(state: &State, folder: &Folder) -> Result<KeyRing, EngineError> {
    let (file, ring) = ring_of(&folder.root)?;
    let place = file.unwrap_or_else(|| PathBuf::from("satiety.toml"));
    if let Some(known) = state.known_keys()
        && let Some(difference) = difference(&known, &ring)
    {
        return Err(HarnessError::KeysChanged {
            place: shown(&place),
            difference,
        }
        .into());
    }
    if ring.approvers.is_empty() {
        return Err(HarnessError::NoApprovers { place: shown(&place) }.into());
    }
    Ok(ring)
}

/// Whether two sets of keys count the same people.
pub(super) fn same_keys(known: &KeyRing, found: &KeyRing) -> bool {
    difference(known, found).is_none()
}

fn difference(known: &KeyRing, found: &KeyRing) -> Option<String> {
    let added = found
        .approvers
        .iter()
        .filter(|key| !known.approvers.contains(key));
    let gone = known
        .approvers
        .iter()
        .filter(|key| !found.approvers.contains(key));
    let mut words: Vec<String> = added
        .map(|key| format!("{} was added or changed", key.name))
        .collect();
    words.extend(gone.map(|key| format!("{} was removed or changed", key.name)));
    // An agent's key that is no longer known as one would count as a person's.
    words.extend(
        known
            .agent_keys
            .iter()
            .filter(|key| !found.agent_keys.contains(key))
            .map(|_| "a key is no longer marked as an agent's".to_owned()),
    );
    (!words.is_empty()).then(|| words.join(", "))
}

fn waiting(expansion: &Expansion) -> Result<&Proposal, EngineError> {
    match (&expansion.proposal, expansion.phase) {
        // Once more, where the first approval ran out before anything was touched.
        (Some(proposal), Phase::AwaitingApproval | Phase::Archiving) => Ok(proposal),
        _ => Err(HarnessError::Phase {
            id: expansion.expansion_id.clone(),
            state: format!(
                "has nothing that waits for approval; it is in phase {:?}",
                expansion.phase
            ),
            hint: "`satiety harness status` tells what is next".into(),
        }
        .into()),
    }
}

/// After an expansion that came to nothing the window may open another, once fresh cycles are in.
pub(super) async fn release(
    state: &State,
    expansion: &Expansion,
    writing: Writing,
) -> Result<Writing, EngineError> {
    let Some(mut aggregate) = state.aggregate().await? else {
        return Ok(writing);
    };
    aggregate.release(&expansion.expansion_id, &ConsistencyThresholds::default());
    Ok(writing.aggregate(&aggregate))
}
