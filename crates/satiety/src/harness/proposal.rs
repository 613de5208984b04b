//! Expansion proposals in the specification's format, bound to the harness versions before and after.
//!
//! A proposal that weakens the harness cannot be created, and one that contradicts its manifests is rejected.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::manifest::{Manifest, ManifestError, RigorDiff, compare};
use crate::bench::hash::content_hash;
use crate::bench::reader::{Named, SuiteError, parse};
use crate::bench::suite::BenchmarkCase;

/// Content of a proposal, as written by research.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpansionProposals {
    /// Thresholds that recent results permit to tighten.
    pub threshold_increases: Vec<ThresholdIncrease>,
    /// New suites to add.
    pub new_benchmarks: Vec<NewBenchmark>,
    /// New cases for existing suites.
    pub new_edge_cases: Vec<NewEdgeCase>,
    /// Broken cases to retire, each with a replacement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retirements: Vec<RetireCase>,
}

/// Threshold to be tightened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdIncrease {
    /// Name of the threshold in the manifest, or of its suite if `metric` is given.
    pub benchmark: String,
    /// Metric of the suite, such as `pass_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Current value of the threshold.
    pub current: f64,
    /// Proposed value of the threshold.
    pub proposed: f64,
    /// Reason for the change.
    pub rationale: String,
}

/// New suite to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBenchmark {
    /// Id of the suite, also its directory name.
    pub id: String,
    /// Display name of the suite.
    pub name: String,
    /// What the suite tests.
    pub purpose: String,
    /// How difficult the suite should be.
    pub expected_difficulty: String,
    /// Cases of the suite; without cases the suite is only an idea.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<BenchmarkCase>,
}

/// New case for an existing suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEdgeCase {
    /// Category of the case.
    pub category: String,
    /// What the case tests.
    pub description: String,
    /// Failure that the case should provoke.
    pub expected_failure_mode: String,
    /// Id of the suite that receives the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Definition of the case; without one the case is only an idea.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<BenchmarkCase>,
}

/// Broken case to be retired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetireCase {
    /// Id of the suite.
    pub suite: String,
    /// Id of the broken case.
    pub case_id: String,
    /// What is broken about the case.
    pub reason: String,
    /// Name of the person who audited the case.
    pub audited_by: String,
    /// New case that replaces the broken one.
    pub replacement: BenchmarkCase,
}

/// Author of a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Author {
    /// Derived from results by rules.
    Rules,
    /// Written by a model, with its name.
    Model(String),
    /// Written by a person, with their name.
    Person(String),
    /// Written by an autonomous agent, under a name that it chose and that is not verified. Like any other
    /// proposal, it has no effect until a person signs it.
    Agent(String),
}

impl Author {
    /// Returns the label for reports.
    pub fn words(&self) -> String {
        match self {
            Self::Rules => "rule".into(),
            Self::Model(name) => format!("model {name}"),
            Self::Person(name) => name.clone(),
            Self::Agent(name) => format!("agent {name}"),
        }
    }
}

/// Reference to a case by suite and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CaseRef {
    /// Id of the suite.
    pub suite: String,
    /// Id of the case.
    pub case_id: String,
}

/// Proposal that can be approved: exactly one step from one harness version to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proposal {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Id of the expansion that it belongs to.
    pub expansion_id: String,
    /// Author of the proposal.
    pub author: Author,
    /// Time at which it was created.
    pub created_at: Timestamp,
    /// Proposed changes as written.
    pub content: ExpansionProposals,
    /// Effect on the rigor of the harness, with both versions.
    pub diff: RigorDiff,
    /// Cases of new suites, in the order in which they are enabled.
    pub benchmark_cases: Vec<CaseRef>,
    /// New cases of existing suites, enabled after those of new suites.
    pub edge_cases: Vec<CaseRef>,
}

/// Reason why a proposal is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProposalError {
    /// The proposal weakens the harness or is not comparable.
    #[error("the proposal weakens the harness or is not comparable: {}", .0.join("; "))]
    Weaker(Vec<String>),
    /// The proposal changes nothing.
    #[error("the proposal changes nothing")]
    Nothing,
    /// The content contradicts the manifests.
    #[error("the proposal changes {name} from {current} to {proposed}, but its manifests do not")]
    Disagrees {
        /// Name of the threshold.
        name: String,
        /// Current value according to the content.
        current: f64,
        /// Proposed value according to the content.
        proposed: f64,
    },
    /// The recorded difference does not match the manifests.
    #[error("the recorded difference does not match the manifests; create the proposal again")]
    Forged,
    /// A manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The text cannot be parsed as a proposal.
    #[error("{file}: {reason}")]
    Text {
        /// Name of the file.
        file: String,
        /// Problem with the text, including the field.
        reason: String,
    },
}

/// Parses `expansion_proposals` from YAML, JSON or TOML.
pub fn read_proposals(file: Named<'_>) -> Result<ExpansionProposals, ProposalError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ProposalFile {
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
    let file_content: ProposalFile = serde_path_to_error::deserialize(value)
        .map_err(|error| text(format!("{}: {}", error.path(), error.inner())))?;
    for (index, increase) in file_content
        .expansion_proposals
        .threshold_increases
        .iter()
        .enumerate()
    {
        if !(increase.current.is_finite() && increase.proposed.is_finite()) {
            return Err(text(format!("threshold_increases[{index}]: must be finite")));
        }
    }
    Ok(file_content.expansion_proposals)
}

impl Proposal {
    /// Creates a proposal from one harness to another; fails if the step is not admissible.
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

    /// Verifies that the proposal matches its manifests; a stored proposal is not trusted. The wording of the
    /// changes is not compared, so that a version that words them differently accepts stored proposals.
    pub fn check(&self, old: &Manifest, new: &Manifest) -> Result<(), ProposalError> {
        let mut again = Self::new(
            (self.proposal_id.clone(), self.expansion_id.clone()),
            self.author.clone(),
            self.created_at,
            self.content.clone(),
            old,
            new,
        )?;
        if again.diff.has_same_effect(&self.diff) {
            again.diff.clone_from(&self.diff);
        }
        if again == *self {
            Ok(())
        } else {
            Err(ProposalError::Forged)
        }
    }

    /// Returns the hash of the whole proposal, which an approval refers to.
    pub fn hash(&self) -> String {
        content_hash(self)
    }

    /// Returns the new cases in the order in which they are enabled.
    pub fn new_cases(&self) -> impl Iterator<Item = &CaseRef> {
        self.benchmark_cases.iter().chain(&self.edge_cases)
    }
}

impl ThresholdIncrease {
    /// Returns the name of the threshold in the manifest.
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

    /// Stored proposals are signed, so the format of authors must stay readable.
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
