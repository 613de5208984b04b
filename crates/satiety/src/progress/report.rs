//! Verdicts about steps and the report about a whole run.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::judge::Progress;
use super::profile::ProgressProfile;
use crate::trajectory::{Step, Trajectory};

/// Recommendation for an agent at work after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProgressSignal {
    /// The agent makes progress, or there is too little evidence against it.
    Continue,
    /// The agent repeats itself: add one sentence to its context and let it go on.
    Nudge,
    /// The agent ended by itself with nothing left open.
    Ship,
    /// Nothing new comes any more: the budget is better spent elsewhere.
    Stop,
    /// The agent is stuck: bring in a person or another approach.
    Escalate,
}

impl ProgressSignal {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "CONTINUE",
            Self::Nudge => "NUDGE",
            Self::Ship => "SHIP",
            Self::Stop => "STOP",
            Self::Escalate => "ESCALATE",
        }
    }

    /// Whether the agent should not go on by itself: STOP or ESCALATE.
    pub fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::Escalate)
    }
}

impl From<crate::dialogue::Signal> for ProgressSignal {
    fn from(signal: crate::dialogue::Signal) -> Self {
        match signal {
            crate::dialogue::Signal::Continue => Self::Continue,
            crate::dialogue::Signal::Ship => Self::Ship,
            crate::dialogue::Signal::Stop => Self::Stop,
            crate::dialogue::Signal::Escalate => Self::Escalate,
        }
    }
}

impl std::fmt::Display for ProgressSignal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Result of judging one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepVerdict {
    /// Number of the step, from 1.
    pub step: usize,
    /// Recommendation after this step.
    pub signal: ProgressSignal,
    /// Reason for the signal in one sentence.
    pub reason: String,
    /// Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nudge: Option<String>,
    /// Level of the CUSUM after this step, in nats; 0 for an agent at work.
    pub level: f64,
    /// Probability that the signal is right, from 0 to 1.
    pub confidence: f64,
    /// What the agent is expected to waste if it goes on.
    #[serde(flatten)]
    pub expected_waste: Waste,
    /// Findings about this step; empty if it brings something new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What is unfinished, for a step that ends the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_ends: Vec<OpenEnd>,
}

/// What an agent is expected to waste if it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waste {
    /// Expected number of further steps without a new result.
    #[serde(rename = "expected_waste")]
    pub steps: f64,
    /// Expected number of tokens for these steps, if the log has token counts.
    #[serde(
        default,
        rename = "expected_waste_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub tokens: Option<f64>,
    /// Expected cost of these steps in the currency of the log, if the log has costs.
    #[serde(
        default,
        rename = "expected_waste_cost",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost: Option<f64>,
}

/// Something that is unfinished at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEnd {
    /// Kind of the open end.
    pub kind: OpenEndKind,
    /// Step (from 1) in which it appeared, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The item, command or question, shortened.
    pub text: String,
}

/// Kinds of open ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenEndKind {
    /// An item of the plan or to-do list that is not done.
    PlanItem,
    /// A test, lint or build that failed and did not pass since.
    FailedCheck,
    /// A question without an answer.
    Question,
}

/// How often a tool was called, failed and repeated itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStats {
    /// Name of the tool.
    pub tool: String,
    /// Number of calls.
    pub calls: usize,
    /// Number of calls that failed.
    pub failures: usize,
    /// Number of calls in steps that repeat an earlier one.
    pub repeats: usize,
}

/// What a log shows: an agent at work, a discussion, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// At least half of the turns call tools: what the agent does is judged.
    Work,
    /// No turn calls a tool: what is said is judged.
    Deliberation,
    /// Some turns call tools, most do not: both are judged.
    Mixed,
}

impl LogKind {
    /// Determines what a run shows from the share of its turns that call tools.
    pub fn of(trajectory: &Trajectory) -> Self {
        let working = trajectory.steps.iter().filter(|step| step.has_calls()).count();
        Self::from_counts(working, trajectory.steps.len())
    }

