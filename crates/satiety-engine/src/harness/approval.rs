//! Human approval: the pending proposal, a person's signature or rejection of it, and the keys that may sign.

use crate::handles::HarnessOperations;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use satiety::Hint;
use satiety::bench::canonical_json;
use satiety::harness::approval::{LONGEST, check_signature};
use satiety::harness::expansion::{Context, Justification};
use satiety::harness::{
    Approval, Change, ConsistencyThresholds, Expansion, KeyRing, Observation, Phase, Proposal, Rigor,
    Statement,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::HarnessError;
use super::check::CaseSides;
use super::directory::{HarnessDirectory, display_path};
use super::keys::{KeyFile, ring_of};
use super::state::{State, Writing, short};
use crate::EngineError;

/// Domain separator: a signature cannot be mistaken for one over anything else with the same key.
const KEYS_DOMAIN: &str = "satiety harness keys v1\n";

/// Proposal that is waiting for approval.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Pending {
    /// Id of the expansion.
    pub expansion_id: String,
    /// Reason why the expansion was opened.
    pub trigger_reason: String,
    /// Complete content of the proposal.
    pub proposal: Proposal,
    /// Hash that a person signs.
    pub proposal_hash: String,
    /// Names of the people who may approve.
    pub approvers: Vec<String>,
    /// Changes that make the harness harder.
    pub harder: Vec<Change>,
    /// Changes that keep its rigor, such as retirements.
    pub neutral: Vec<Change>,
    /// Complete content of each changed case, before and after.
    pub cases: Vec<CaseSides>,
}

/// Approval or rejection of a proposal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApprovalDecision {
    /// Id of the expansion.
    pub expansion_id: String,
    /// Phase of the expansion after the decision.
    pub phase: Phase,
    /// Name of the person who decided.
    pub by: String,
    /// Signed hash, or the reason for rejection.
    pub detail: String,
}

/// Keys that may approve.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Keys {
    /// Path of the settings file that was found.
    pub file: Option<String>,
    /// Approver keys in the settings file.
    pub approvers: Vec<satiety::harness::ApproverKey>,
    /// Public keys of agents, which never count.
    pub agent_keys: Vec<String>,
    /// Whether the log has the same keys; absent before the first cycle.
    pub known: Option<bool>,
    /// Description of the difference to the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl HarnessOperations<'_> {
    /// Returns the proposal that is waiting for approval.
    pub async fn pending(self, folder: &Path, expansion: Option<&str>) -> Result<Pending, EngineError> {
        let folder = HarnessDirectory::read(folder)?;
        let state = self.history_of(&folder).await?;
        let expansion = state.open_expansion(expansion).await?;
        check_active_version(&state, &expansion)?;
        let keys = trusted(&state, &folder)?;
        let proposal = pending_proposal(&expansion)?.clone();
        let changes_with = |rigor: Rigor| -> Vec<Change> {
            let changes = proposal.diff.changes.iter();
            changes.filter(|change| change.rigor == rigor).cloned().collect()
        };
        Ok(Pending {
            trigger_reason: expansion.trigger_reason.clone(),
            expansion_id: expansion.expansion_id,
            proposal_hash: proposal.hash(),
            approvers: keys.approvers.into_iter().map(|key| key.name).collect(),
            harder: changes_with(Rigor::Harder),
            neutral: changes_with(Rigor::Neutral),
            cases: proposed_cases(&folder, &proposal),
            proposal,
        })
    }

    /// Signs the pending proposal with a person's key; records nothing.
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
            .map_err(|_| HarnessError::Key("approval lifetime must be at most 30 days".into()))?;
        key.approve(
            Statement::about(&pending.proposal, &key.name, now, expires),
            passphrase,
        )
    }

    /// Records a signed approval. No surface has any other way to approve.
    pub async fn approve(self, folder: &Path, approval: Approval) -> Result<ApprovalDecision, EngineError> {
        let folder = HarnessDirectory::read(folder)?;
        let mut state = self.history_of(&folder).await?;
        let mut expansion = state.expansion(&approval.statement.expansion_id).await?;
        let keys = trusted(&state, &folder)?;
        if !expansion.is_over() {
            check_active_version(&state, &expansion)?;
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

    /// Rejects a proposal. No signature is required, because nothing changes.
    pub async fn reject(
        self,
        folder: &Path,
        expansion: Option<&str>,
        ending: Justification,
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

    /// Lists the keys that may approve.
    pub async fn keys(self, folder: &Path) -> Result<Keys, EngineError> {
        let (file, ring) = ring_of(folder)?;
        let known = self.state(folder).await?.known_keys();
        let difference = known.as_ref().and_then(|known| difference(known, &ring));
        Ok(Keys {
            file: file.map(|file| display_path(&file)),
            known: known.map(|_| difference.is_none()),
            difference,
            approvers: ring.approvers,
            agent_keys: ring.agent_keys,
        })
    }

    /// Signs a change of the keys with a previously trusted key.
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

/// Checks that an expansion starts from the active version, otherwise it would undo later additions.
pub(super) fn check_active_version(state: &State, expansion: &Expansion) -> Result<(), HarnessError> {
    match state.version() {
        Some(version) if version != expansion.from_version => Err(HarnessError::Stale {
            id: expansion.expansion_id.clone(),
            from: short(&expansion.from_version).to_owned(),
            in_force: short(version).to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Cases that a proposal adds, and those that it retires.
fn proposed_cases(folder: &HarnessDirectory, proposal: &Proposal) -> Vec<CaseSides> {
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

/// Keys of the repository, if they match those in the log.
pub(super) fn trusted(state: &State, folder: &HarnessDirectory) -> Result<KeyRing, EngineError> {
    let (file, ring) = ring_of(&folder.root)?;
    let place = file.unwrap_or_else(|| PathBuf::from("satiety.toml"));
    if let Some(known) = state.known_keys()
        && let Some(difference) = difference(&known, &ring)
    {
        return Err(HarnessError::KeysChanged {
            place: display_path(&place),
            difference,
        }
        .into());
    }
    if ring.approvers.is_empty() {
        return Err(HarnessError::NoApprovers {
            place: display_path(&place),
        }
        .into());
    }
    Ok(ring)
}

/// Whether two key rings trust the same people.
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
    // An agent's key that is no longer marked would count as a person's.
    words.extend(
        known
            .agent_keys
            .iter()
            .filter(|key| !found.agent_keys.contains(key))
            .map(|_| "a key is no longer marked as an agent's".to_owned()),
    );
    (!words.is_empty()).then(|| words.join(", "))
}

fn pending_proposal(expansion: &Expansion) -> Result<&Proposal, EngineError> {
    match (&expansion.proposal, expansion.phase) {
        // Again, if the first approval expired before anything was changed.
        (Some(proposal), Phase::AwaitingApproval | Phase::Archiving) => Ok(proposal),
        _ => Err(HarnessError::Phase {
            id: expansion.expansion_id.clone(),
            state: format!(
                "has no proposal waiting for approval; it is in phase {:?}",
                expansion.phase
            ),
            hint: Hint::with_command("read the status to see the next step", "satiety harness status"),
        }
        .into()),
    }
}

/// After an expansion without result the window may open another, once new cycles are recorded.
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
