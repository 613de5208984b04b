//! Effect of a task: scores before and after, and the learning index.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Weights of the learning index: knowledge gained, uncertainty reduced, context gained.
const LEARNING_WEIGHTS: [f64; 3] = [0.40, 0.35, 0.25];

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskResult")]
pub enum Outcome {
    /// The task was completed.
    Success,
    /// The task was completed in part.
    Partial,
    /// The task was attempted and failed.
    Failure,
    /// The task was abandoned before an attempt.
    Abandoned,
}

impl Outcome {
    /// All outcomes of a task.
    pub const ALL: [Self; 4] = [Self::Success, Self::Partial, Self::Failure, Self::Abandoned];

    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
            Self::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|outcome| outcome.name() == text);
        found.ok_or_else(|| {
            format!("unknown outcome `{text}` (expected one of: success, partial, failure, abandoned)")
        })
    }
}

/// Self-assessment of a task, each score from 0 to 100; unknown scores are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskScores {
    /// Knowledge about the task, from 0 to 100.
    pub knowledge: Option<f64>,
    /// Uncertainty about the task, from 0 to 100.
    pub uncertainty: Option<f64>,
    /// Completeness of the required context, from 0 to 100.
    pub context: Option<f64>,
}

impl TaskScores {
    /// Returns the first score that is out of range, by name.
    pub fn wrong(&self) -> Option<(&'static str, f64)> {
        let all = [
            ("knowledge score", self.knowledge),
            ("uncertainty score", self.uncertainty),
            ("context score", self.context),
        ];
        all.into_iter()
            .filter_map(|(name, score)| Some((name, score?)))
            .find(|(_, score)| !(0.0..=100.0).contains(score))
    }
}

/// Changes of the scores by a task. Positive is better; without a score before or after, the change is
/// absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDeltas {
    /// Knowledge score after minus before.
    pub knowledge_delta: Option<f64>,
    /// Uncertainty score before minus after.
    pub uncertainty_reduction: Option<f64>,
    /// Context score after minus before.
    pub context_improvement: Option<f64>,
    /// 0.40 knowledge + 0.35 uncertainty + 0.25 context, over the available parts.
    pub learning_index: Option<f64>,
}

/// Changes between two assessments of a task. The learning index is the weighted mean of the available parts.
///
/// ```
/// use satiety::memory::{TaskScores, task_deltas};
/// let before = TaskScores { knowledge: Some(40.0), uncertainty: Some(70.0), context: Some(50.0) };
/// let after = TaskScores { knowledge: Some(80.0), uncertainty: Some(30.0), context: Some(70.0) };
/// // 0.40 · 40 + 0.35 · 40 + 0.25 · 20
/// assert_eq!(task_deltas(before, after).learning_index, Some(35.0));
/// ```
pub fn task_deltas(before: TaskScores, after: TaskScores) -> TaskDeltas {
    let gain = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    let knowledge_delta = gain(before.knowledge, after.knowledge);
    let uncertainty_reduction = gain(after.uncertainty, before.uncertainty);
    let context_improvement = gain(before.context, after.context);
    let parts = [knowledge_delta, uncertainty_reduction, context_improvement];
    let (mut sum, mut weight) = (0.0, 0.0);
    for (part, share) in parts.into_iter().zip(LEARNING_WEIGHTS) {
        if let Some(part) = part {
            sum += share * part;
            weight += share;
        }
    }
    TaskDeltas {
        knowledge_delta,
        uncertainty_reduction,
        context_improvement,
        // Rounded to hundredths, so that whole-number scores yield results without rounding error.
        learning_index: (weight > 0.0).then(|| (sum / weight * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(knowledge: f64, uncertainty: Option<f64>, context: Option<f64>) -> TaskScores {
        TaskScores {
            knowledge: Some(knowledge),
            uncertainty,
            context,
        }
    }

    /// (0.40 · 10 + 0.35 · −20) / 0.75 = −4.
    #[test]
    fn parts_without_both_scores_are_omitted() {
        let deltas = task_deltas(
            scores(50.0, Some(20.0), Some(10.0)),
            scores(60.0, Some(40.0), None),
        );
        assert_eq!(deltas.context_improvement, None);
        assert_eq!(deltas.uncertainty_reduction, Some(-20.0));
        assert_eq!(deltas.learning_index, Some(-4.0));
        assert_eq!(
            task_deltas(TaskScores::default(), scores(60.0, None, None)),
            TaskDeltas::default()
        );
    }

    #[test]
    fn scores_are_from_0_to_100() {
        assert_eq!(scores(0.0, Some(100.0), None).wrong(), None);
        assert_eq!(
            scores(5.0, Some(100.5), None).wrong(),
            Some(("uncertainty score", 100.5))
        );
        assert!(scores(f64::NAN, None, None).wrong().is_some());
        for outcome in Outcome::ALL {
            assert_eq!(outcome.name().parse(), Ok(outcome));
        }
        assert!("done".parse::<Outcome>().is_err());
    }
}
