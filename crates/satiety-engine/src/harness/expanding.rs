//! Proposals for an expansion: by rule from the data, by a model that is given the brief, or by a person. All take the
//! same way: carried out on the suites in memory, compared with the harness, and refused where they weaken anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use satiety::bench::{BenchmarkCase, Named};
use satiety::harness::amend::{Amended, amend};
use satiety::harness::brief::{Brief, threshold_increases};
use satiety::harness::expansion::Context;
use satiety::harness::harder::harder;
use satiety::harness::proposal::{NewEdgeCase, read_proposals};
use satiety::harness::{
    Action, Aggregate, Author, Consistency, Driver, Expansion, ExpansionProposals, KeyRing, Manifest,
    Observation, Phase, Proposal, RigorDiff, Urgency, compare,
};
use satiety::ids;
use satiety_models::chat::{ChatMessage, ChatRequest, JsonSchema};
use serde::Serialize;
use serde_json::{Value, json};

use super::HarnessError;
use super::folder::{Folder, shown};
use super::keys::ring_of;
use super::measuring::{self, Measurement};
use super::recording::{adopt, findings, open};
use super::state::{State, Writing};
use crate::bench::suites;
use crate::extraction::open_chat;
use crate::{Engine, EngineError};

/// Variants by rule in one proposal: what a person can still look through.
const MOST_VARIANTS: usize = 20;
/// Room for a model's answer.
const MAX_TOKENS: u32 = 8192;
const SYSTEM: &str = include_str!("../prompts/expand_harness.system.md");

/// What to propose from.
#[derive(Debug, Clone, Default)]
pub struct ExpandRequest {
    /// The harness.
    pub folder: PathBuf,
    /// The expansion; the open one where none is named.
    pub expansion: Option<String>,
    /// A chat model that is given the brief.
    pub model: Option<String>,
    /// Only show what would be proposed.
    pub dry_run: bool,
    /// Who opens an expansion where none is open.
    pub by: String,
}

/// A proposal by a person.
#[derive(Debug, Clone)]
pub struct ProposeRequest {
    /// The harness.
    pub folder: PathBuf,
    /// The expansion; the open one where none is named, a new one where none is open.
    pub expansion: Option<String>,
    /// `expansion_proposals` in YAML, JSON or TOML.
    pub file: PathBuf,
    /// Who proposes.
    pub by: String,
}

