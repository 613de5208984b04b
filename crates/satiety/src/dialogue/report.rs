//! The JSON shape of what goes out: seed section 4.3 with all its keys, and what this product adds.
//! Plain data; how it comes about is told in the modules that fill it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::Explanation;
use crate::stats::Interval;

/// Version of the formulas behind a report; raised when the same conversation would be scored differently.
pub(crate) const SCORING_VERSION: &str = "1";

/// What to do about a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// The next round still buys something.
    Continue,
    /// Converged with something to execute: go and do it.
    Ship,
    /// Converged with nothing to execute: end it.
    Stop,
    /// It cannot get there like this: change something.
    Escalate,
}

/// LOW, MEDIUM or HIGH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    Low,
    Medium,
    High,
}

impl Signal {
    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "CONTINUE",
            Self::Ship => "SHIP",
            Self::Stop => "STOP",
            Self::Escalate => "ESCALATE",
        }
    }
}

impl Level {
    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
        }
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The answer after one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The writer's number of the round.
    pub round: u32,
    /// What to do.
    pub signal: Signal,
    /// The three most telling reasons.
    pub reasons: Vec<String>,
    /// How new the round was.
    pub novelty: RoundNovelty,
    /// How ready it was.
    pub readiness: RoundReadiness,
    /// What looks wrong since this round.
    pub warnings: Vec<Warning>,
    /// The whole tree.
    pub explanation: Explanation,
}

/// The answer about a whole conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// 1 - combined novelty rate.
    pub score: f64,
    /// The parts of the score, of the last round.
    pub components: Components,
    /// Novelty of every round; `novelty` is the graded figure to follow over rounds.
    pub novelty_by_round: Vec<RoundNovelty>,
    /// Readiness of every round.
    pub readiness_by_round: Vec<RoundReadiness>,
    /// What the answer was after every round.
    pub signal_by_round: Vec<RoundSignal>,
    /// Number of the first round after which the answer was not CONTINUE.
    pub first_stop_round: Option<u32>,
    /// The answer.
    pub stop_recommendation: StopRecommendation,
    /// What to do, in a sentence.
    pub hint: String,
    /// The three most telling reasons.
    pub reasons: Vec<String>,
    /// What looks wrong, with evidence.
    pub warnings: Vec<Warning>,
    /// How much is still unsaid, after every round. Reported, not decided with.
    pub unseen: Unseen,
    /// Name of the profile that decided.
    pub profile: String,
    /// Version of the formulas.
    pub scoring_version: String,
    /// Which model gave the vectors of L2; null when L2 was not active.
    pub embedder: Option<String>,
    /// The active levels of novelty.
    pub levels: Vec<String>,
    /// Why, as a tree.
    pub explanation: Explanation,
}

/// Seed 4.3 `components`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    /// Minimum of the active levels.
    pub novelty_rate: f64,
    /// New normal forms over their running peak.
    #[serde(rename = "novelty_rate_L0")]
    pub novelty_rate_l0: f64,
    /// New by word overlap over their running peak.
    #[serde(rename = "novelty_rate_L1")]
    pub novelty_rate_l1: f64,
    /// New by meaning over their running peak; null without vectors.
    #[serde(rename = "novelty_rate_L2")]
    pub novelty_rate_l2: Option<f64>,
    /// The composite of seed 3.3.
    pub action_readiness: f64,
    /// Its three parts.
    pub action_readiness_detail: ReadinessDetail,
    /// Mean cosine of the last round's claims to the nearest claim of an earlier round; null without vectors.
    pub semantic_similarity: Option<f64>,
    /// Share of the last round's claims that endorse, modify or contradict an earlier one; null in the first round.
    pub structural_agreement: Option<f64>,
}

/// Seed 3.2: the parts of readiness.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "named and explained in seed section 3.2 and docs/dialogue.md"
)]
pub struct ReadinessDetail {
    pub next_actions_score: f64,
    pub open_questions_score: f64,
    pub blocker_score: f64,
}

