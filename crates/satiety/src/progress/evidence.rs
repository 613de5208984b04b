//! Findings about a step that tell a stuck agent from a working one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The same action had the same outcome before.
    ExactRepeat,
    /// A similar action had a similar outcome before.
    NearRepeat,
    /// The repeats form a cycle, or follow one another.
    Cycle,
    /// Another action failed with the same error.
    SameError,
    /// Another action brought the same result.
    Stagnation,
    /// A similar edit changes something else.
    Revision,
    /// The edit takes back an earlier one.
    Undo,
    /// The same content was read long before.
    Reread,
    /// A long series of steps has no new file, query or result.
    NoNewTarget,
    /// The cost of steps grows without new results.
    CostGrowth,
    /// The same question was asked before.
    RepeatedQuestion,
    /// The same text was written before.
    RepeatedText,
}

impl EvidenceKind {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExactRepeat => "exact_repeat",
            Self::NearRepeat => "near_repeat",
            Self::Cycle => "cycle",
            Self::SameError => "same_error",
            Self::Stagnation => "stagnation",
            Self::Revision => "revision",
            Self::Undo => "undo",
            Self::Reread => "reread",
            Self::NoNewTarget => "no_new_target",
            Self::CostGrowth => "cost_growth",
            Self::RepeatedQuestion => "repeated_question",
            Self::RepeatedText => "repeated_text",
        }
    }
}

impl std::fmt::Display for EvidenceKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// One finding about a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProgressEvidence")]
pub struct Evidence {
    /// What was found.
    pub kind: EvidenceKind,
    /// How much the finding raises the level, in nats.
    pub weight: f64,
    /// The earlier step (from 1) that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_step: Option<usize>,
    /// Length of the cycle in steps, for [`EvidenceKind::Cycle`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<usize>,
}

impl Evidence {
    pub(super) fn new(kind: EvidenceKind, weight: f64, earlier_step: Option<usize>) -> Self {
        Self {
            kind,
            weight,
            earlier_step,
            period: None,
        }
    }

    /// The finding in words, such as "same action and outcome as step 4".
    pub fn describe(&self) -> String {
        let earlier = self.earlier_step.map(|step| format!("step {step}"));
        let with = |text: &str| match &earlier {
            Some(earlier) => format!("{text} {earlier}"),
            None => text
                .trim_end_matches([' ', ','])
                .trim_end_matches(" as")
                .trim_end_matches(" than")
                .to_owned(),
        };
        match self.kind {
            EvidenceKind::ExactRepeat => with("same action and outcome as"),
            EvidenceKind::NearRepeat => with("similar action and outcome as"),
            EvidenceKind::Cycle if self.period == Some(1) => {
                "again and again without anything between".to_owned()
            }
            EvidenceKind::Cycle => format!("cycle of {} steps", self.period.unwrap_or(2)),
            EvidenceKind::SameError => with("same error as"),
            EvidenceKind::Stagnation => with("other action, same result as"),
            EvidenceKind::Revision => with("revises"),
            EvidenceKind::Undo => with("takes back"),
            EvidenceKind::Reread => with("already read in"),
            EvidenceKind::NoNewTarget => "no new file, query or result for many steps".to_owned(),
            EvidenceKind::CostGrowth => "cost grows without new results".to_owned(),
            EvidenceKind::RepeatedQuestion => with("same question as"),
            EvidenceKind::RepeatedText => with("same text as"),
        }
    }
}
