//! What an expansion proposes, in the specification's shape, bound to the two harnesses that it leads from and to.
//!
//! A proposal that would weaken anything cannot be made, and one that says something else than its manifests is refused.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::manifest::{Manifest, ManifestError, RigorDiff, compare};
use crate::bench::hash::content_hash;
use crate::bench::reader::{Named, SuiteError, parse};
use crate::bench::suite::BenchmarkCase;

/// What is proposed, as research writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpansionProposals {
    /// Thresholds that results allow to tighten.
    pub threshold_increases: Vec<ThresholdIncrease>,
    /// Whole new suites.
    pub new_benchmarks: Vec<NewBenchmark>,
    /// New cases of suites that are there.
    pub new_edge_cases: Vec<NewEdgeCase>,
    /// Broken cases to be taken out, each with a new case in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retirements: Vec<RetireCase>,
}

/// A threshold to tighten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdIncrease {
    /// The threshold's name in the manifest, or its suite when `metric` is given.
    pub benchmark: String,
    /// The figure of the suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// What it is.
    pub current: f64,
    /// What it should be.
    pub proposed: f64,
    /// Why.
    pub rationale: String,
}

/// A new suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBenchmark {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it tests.
    pub purpose: String,
    /// How hard it should be.
    pub expected_difficulty: String,
    /// Its cases, where they are written already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<BenchmarkCase>,
}

/// A new case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEdgeCase {
    /// What kind of case.
    pub category: String,
    /// What it tests.
    pub description: String,
    /// What should fail.
    pub expected_failure_mode: String,
    /// The suite that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The case, where it is written already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<BenchmarkCase>,
}

/// A broken case to be taken out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetireCase {
    /// Its suite.
    pub suite: String,
    /// The case.
    pub case_id: String,
    /// What is broken about it.
    pub reason: String,
    /// Who looked at it.
    pub audited_by: String,
    /// What takes its place.
    pub replacement: BenchmarkCase,
}

/// Who proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Author {
    /// Worked out from results by rules.
    Rules,
    /// A model.
    Model(String),
    /// A person.
    Person(String),
    /// A program that proposes by itself, under the name that it gives itself. Nobody vouches for it; like everybody's, its
    /// proposal counts for nothing until a person has signed it.
    Agent(String),
}

impl Author {
    /// Who it is, for people.
    pub fn words(&self) -> String {
        match self {
            Self::Rules => "rule".into(),
            Self::Model(name) => format!("model {name}"),
            Self::Person(name) => name.clone(),
            Self::Agent(name) => format!("agent {name}"),
        }
    }
}

/// A case by suite and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CaseRef {
    /// The suite.
    pub suite: String,
    /// The case.
    pub case_id: String,
}

/// A proposal that can be approved: exactly one step from one harness version to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proposal {
    /// Names it.
    pub proposal_id: String,
    /// The expansion that it belongs to.
    pub expansion_id: String,
    /// Who proposes.
    pub author: Author,
    /// When.
    pub created_at: Timestamp,
    /// What, in words and numbers.
    pub content: ExpansionProposals,
    /// What it does to the harness's rigor, with both versions.
    pub diff: RigorDiff,
    /// The cases of new suites, in the order in which they are enabled.
    pub benchmark_cases: Vec<CaseRef>,
    /// The new cases of suites that are there, enabled after those.
    pub edge_cases: Vec<CaseRef>,
}

/// Why something is no proposal.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProposalError {
    /// The ratchet turns one way.
    #[error("the proposal weakens the harness or cannot be compared with it: {}", .0.join("; "))]
    Weaker(Vec<String>),
    /// There is nothing to approve.
    #[error("the proposal changes nothing")]
    Nothing,
    /// Words and manifests differ.
    #[error(
        "the proposal says that {name} goes from {current} to {proposed}, and its manifests say otherwise; make them agree"
    )]
    Disagrees {
        /// Which threshold.
        name: String,
        /// What the words say it is.
        current: f64,
        /// What they say it should be.
        proposed: f64,
    },
    /// The recorded difference is not the real one.
    #[error("the proposal's recorded difference is not that between its manifests; propose it again")]
    Forged,
    /// A manifest is none.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The text is no proposal.
    #[error("{file}: {reason}")]
    Text {
        /// The file.
        file: String,
        /// What is wrong, with the field.
        reason: String,
    },
}

/// Reads `expansion_proposals` from YAML, JSON or TOML.
pub fn read_proposals(file: Named<'_>) -> Result<ExpansionProposals, ProposalError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        expansion_proposals: ExpansionProposals,
    }
    let text = |reason: String| ProposalError::Text {
        file: file.file.to_owned(),
        reason,
    };
    let value = parse(file).map_err(|error| match error {
        SuiteError::Syntax { reason, .. } => text(reason),
        other => text(other.to_string()),
    })?;
    let whole: Whole = serde_path_to_error::deserialize(value)
        .map_err(|error| text(format!("{}: {}", error.path(), error.inner())))?;
    for (index, increase) in whole.expansion_proposals.threshold_increases.iter().enumerate() {
        if !(increase.current.is_finite() && increase.proposed.is_finite()) {
            return Err(text(format!("threshold_increases[{index}]: not a finite number")));
        }
    }
    Ok(whole.expansion_proposals)
}

