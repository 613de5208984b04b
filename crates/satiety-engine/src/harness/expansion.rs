//! Proposals for an expansion: by rule from the data, by a model with a research brief, or by a person. All
//! are processed alike: applied to the suites in memory, compared with the harness, and rejected if they
//! weaken anything.

use crate::handles::HarnessOperations;
use std::collections::BTreeSet;
use std::path::PathBuf;

use satiety::bench::Named;
use satiety::harness::brief::{Brief, threshold_increases};
use satiety::harness::expansion::Context;
use satiety::harness::proposal::{NewEdgeCase, read_proposals};
use satiety::harness::variants::harder_variant;
use satiety::harness::{
    Action, Aggregate, Author, Consistency, Driver, Expansion, ExpansionProposals, KeyRing, Observation,
    Phase, Proposal, RigorDiff, Urgency, compare,
};
use satiety::ids;
use schemars::JsonSchema;
use serde::Serialize;

use super::HarnessError;
use super::apply_steps::{carry_out, cases_folder};
use super::cycle::{adopt, findings, open};
use super::directory::{HarnessDirectory, display_path};
use super::keys::ring_of;
use super::measurement::{self, Measurement};
use super::model_proposal::merge_usable;
use super::state::{State, Writing};
use crate::EngineError;
use crate::bench::suites;

/// Maximum number of rule-based variants in a proposal, so that a person can still review it.
const MAX_VARIANTS: usize = 20;

/// Request for a proposal by rule or by a model.
#[derive(Debug, Clone, Default)]
pub struct ExpandRequest {
    pub folder: PathBuf,
    /// Id of the expansion; the open one if `None`.
    pub expansion: Option<String>,
    /// Chat model to send the brief to.
    pub model: Option<String>,
    /// Only show the proposal.
    pub dry_run: bool,
    /// Name of the person who opens an expansion if none is open.
    pub by: String,
}

/// Proposal written by a person or an agent.
#[derive(Debug, Clone)]
pub struct ProposeRequest {
    pub folder: PathBuf,
    /// Id of the expansion; if `None`, the open one or a new one.
    pub expansion: Option<String>,
    /// File with `expansion_proposals` in YAML, JSON or TOML.
    pub file: PathBuf,
    pub author: Author,
}

/// Proposal for an expansion and its effect.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProposeExpansionResponse {
    /// Id of the expansion; absent in a dry run without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion_id: Option<String>,
    /// Id of the proposal; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<String>,
    /// Hash that a person signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_hash: Option<String>,
    /// Proposed changes in the specification's format.
    pub expansion_proposals: ExpansionProposals,
    /// Effect of the proposal on the harness.
    pub diff: RigorDiff,
    /// Ideas given in words only, which are not part of the proposal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ideas: Vec<String>,
    /// Unusable items proposed by a model, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl HarnessOperations<'_> {
    /// Creates a proposal by rule, and with a model if one is given.
    pub async fn expand(self, request: ExpandRequest) -> Result<ProposeExpansionResponse, EngineError> {
        let folder = HarnessDirectory::read(&request.folder)?;
        let mut state = self.history_of(&folder).await?;
        let measurement = measurement::take(&state, &folder, None).await?;
        let mut content = by_rule(&folder, &measurement);
        let mut author = Author::Rules;
        let mut refused = Vec::new();
        if let Some(model) = &request.model {
            let expansion = state.open_expansion(request.expansion.as_deref()).await.ok();
            let brief = self
                .brief(&state, &folder, expansion.as_ref(), &measurement)
                .await?;
            let (id, proposed) = self.ask_model(model, &folder, &brief).await?;
            refused = merge_usable(&folder, &mut content, proposed);
            author = Author::Model(id);
        }
        if content == ExpansionProposals::default() {
            return Err(HarnessError::NothingToPropose.into());
        }
        let (amended, new) = carry_out(&folder, &content)?;
        if request.dry_run {
            return Ok(ProposeExpansionResponse {
                expansion_id: None,
                proposal_id: None,
                proposal_hash: None,
                diff: compare(&folder.manifest, &new).map_err(HarnessError::from)?,
                ideas: amended.ideas,
                refused,
                expansion_proposals: content,
            });
        }
        let expansion = working_on(
            &mut state,
            &folder,
            request.expansion.as_deref(),
            &request.by,
            Some(&measurement),
        )
        .await?;
        let mut proposed = propose(&mut state, &folder, expansion, author, content).await?;
        proposed.refused = refused;
        Ok(proposed)
    }

    /// Records a proposal from a file. Whatever its author, a person must sign it before anything changes.
    pub async fn propose(self, request: ProposeRequest) -> Result<ProposeExpansionResponse, EngineError> {
        let folder = HarnessDirectory::read(&request.folder)?;
        let text = suites::read(&request.file)?;
        let content = read_proposals(Named {
            file: &display_path(&request.file),
            text: &text,
        })
        .map_err(HarnessError::from)?;
        let mut state = self.history_of(&folder).await?;
        let author = request.author;
        // Check everything before an expansion is opened for it.
        let (_, new) = carry_out(&folder, &content)?;
        Proposal::new(
            ("", ""),
            author.clone(),
            state.now(),
            content.clone(),
            &folder.manifest,
            &new,
        )
        .map_err(HarnessError::from)?;
        let expansion = working_on(
            &mut state,
            &folder,
            request.expansion.as_deref(),
            &author.words(),
            None,
        )
        .await?;
        propose(&mut state, &folder, expansion, author, content).await
    }

    /// Current research brief.
    async fn brief(
        self,
        state: &State,
        folder: &HarnessDirectory,
        expansion: Option<&Expansion>,
        measurement: &Measurement,
    ) -> Result<Brief, EngineError> {
        let aggregate = state.aggregate().await?;
        let rolling = aggregate.unwrap_or_else(|| Aggregate::new("", Driver::default()));
        let reason = expansion.map_or("asked for by a person", |expansion| {
            expansion.trigger_reason.as_str()
        });
        let mut found = findings(folder, reason, &rolling.rolling_metrics, Some(measurement));
        Ok(serde_json::from_value(found["brief"].take())?)
    }
}

