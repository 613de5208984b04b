//! The JSON output format: all keys of seed section 4.3 and the additions of this product.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::Explanation;
use crate::stats::Interval;

/// Version of the scoring formulas; incremented when the same conversation would be scored differently.
pub(crate) const SCORING_VERSION: &str = "2";

/// Recommendation for a conversation after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Run another round: the conversation has not converged.
    Continue,
    /// Converged with actions to execute: carry them out.
    Ship,
    /// Converged with nothing to execute: end the conversation.
    Stop,
    /// Stuck or blocked: more rounds will not help, so change the setup.
    Escalate,
}

/// Classification of novelty or readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Low according to the thresholds of the profile.
    Low,
    /// Between the low and high thresholds of the profile.
    Medium,
    /// High according to the thresholds of the profile.
    High,
}

impl Signal {
    /// The name used in JSON.
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
    /// The name used in JSON.
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

/// Result of scoring one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RoundVerdict")]
pub struct Verdict {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Recommendation after this round.
    pub signal: Signal,
    /// The three strongest reasons for the signal.
    pub reasons: Vec<String>,
    /// Novelty metrics of the round.
    pub novelty: RoundNovelty,
    /// Readiness metrics of the round.
    pub readiness: RoundReadiness,
    /// Warnings raised by this round.
    pub warnings: Vec<Warning>,
    /// Tree of all values and thresholds behind the signal.
    pub explanation: Explanation,
}

/// Result of scoring a complete conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// 1 minus the combined novelty rate of the last round, 0 to 1.
    pub score: f64,
    /// Components of the score in the last round.
    pub components: Components,
    /// Novelty of each round; use `novelty` for trends.
    pub novelty_by_round: Vec<RoundNovelty>,
    /// Action readiness of each round.
    pub readiness_by_round: Vec<RoundReadiness>,
    /// Signal after each round.
    pub signal_by_round: Vec<RoundSignal>,
    /// Number of the first round with a signal other than CONTINUE; null if there is none.
    pub first_stop_round: Option<u32>,
    /// Recommendation after the last round.
    pub stop_recommendation: StopRecommendation,
    /// Recommended action as one sentence.
    pub hint: String,
    /// The three strongest reasons for the signal.
    pub reasons: Vec<String>,
    /// Warnings of all rounds, with evidence.
    pub warnings: Vec<Warning>,
    /// Estimates of unseen claims; reported, but not used for the decision.
    pub unseen: Unseen,
    /// Yield of a review whose findings state severities; absent for other conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Name of the profile used for scoring.
    pub profile: String,
    /// Version of the scoring formulas.
    pub scoring_version: String,
    /// Embedding model used for L2; null if L2 was not active.
    pub embedder: Option<String>,
    /// Active matching levels: L0, L1 and, with an embedder, L2.
    pub levels: Vec<String>,
    /// Tree of all values and thresholds behind the signal.
    pub explanation: Explanation,
}

/// The `components` of seed section 4.3, for the last round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    /// Combined novelty rate: minimum over the active levels.
    pub novelty_rate: f64,
    /// Novelty rate by normal form: new claims divided by the running peak.
    #[serde(rename = "novelty_rate_L0")]
    pub novelty_rate_l0: f64,
    /// Novelty rate by shared words: new claims divided by the running peak.
    #[serde(rename = "novelty_rate_L1")]
    pub novelty_rate_l1: f64,
    /// Novelty rate by embedding: new claims divided by the running peak; null without vectors.
    #[serde(rename = "novelty_rate_L2")]
    pub novelty_rate_l2: Option<f64>,
    /// Weighted readiness score (seed section 3.3), 0 to 1.
    pub action_readiness: f64,
    /// Components of the readiness score.
    pub action_readiness_detail: ReadinessDetail,
    /// Mean cosine similarity of the claims to the nearest claim of an earlier round; null without vectors.
    pub semantic_similarity: Option<f64>,
    /// Share of the claims that endorse, modify or contradict an earlier one; null in the first round.
    pub structural_agreement: Option<f64>,
}

/// Components of action readiness (seed section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadinessDetail {
    /// Score of the next actions, 0 to 1: none, vague, specific, or several with an owner.
    pub next_actions_score: f64,
    /// Score of the open questions, 0 to 1: higher for none or fewer than before.
    pub open_questions_score: f64,
    /// 1 without blockers, otherwise 0.
    pub blocker_score: f64,
}

/// Novelty metrics of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundNovelty {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Name of the agent that spoke, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Number of distinct claims in the round.
    pub claims: usize,
    /// Number of claims that are new at every active level.
    pub new_claims: usize,
    /// Graded novelty, 0 to 1: √(share of new terms × distance to earlier claims); null without claims.
    pub novelty: Option<f64>,
    /// Combined novelty rate: minimum over the active levels.
    pub novelty_rate: f64,
    /// Novelty rate by normal form: new claims divided by the running peak.
    #[serde(rename = "novelty_rate_L0")]
    pub novelty_rate_l0: f64,
    /// Novelty rate by shared words.
    #[serde(rename = "novelty_rate_L1")]
    pub novelty_rate_l1: f64,
    /// Novelty rate by embedding; null without vectors.
    #[serde(rename = "novelty_rate_L2")]
    pub novelty_rate_l2: Option<f64>,
    /// Share of the round's terms that no earlier round used.
    pub term_novelty: Option<f64>,
    /// Novelty level according to the rule of the profile.
    pub classification: Level,
    /// Mean cosine similarity to the nearest earlier claim.
    pub semantic_similarity: Option<f64>,
    /// Share of claims that endorse, modify or contradict an earlier one.
    pub structural_agreement: Option<f64>,
    /// Claims that restate an earlier claim.
    pub restatements: Vec<Restatement>,
    /// New claims that may restate an earlier claim.
    pub possible_restatements: Vec<Restatement>,
}