    /// Determines what a run shows from the number of its turns that call tools, and of all turns.
    pub fn from_counts(working: usize, steps: usize) -> Self {
        match working {
            0 => Self::Deliberation,
            _ if working * 2 >= steps => Self::Work,
            _ => Self::Mixed,
        }
    }

    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Deliberation => "deliberation",
            Self::Mixed => "mixed",
        }
    }
}

/// Judgement of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReport {
    /// Id of the run, if the log has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the log shows.
    pub kind: LogKind,
    /// Recommendation after the last step.
    pub signal: ProgressSignal,
    /// Reason for the signal in one sentence.
    pub reason: String,
    /// Signal after each step.
    pub signal_by_step: Vec<ProgressSignal>,
    /// First step (from 1) with NUDGE.
    pub first_nudge_step: Option<usize>,
    /// First step (from 1) with STOP or ESCALATE.
    pub first_stop_step: Option<usize>,
    /// Probability that the signal is right, from 0 to 1.
    pub confidence: f64,
    /// What the agent is expected to waste if it goes on after the last step.
    #[serde(flatten)]
    pub expected_waste: Waste,
    /// Number of steps that brought nothing new.
    pub wasted_steps: usize,
    /// What is unfinished after the last step.
    pub open_ends: Vec<OpenEnd>,
    /// Calls, failures and repeats of each tool.
    pub tools: Vec<ToolStats>,
    /// Name of the profile.
    pub profile: String,
    /// Verdict after each step.
    pub steps: Vec<StepVerdict>,
}

/// Judges a recorded run. `vector_of` returns the embedding for the text of a step, if there is one; without
/// a sentence model pass `|_| None`.
///
/// A last turn without calls and without a reply is the final answer of an agent that has called tools.
pub fn judge<V: AsRef<[f32]>>(
    trajectory: &Trajectory,
    profile: Arc<ProgressProfile>,
    mut vector_of: impl FnMut(&Step) -> Option<V>,
) -> ProgressReport {
    let name = profile.name.clone();
    let mut progress = Progress::new(profile);
    let mut steps = Vec::with_capacity(trajectory.steps.len());
    let has_calls = trajectory.steps.iter().any(Step::has_calls);
    for (index, step) in trajectory.steps.iter().enumerate() {
        let vector = vector_of(step);
        let vector = vector.as_ref().map(AsRef::as_ref);
        let is_answer =
            index + 1 == trajectory.steps.len() && has_calls && !step.has_calls() && step.replies.is_empty();
        let verdict = if is_answer && !step.finish {
            let answer = Step {
                finish: true,
                ..step.clone()
            };
            progress.observe_with(&answer, vector)
        } else {
            progress.observe_with(step, vector)
        };
        steps.push(verdict);
    }
    let last = steps.last();
    ProgressReport {
        id: trajectory.id.clone(),
        kind: LogKind::of(trajectory),
        signal: last.map_or(ProgressSignal::Continue, |verdict| verdict.signal),
        reason: last.map_or_else(
            || "The log has no steps of an agent.".to_owned(),
            |verdict| verdict.reason.clone(),
        ),
        signal_by_step: steps.iter().map(|verdict| verdict.signal).collect(),
        first_nudge_step: steps
            .iter()
            .find(|verdict| verdict.signal == ProgressSignal::Nudge)
            .map(|verdict| verdict.step),
        first_stop_step: steps
            .iter()
            .find(|verdict| verdict.signal.stops())
            .map(|verdict| verdict.step),
        confidence: last.map_or(1.0, |verdict| verdict.confidence),
        expected_waste: last.map_or_else(Waste::default, |verdict| verdict.expected_waste),
        wasted_steps: progress.wasted_steps(),
        open_ends: progress.open_ends(),
        tools: progress.tools(),
        profile: name,
        steps,
    }
}