/// Proposes threshold increases that the results support, and harder variants of cases that every version
/// passes.
fn by_rule(folder: &HarnessDirectory, measurement: &Measurement) -> ExpansionProposals {
    let mut content = ExpansionProposals {
        threshold_increases: threshold_increases(&folder.manifest, &measurement.metric_values),
        ..ExpansionProposals::default()
    };
    for state in &measurement.suites {
        let (Some(loaded), Some(measured)) = (folder.suite(&state.suite_id), &state.measured) else {
            continue;
        };
        if cases_folder(loaded).is_none() {
            continue;
        }
        let dead: BTreeSet<&str> = measured.items.always_pass.iter().map(String::as_str).collect();
        let mut taken: BTreeSet<String> = loaded
            .suite
            .cases
            .iter()
            .map(|case| case.case_id.clone())
            .collect();
        let candidates = loaded
            .suite
            .cases
            .iter()
            .filter(|case| case.skip.is_none() && dead.contains(case.case_id.as_str()));
        for case in candidates {
            if content.new_edge_cases.len() == MAX_VARIANTS {
                return content;
            }
            if let Some(variant) = harder_variant(case, &taken) {
                taken.insert(variant.case.case_id.clone());
                content.new_edge_cases.push(NewEdgeCase {
                    category: "harder variant".into(),
                    description: format!("{} with {}", case.case_id, variant.how),
                    expected_failure_mode: format!("a system that only just passes {}", case.case_id),
                    suite: Some(state.suite_id.clone()),
                    case: Some(variant.case),
                });
            }
        }
    }
    content
}

/// The expansion to work on; a new one if none is open.
async fn working_on(
    state: &mut State,
    folder: &HarnessDirectory,
    named: Option<&str>,
    by: &str,
    measurement: Option<&Measurement>,
) -> Result<Expansion, EngineError> {
    match state.open_expansion(named).await {
        Err(EngineError::Harness(HarnessError::NoExpansion)) => {}
        other => return other,
    }
    let (_, keys) = ring_of(&folder.root)?;
    let adopts = state.version() != Some(folder.manifest.version().as_str());
    let (writing, _) = adopt(state, folder, &keys, Writing::default()).await?;
    let version = folder.manifest.version();
    let mut aggregate = state
        .aggregate()
        .await?
        .filter(|aggregate| aggregate.harness_version == version)
        .unwrap_or_else(|| Aggregate::new(&version, Driver::default()));
    let asked = Consistency {
        is_consistent: false,
        action: Action::TriggerExpansionResearch,
        reason: Some(format!("asked for by {by}")),
        urgency: Urgency::Low,
    };
    let (expansion, events) = open(state, folder, &aggregate, &asked, measurement)?;
    aggregate
        .latch(&expansion.expansion_id)
        .map_err(HarnessError::from)?;
    let mut writing: Writing = writing;
    for event in events {
        writing = writing.expansion(event, &expansion)?;
    }
    state.identify(folder).await?;
    state.write(writing.aggregate(&aggregate)).await?;
    if adopts || state.marks.anchor.is_none() {
        state.write_anchor(folder)?;
    }
    Ok(expansion)
}

async fn propose(
    state: &mut State,
    folder: &HarnessDirectory,
    mut expansion: Expansion,
    author: Author,
    content: ExpansionProposals,
) -> Result<ProposeExpansionResponse, EngineError> {
    if !matches!(expansion.phase, Phase::Research | Phase::AwaitingApproval) {
        return Err(HarnessError::Phase {
            id: expansion.expansion_id,
            state: "was already approved".into(),
            hint: "apply it, or reject it and propose again".into(),
        }
        .into());
    }
    let (amended, new) = carry_out(folder, &content)?;
    let proposal = Proposal::new(
        (
            ids::prefixed("proposal", uuid::Uuid::now_v7()),
            expansion.expansion_id.clone(),
        ),
        author,
        state.now(),
        content,
        &folder.manifest,
        &new,
    )
    .map_err(HarnessError::from)?;
    let context = Context {
        keys: &KeyRing::default(),
        spent: &state.spent(),
        now: state.now(),
    };
    let event = expansion
        .observe(
            Observation::Proposed {
                proposal: Box::new(proposal.clone()),
                old: Box::new(folder.manifest.clone()),
                new: Box::new(new.clone()),
            },
            &context,
        )
        .map_err(HarnessError::from)?;
    let writing = Writing::default()
        .expansion(event, &expansion)?
        .version(&new, None)?;
    state.write(writing).await?;
    Ok(ProposeExpansionResponse {
        expansion_id: Some(expansion.expansion_id),
        proposal_id: Some(proposal.proposal_id.clone()),
        proposal_hash: Some(proposal.hash()),
        expansion_proposals: proposal.content,
        diff: proposal.diff,
        ideas: amended.ideas,
        refused: Vec::new(),
    })
}