/// How new one round was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundNovelty {
    /// The writer's number of the round.
    pub round: u32,
    /// Who spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Different claims made.
    pub claims: usize,
    /// Of these, new at every active level.
    pub new_claims: usize,
    /// The graded figure, 0 to 1: √(new terms × distance to what was said); null in a round without claims.
    pub novelty: Option<f64>,
    /// Combined rate: the minimum of the levels, each over its running peak.
    pub novelty_rate: f64,
    /// L0.
    #[serde(rename = "novelty_rate_L0")]
    pub novelty_rate_l0: f64,
    /// L1.
    #[serde(rename = "novelty_rate_L1")]
    pub novelty_rate_l1: f64,
    /// L2; null without vectors.
    #[serde(rename = "novelty_rate_L2")]
    pub novelty_rate_l2: Option<f64>,
    /// Share of the round's terms that no earlier round used.
    pub term_novelty: Option<f64>,
    /// LOW, MEDIUM or HIGH, as the profile's rule sees it.
    pub classification: Level,
    /// Mean cosine to the nearest earlier claim.
    pub semantic_similarity: Option<f64>,
    /// Share of claims that take a stance on an earlier one.
    pub structural_agreement: Option<f64>,
    /// Claims recognised as said before.
    pub restatements: Vec<Restatement>,
    /// New claims that may have been said before.
    pub possible_restatements: Vec<Restatement>,
}

/// A claim and the earlier one that it restates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restatement {
    /// The claim.
    pub claim: String,
    /// The earlier one.
    pub of: String,
    /// The round of the earlier one.
    pub of_round: u32,
    /// L0, L1 or L2.
    pub level: String,
    /// Jaccard similarity or cosine.
    pub similarity: f64,
}

/// How ready one round was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundReadiness {
    /// The writer's number of the round.
    pub round: u32,
    /// The composite of seed 3.3.
    pub action_readiness: f64,
    /// Its parts.
    pub detail: ReadinessDetail,
    /// LOW, MEDIUM or HIGH.
    pub classification: Level,
    /// Questions that are open after the round.
    pub open_questions: Vec<String>,
    /// Questions that the round answered.
    pub answered_questions: Vec<AnsweredQuestion>,
    /// Questions that vanished unanswered.
    pub dropped_questions: Vec<String>,
    /// Texts that speak of a blocker.
    pub blockers: Vec<String>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AnsweredQuestion {
    pub question: String,
    pub answer: String,
}

/// The answer after one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RoundSignal {
    pub round: u32,
    pub signal: Signal,
}

/// Seed 4.3 `stop_recommendation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRecommendation {
    /// What to do.
    pub signal: Signal,
    /// Novelty as the profile's rule sees it.
    pub novelty_classification: Level,
    /// Readiness of the last round.
    pub readiness_classification: Level,
    /// How many rounds in a row, up to now, had a low rate.
    pub k_consecutive_low_novelty: u32,
    /// Why, in sentences.
    pub rationale: String,
    /// What a SHIP leaves undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// Something that looks wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// What it is.
    pub kind: WarningKind,
    /// The round that gave rise to it.
    pub round: u32,
    /// What was seen, in a sentence.
    pub message: String,
    /// The texts and numbers that show it.
    pub evidence: Vec<Evidence>,
}

/// The kinds of warnings: seed section 5, loops, contradictions and empty rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// 5.1: the same claims in other words.
    ParaphraseGaming,
    /// 5.2: many claims, hardly any new.
    ClaimInflation,
    /// 5.3: ready to act while the ground still moves.
    FakeReadiness,
    /// 5.4: questions that vanish unanswered or hide among claims.
    QuestionSuppression,
    /// 5.5: sounds like a blocker without saying so.
    BlockerEvasion,
    /// 5.6: was ready, then went elsewhere.
    StaleReadiness,
    /// A round that says what an earlier one said.
    RepeatedRound,
    /// Two positions in turn, over and over.
    Alternation,
    /// A claim that negates an earlier one.
    Contradiction,
    /// A round without any content.
    EmptyRound,
}

/// A text that shows something, the earlier text it is set against, and how near they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The text.
    pub text: String,
    /// What it is set against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// The round of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_round: Option<u32>,
    /// A similarity or share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// How much is still unsaid.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// After every round.
    pub by_round: Vec<RoundUnseen>,
    /// The last of them in a sentence; absent while there is too little evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// How much was unsaid after one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundUnseen {
    /// The writer's number of the round.
    pub round: u32,
    /// Claims said so far, an agent's echo of itself counted once.
    pub claims: u64,
    /// Different claims so far.
    pub distinct: u64,
    /// Good-Turing: probability that the next claim is new.
    pub unseen_share: Option<f64>,
    /// Its 95 % interval (Esty).
    pub unseen_interval: Option<Interval>,
    /// Chao1: at least so many different claims are there to be made.
    pub total_estimate: Option<f64>,
    /// Its 95 % interval.
    pub total_interval: Option<Interval>,
    /// Why a number is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
}