impl Proposal {
    /// A proposal from one harness to another. Refuses whatever is not admissible.
    pub fn new(
        (proposal_id, expansion_id): (impl Into<String>, impl Into<String>),
        author: Author,
        created_at: Timestamp,
        content: ExpansionProposals,
        old: &Manifest,
        new: &Manifest,
    ) -> Result<Self, ProposalError> {
        let diff = compare(old, new)?;
        let objections: Vec<String> = diff
            .objections()
            .map(|change| format!("{} {}", change.place, change.reason))
            .collect();
        if !objections.is_empty() {
            return Err(ProposalError::Weaker(objections));
        }
        if diff.from == diff.to {
            return Err(ProposalError::Nothing);
        }
        for increase in &content.threshold_increases {
            let name = increase.name();
            let value = |manifest: &Manifest| manifest.thresholds.get(&name).map(|threshold| threshold.value);
            if value(old) != Some(increase.current) || value(new) != Some(increase.proposed) {
                return Err(ProposalError::Disagrees {
                    name,
                    current: increase.current,
                    proposed: increase.proposed,
                });
            }
        }
        let (edge_cases, benchmark_cases) = new
            .new_cases(old)
            .into_iter()
            .map(|(suite, case_id)| CaseRef { suite, case_id })
            .partition(|case| old.suites.contains_key(&case.suite));
        Ok(Self {
            proposal_id: proposal_id.into(),
            expansion_id: expansion_id.into(),
            author,
            created_at,
            content,
            diff,
            benchmark_cases,
            edge_cases,
        })
    }

    /// Whether it is what its manifests make it; a proposal that was read from somewhere is not trusted.
    pub fn check(&self, old: &Manifest, new: &Manifest) -> Result<(), ProposalError> {
        let again = Self::new(
            (self.proposal_id.clone(), self.expansion_id.clone()),
            self.author.clone(),
            self.created_at,
            self.content.clone(),
            old,
            new,
        )?;
        if again == *self {
            Ok(())
        } else {
            Err(ProposalError::Forged)
        }
    }

    /// What an approval is about: everything above.
    pub fn hash(&self) -> String {
        content_hash(self)
    }

    /// The new cases in the order in which they are enabled.
    pub fn new_cases(&self) -> impl Iterator<Item = &CaseRef> {
        self.benchmark_cases.iter().chain(&self.edge_cases)
    }
}

impl ThresholdIncrease {
    /// The threshold's name in the manifest.
    pub fn name(&self) -> String {
        match &self.metric {
            Some(metric) => format!("{}/{metric}", self.benchmark),
            None => self.benchmark.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored proposals are signed as they are written, so what was written before an agent could be an author stays as it is.
    #[test]
    fn authors_are_read_as_they_were_stored() {
        for (stored, author, words) in [
            (r#"{"kind":"rules"}"#, Author::Rules, "rule"),
            (
                r#"{"kind":"model","name":"m"}"#,
                Author::Model("m".into()),
                "model m",
            ),
            (
                r#"{"kind":"person","name":"claude (over MCP)"}"#,
                Author::Person("claude (over MCP)".into()),
                "claude (over MCP)",
            ),
            (
                r#"{"kind":"agent","name":"claude"}"#,
                Author::Agent("claude".into()),
                "agent claude",
            ),
        ] {
            assert_eq!(serde_json::from_str::<Author>(stored).unwrap(), author);
            assert_eq!(serde_json::to_string(&author).unwrap(), stored);
            assert_eq!(author.words(), words);
        }
    }

    #[test]
    fn the_specifications_example_is_read() {
        let text = r#"
expansion_proposals:
  threshold_increases:
    - benchmark: "prompt-generation-benchmark-v1"
      current: 0.70
      proposed: 0.75
      rationale: "Consistently hitting >0.85"
  new_benchmarks:
    - id: "new-benchmark-id"
      name: "Description"
      purpose: "What it tests"
      expected_difficulty: "harder than existing"
  new_edge_cases:
    - category: "Category"
      description: "Edge case description"
      expected_failure_mode: "What should fail"
"#;
        let read = read_proposals(Named { file: "p.yaml", text }).unwrap();
        assert_eq!(read.threshold_increases[0].proposed, 0.75);
        assert_eq!((read.new_benchmarks.len(), read.new_edge_cases.len()), (1, 1));
        for (bad, says) in [
            (
                "expansion_proposals:\n  threshold_increases:\n    - benchmark: a\n",
                "threshold_increases[0]",
            ),
            (
                "expansion_proposals:\n  threshold_decreases: []\n",
                "threshold_decreases",
            ),
            (
                "expansion_proposals:\n  threshold_increases:\n    - {benchmark: a, current: 0.7, proposed: .nan, rationale: x}\n",
                ".nan",
            ),
        ] {
            let error = read_proposals(Named {
                file: "p.yaml",
                text: bad,
            })
            .unwrap_err()
            .to_string();
            assert!(
                error.contains("p.yaml") && error.contains(says),
                "{error} has no {says}"
            );
        }
    }
}