/// A claim and the earlier one that it restates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restatement {
    /// Text of the restating claim.
    pub claim: String,
    /// Text of the earlier claim.
    pub of: String,
    /// Number of the round with the earlier claim.
    pub of_round: u32,
    /// Matching level: L0, L1 or L2.
    pub level: String,
    /// Jaccard similarity (L1) or cosine similarity (L2); 1 for L0.
    pub similarity: f64,
}

/// Action readiness of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundReadiness {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Weighted readiness score (seed section 3.3), 0 to 1.
    pub action_readiness: f64,
    /// Components of the readiness score.
    pub detail: ReadinessDetail,
    /// Readiness level of the round.
    pub classification: Level,
    /// Questions still open after the round.
    pub open_questions: Vec<String>,
    /// Questions answered in the round.
    pub answered_questions: Vec<AnsweredQuestion>,
    /// Questions no longer listed, without an answer.
    pub dropped_questions: Vec<String>,
    /// Texts that mention a blocker.
    pub blockers: Vec<String>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredQuestion {
    /// Text of the question.
    pub question: String,
    /// Text of the claim or decision that answers it.
    pub answer: String,
}

/// Signal after one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundSignal {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Recommendation after the round.
    pub signal: Signal,
}

/// The `stop_recommendation` of seed section 4.3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRecommendation {
    /// Recommended signal for the conversation.
    pub signal: Signal,
    /// Novelty level according to the rule of the profile.
    pub novelty_classification: Level,
    /// Readiness level of the last round.
    pub readiness_classification: Level,
    /// Number of consecutive low-novelty rounds up to the last round.
    pub k_consecutive_low_novelty: u32,
    /// Explanation of the signal in sentences.
    pub rationale: String,
    /// Gaps that remain when the signal is SHIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// A warning about a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Kind of problem detected.
    pub kind: WarningKind,
    /// Number of the round that raised the warning.
    pub round: u32,
    /// Description of the problem in one sentence.
    pub message: String,
    /// Texts and numbers that support the warning.
    pub evidence: Vec<Evidence>,
}

/// Kinds of warnings: failure modes of seed section 5, loops, contradictions and empty rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Claims restate earlier ones in other words (seed 5.1).
    ParaphraseGaming,
    /// Many claims, very few of them new (seed 5.2).
    ClaimInflation,
    /// High readiness while most claims are still new (seed 5.3).
    FakeReadiness,
    /// Questions are dropped without an answer or hidden among claims (seed 5.4).
    QuestionSuppression,
    /// A text implies a blocker without stating it (seed 5.5).
    BlockerEvasion,
    /// The conversation moved on after it was ready (seed 5.6).
    StaleReadiness,
    /// A round repeats an earlier one.
    RepeatedRound,
    /// Two positions alternate without progress.
    Alternation,
    /// A claim contradicts an earlier one.
    Contradiction,
    /// A round has no claims or no content.
    EmptyRound,
}

/// Evidence of a warning: a text, the text it is compared with, and their similarity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Text that triggered the warning.
    pub text: String,
    /// Text it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Round of the text it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_round: Option<u32>,
    /// Similarity of the two texts, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// Estimates of the claims that were not made yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// Estimates after each round.
    pub by_round: Vec<RoundUnseen>,
    /// The last estimate as a sentence; absent without enough evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Estimates of unseen claims after one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundUnseen {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Number of claims so far; a claim counts once per speaker.
    pub claims: u64,
    /// Number of distinct claims so far.
    pub distinct: u64,
    /// Good-Turing estimate of the probability that the next claim is new.
    pub unseen_share: Option<f64>,
    /// 95 % confidence interval of the share (Esty).
    pub unseen_interval: Option<Interval>,
    /// Chao1 lower bound of the total number of distinct claims.
    pub total_estimate: Option<f64>,
    /// 95 % confidence interval of the total.
    pub total_interval: Option<Interval>,
    /// Reason why an estimate is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
}

/// Yield of a review: what each round still finds, weighted by severity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// Discovery curve: the rounds with findings that state a severity.
    pub yield_by_round: Vec<RoundYield>,
    /// Weighted yield below which a round is not worth its cost, from the profile.
    pub bar: f64,
    /// Whether the yield of the latest rounds stayed below the bar.
    pub below_bar: bool,
    /// Good-Turing estimate of the probability that the next finding is new; absent unless its 95 % interval
    /// is narrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_share: Option<f64>,
}

/// What one round of a review found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundYield {
    /// Number of the round as given in the input.
    pub round: u32,
    /// Number of findings with a severity.
    pub findings: usize,
    /// Number of those findings that are new.
    pub new_findings: usize,
    /// Sum of the weights of the new findings: critical 8, high 4, medium 2, low 1, nit 0.25.
    pub weighted_yield: f64,
    /// Worst severity among the new findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<String>,
}