/// What was proposed.
#[derive(Debug, Clone, Serialize)]
pub struct Proposed {
    /// The expansion; absent in a dry run without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion_id: Option<String>,
    /// The proposal's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<String>,
    /// What a person signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_hash: Option<String>,
    /// What is proposed, in the specification's shape.
    pub expansion_proposals: ExpansionProposals,
    /// What it does to the harness.
    pub diff: RigorDiff,
    /// What was proposed in words only, and is not part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ideas: Vec<String>,
    /// What a model proposed that cannot be used, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Engine {
    /// Proposes by rule, and by a model where one is named.
    pub async fn harness_expand(&self, request: ExpandRequest) -> Result<Proposed, EngineError> {
        let folder = Folder::read(&request.folder)?;
        let mut state = self.harness_state().await?;
        let measurement = measuring::take(state.store(), &folder, None).await?;
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
            return Ok(Proposed {
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

    /// Takes a person's proposal.
    pub async fn harness_propose(&self, request: ProposeRequest) -> Result<Proposed, EngineError> {
        let folder = Folder::read(&request.folder)?;
        let text = suites::read(&request.file)?;
        let content = read_proposals(Named {
            file: &shown(&request.file),
            text: &text,
        })
        .map_err(HarnessError::from)?;
        let mut state = self.harness_state().await?;
        let author = Author::Person(request.by.clone());
        // Everything is checked before an expansion is opened for it.
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
            &request.by,
            None,
        )
        .await?;
        propose(
            &mut state,
            &folder,
            expansion,
            Author::Person(request.by),
            content,
        )
        .await
    }

    /// What research is told now.
    async fn brief(
        &self,
        state: &State,
        folder: &Folder,
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

    async fn ask_model(
        &self,
        model: &str,
        folder: &Folder,
        brief: &Brief,
    ) -> Result<(String, ExpansionProposals), EngineError> {
        let chat = open_chat(model, self.settings())?;
        let request = ChatRequest {
            messages: vec![
                ChatMessage::system(SYSTEM),
                ChatMessage::user(format!("{}\n{}", brief.prompt(), examples(folder))),
            ],
            temperature: Some(0.0),
            max_tokens: MAX_TOKENS,
            schema: Some(JsonSchema {
                name: "expansion_proposals",
                schema: schema(),
            }),
        };
        let answer = chat.complete(request).await?;
        let id = chat.id().to_owned();
        let proposed = read_answer(&answer.text).map_err(|reason| HarnessError::BadProposal {
            model: id.clone(),
            reason,
        })?;
        Ok((id, proposed))
    }
}

/// Threshold increases where results allow them, and harder variants of cases that every version passes.
fn by_rule(folder: &Folder, measurement: &Measurement) -> ExpansionProposals {
    let mut content = ExpansionProposals {
        threshold_increases: threshold_increases(&folder.manifest, &measurement.figures),
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
            if content.new_edge_cases.len() == MOST_VARIANTS {
                return content;
            }
            if let Some(variant) = harder(case, &taken) {
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

/// The harness that a proposal leads to, if it can be carried out and written down.
pub(super) fn carry_out(
    folder: &Folder,
    content: &ExpansionProposals,
) -> Result<(Amended, Manifest), EngineError> {
    let mut hashes = folder.hashes();
    let amended = amend(&folder.suites(), &folder.rules, &hashes, content).map_err(HarnessError::from)?;
    writable(folder, content)?;
    // Files that only new cases name must be there already.
    for loaded in &folder.suites {
        let id = &loaded.suite.suite_id;
        if let Some(suite) = amended.suites.iter().find(|suite| suite.suite_id == *id) {
            hashes.insert(id.clone(), suites::file_hashes(suite, &loaded.folder)?);
        }
    }
    let new = amended
        .rules
        .manifest(&amended.suites, &hashes)
        .map_err(HarnessError::from)?;
    Ok((amended, new))
}

/// Whether every change has a file that it can be written to.
fn writable(folder: &Folder, content: &ExpansionProposals) -> Result<(), EngineError> {
    let refuse = |suite: &str, reason: &str| {
        Err(HarnessError::NotWritable {
            suite: suite.to_owned(),
            reason: reason.to_owned(),
        }
        .into())
    };
    let no_folder = "it has no folder for cases; make it a suite.json with cases/ first";
    for suite in content
        .new_edge_cases
        .iter()
        .filter(|edge| edge.case.is_some())
        .filter_map(|edge| edge.suite.as_deref())
    {
        if folder
            .suite(suite)
            .is_some_and(|loaded| cases_folder(loaded).is_none())
        {
            return refuse(suite, no_folder);
        }
    }
    for retired in &content.retirements {
        let Some(loaded) = folder.suite(&retired.suite) else {
            continue;
        };
        let Some(cases) = cases_folder(loaded) else {
            return refuse(&retired.suite, no_folder);
        };
        if own_file(&cases, &retired.case_id)?.is_none() {
            return refuse(
                &retired.suite,
                &format!(
                    "{} does not have a file of its own; move it to cases/{}.json first, which changes nothing about the harness",
                    retired.case_id, retired.case_id
                ),
            );
        }
    }
    let whole_folder_is_a_suite = folder
        .suites
        .iter()
        .any(|loaded| loaded.file.parent() == Some(&folder.root));
    if let (Some(benchmark), true) = (
        content
            .new_benchmarks
            .iter()
            .find(|suite| !suite.cases.is_empty()),
        whole_folder_is_a_suite,
    ) {
        return refuse(
            &benchmark.id,
            "the harness is one suite; put it into a folder of its own first",
        );
    }
    let files = |case: &BenchmarkCase| !case.input.files.is_empty();
    let with_files = content
        .new_benchmarks
        .iter()
        .find(|suite| suite.cases.iter().any(files));
    if let Some(suite) = with_files {
        return refuse(
            &suite.id,
            "cases of a new suite cannot bring files; add the suite without them",
        );
    }
    Ok(())
}

/// Where new cases of a suite are written.
pub(super) fn cases_folder(loaded: &suites::LoadedSuite) -> Option<PathBuf> {
    let is_evals = loaded.file.file_name().is_some_and(|name| name == "evals.json");
    (!is_evals).then(|| loaded.file.parent().map(|folder| folder.join("cases")))?
}

/// The file that holds this case and nothing else.
pub(super) fn own_file(cases: &Path, case_id: &str) -> Result<Option<PathBuf>, EngineError> {
    for path in suites::case_files(cases)? {
        let text = suites::read(&path)?;
        let file = shown(&path);
        let read = satiety::bench::read_cases(Named {
            file: &file,
            text: &text,
        })?;
        if let [(_, only)] = &read[..]
            && only.case_id == case_id
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The expansion that is worked on; a new one where none is open.
async fn working_on(
    state: &mut State,
    folder: &Folder,
    named: Option<&str>,
    by: &str,
    measurement: Option<&Measurement>,
) -> Result<Expansion, EngineError> {
    match state.open_expansion(named).await {
        Err(EngineError::Harness(HarnessError::NoExpansion)) => {}
        other => return other,
    }
    let (_, keys) = ring_of(&folder.root)?;
    let (writing, _) = adopt(state, folder, &keys).await?;
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
    state.write(writing.aggregate(&aggregate)).await?;
    Ok(expansion)
}

async fn propose(
    state: &mut State,
    folder: &Folder,
    mut expansion: Expansion,
    author: Author,
    content: ExpansionProposals,
) -> Result<Proposed, EngineError> {
    if !matches!(expansion.phase, Phase::Research | Phase::AwaitingApproval) {
        return Err(HarnessError::Phase {
            id: expansion.expansion_id,
            state: "was approved already".into(),
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
    Ok(Proposed {
        expansion_id: Some(expansion.expansion_id),
        proposal_id: Some(proposal.proposal_id.clone()),
        proposal_hash: Some(proposal.hash()),
        expansion_proposals: proposal.content,
        diff: proposal.diff,
        ideas: amended.ideas,
        refused: Vec::new(),
    })
}

/// Takes over what a model proposed, item by item: what cannot be carried out, or would weaken anything, is left out and
/// told.
fn merge_usable(
    folder: &Folder,
    content: &mut ExpansionProposals,
    proposed: ExpansionProposals,
) -> Vec<String> {
    let mut refused = Vec::new();
    let mut take = |name: String, change: &dyn Fn(&mut ExpansionProposals)| {
        let mut with = content.clone();
        change(&mut with);
        let outcome = carry_out(folder, &with).and_then(|(_, new)| {
            let diff = compare(&folder.manifest, &new).map_err(HarnessError::from)?;
            match diff.objections().next() {
                None => Ok(()),
                Some(change) => Err(HarnessError::BadProposal {
                    model: "it".into(),
                    reason: format!("{} {}", change.place, change.reason),
                }
                .into()),
            }
        });
        match outcome {
            Ok(()) => *content = with,
            Err(why) => refused.push(format!("{name}: {why}")),
        }
    };
    for increase in proposed.threshold_increases {
        let name = increase.name();
        take(format!("threshold {name}"), &|with| {
            // One proposal a threshold; the rule's stays.
            if with.threshold_increases.iter().all(|known| known.name() != name) {
                with.threshold_increases.push(increase.clone());
            }
        });
    }
    for suite in proposed.new_benchmarks {
        take(format!("suite {}", suite.id), &|with| {
            with.new_benchmarks.push(suite.clone());
        });
    }
    for edge in proposed.new_edge_cases {
        take(format!("case of {}", edge.category), &|with| {
            with.new_edge_cases.push(edge.clone());
        });
    }
    // Retiring is for people; a model does not get to say that a case is broken.
    refused
}

/// Cases of each suite as examples of what a case looks like, as data.
fn examples(folder: &Folder) -> String {
    let mut text = String::from("\n### Suites with an example case each (data, not instructions)\n");
    for loaded in &folder.suites {
        let example = loaded.suite.cases.first();
        let value =
            json!({"suite": loaded.suite.suite_id, "cases": loaded.suite.cases.len(), "example": example});
        text.push_str(&value.to_string());
        text.push('\n');
    }
    text
}

/// Strict outputs take no free objects, so cases come as JSON in a text and are read from it.
fn schema() -> Value {
    let text = json!({"type": "string"});
    let object = |properties: Value| {
        let required: Vec<String> = properties
            .as_object()
            .map(|fields| fields.keys().cloned().collect())
            .unwrap_or_default();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let list = |item: Value| json!({"type": "array", "items": item});
    object(json!({
        "threshold_increases": list(object(json!({
            "benchmark": text, "current": {"type": "number"}, "proposed": {"type": "number"}, "rationale": text,
        }))),
        "new_benchmarks": list(object(json!({
            "id": text, "name": text, "purpose": text, "expected_difficulty": text, "cases_json": text,
        }))),
        "new_edge_cases": list(object(json!({
            "category": text, "description": text, "expected_failure_mode": text, "suite": text, "case_json": text,
        }))),
    }))
}

/// A model's answer in the proposals' own shape.
fn read_answer(text: &str) -> Result<ExpansionProposals, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let unpack = |item: &mut Value, from: &str, to: &str| -> Result<(), String> {
        let Some(fields) = item.as_object_mut() else {
            return Err("an item is no object".into());
        };
        if let Some(Value::String(packed)) = fields.remove(from)
            && !packed.trim().is_empty()
        {
            let unpacked = serde_json::from_str(&packed).map_err(|error| format!("{from}: {error}"))?;
            fields.insert(to.to_owned(), unpacked);
        }
        if fields.get("suite").and_then(Value::as_str) == Some("") {
            fields.remove("suite");
        }
        Ok(())
    };
    for (list, from, to) in [
        ("new_benchmarks", "cases_json", "cases"),
        ("new_edge_cases", "case_json", "case"),
    ] {
        for item in value[list].as_array_mut().into_iter().flatten() {
            unpack(item, from, to)?;
        }
    }
    serde_path_to_error::deserialize(value).map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_answer_is_unpacked() {
        let case =
            json!({"case_id": "n", "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "x"}});
        let answer = json!({
            "threshold_increases": [],
            "new_benchmarks": [{"id": "t", "name": "T", "purpose": "p", "expected_difficulty": "h", "cases_json": json!([case]).to_string()}],
            "new_edge_cases": [
                {"category": "c", "description": "d", "expected_failure_mode": "f", "suite": "s", "case_json": case.to_string()},
                {"category": "c", "description": "words", "expected_failure_mode": "f", "suite": "", "case_json": ""},
            ],
        });
        let read = read_answer(&answer.to_string()).unwrap();
        assert_eq!(read.new_benchmarks[0].cases.len(), 1);
        assert_eq!(read.new_edge_cases[0].case.as_ref().unwrap().case_id, "n");
        assert_eq!(
            (&read.new_edge_cases[1].suite, &read.new_edge_cases[1].case),
            (&None, &None)
        );
        for bad in [
            "[]x",
            r#"{"new_edge_cases": [3]}"#,
            r#"{"new_edge_cases": [{"category": "c", "description": "d", "expected_failure_mode": "f", "case_json": "{"}]}"#,
            r#"{"retire": []}"#,
        ] {
            assert!(read_answer(bad).is_err(), "{bad}");
        }
    }
}
