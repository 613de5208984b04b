//! The incremental scorer: takes rounds one at a time and returns a verdict after each. This module connects
//! novelty, readiness, decision and warnings and owns their state; the rules are in those modules.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use super::agreement::StanceReader;
use super::blockers::{BlockerScan, BlockerState};
use super::decide::{Decision, Facts, History, classify, decide};
use super::lexicon::RoundTexts;
use super::named::ActionLedger;
use super::novelty::{ClaimFinding, ClaimLedger, MatchLevel, NearestClaim, RoundClaims};
use super::profile::{Profile, ProfileError};
use super::questions::{QuestionLedger, QuestionState};
use super::readiness::{ActionReader, ReadinessInput, composite, readiness};
use super::report::{
    AnsweredQuestion, Components, Level, ReadinessDetail, Report, Restatement, RoundNovelty, RoundReadiness,
    RoundSignal, RoundUnseen, SCORING_VERSION, Signal, StopRecommendation, Verdict, Warning,
};
use super::review::ReviewLedger;
use super::vectors::{RoundVectors, VectorError, normalized};
use super::warnings::{self, Footprints, RoundContext, warnings};
use super::wire::Round;
use super::{explain, unseen};
use crate::cancel::{Cancellation, Cancelled};
use crate::explanation::Explanation;
use crate::text::StopWords;
use crate::text::stem::Vocabulary;

/// Errors of scoring a conversation.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ConversationError {
    /// The vectors do not belong to the round or the conversation.
    #[error("round {round}: {source}")]
    Vectors {
        /// Number of the round as given in the input.
        round: u32,
        /// The defect found in the vectors.
        source: VectorError,
    },
    /// The vectors of the blocker prototypes cannot be used.
    #[error("blocker prototypes: {0}")]
    Prototypes(#[source] VectorError),
    /// The profile contains a value outside its valid range.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A report was requested before the first round.
    #[error("the conversation has no rounds")]
    NoRounds,
    /// Scoring was cancelled; the conversation is incomplete and must be discarded.
    #[error("scoring was cancelled")]
    Cancelled(#[from] Cancelled),
}

/// Scores a conversation incrementally.
///
/// ```
/// use satiety::dialogue::{Conversation, Outputs, Profile, Round, Signal};
/// let mut conversation = Conversation::new(Profile::default())?;
/// for number in 1..=3 {
///     let outputs = Outputs {
///         claims: vec!["The cache is cold after every deploy.".into(), "Warm it from the access log.".into()],
///         next_actions: vec!["Write a warm-up job that replays the access log.".into()],
///         ..Outputs::default()
///     };
///     let verdict = conversation.observe(&Round::new(number, outputs), None)?;
///     if verdict.signal != Signal::Continue {
///         assert_eq!((verdict.round, verdict.signal), (2, Signal::Ship));
///         break;
///     }
/// }
/// # Ok::<(), satiety::dialogue::ConversationError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Conversation {
    profile: Arc<Profile>,
    vocabulary: Vocabulary,
    claims: ClaimLedger,
    questions: QuestionLedger,
    actions: ActionLedger,
    reader: ActionReader,
    scan: BlockerScan,
    stances: StanceReader,
    history: History,
    footprints: Footprints,
    embedding: Embedding,
    agents: BTreeSet<String>,
    open_before: Option<usize>,
    /// Number of the previous round if it was ready to act: HIGH readiness and no open question.
    was_ready: Option<u32>,
    ever_ready: bool,
    review: ReviewLedger,
    rounds: Vec<Observed>,
    cancellation: Cancellation,
}

/// The model that embedded the rounds. One round without vectors disables L2 permanently.
#[derive(Debug, Clone, Default)]
enum Embedding {
    #[default]
    NotStarted,
    Active {
        embedder: String,
        dimensions: Option<usize>,
    },
    Off,
}

/// The results of a round, kept for the report. Explanations are large and are rebuilt on demand.
#[derive(Debug, Clone)]
struct Observed {
    novelty: RoundNovelty,
    readiness: RoundReadiness,
    warnings: Vec<Warning>,
    decision: Decision,
    facts: Facts,
    cusum: f64,
    unseen: RoundUnseen,
}

impl Conversation {
    /// Creates a conversation without rounds. Validates the profile, because its fields are public.
    pub fn new(profile: Profile) -> Result<Self, ConversationError> {
        profile.check()?;
        let out_of_range = |_| ProfileError::OutOfRange {
            key: "novelty.jaccard_threshold",
            value: profile.novelty.jaccard_threshold,
            range: "above 0 and at most 1",
        };
        let claims = ClaimLedger::new(&profile.novelty).map_err(out_of_range)?;
        let actions = ActionLedger::new(&profile.novelty).map_err(out_of_range)?;
        let questions = QuestionLedger::new(&profile.questions, &profile.novelty).map_err(out_of_range)?;
        Ok(Self {
            vocabulary: Vocabulary::new(StopWords::Conversation),
            claims,
            questions,
            actions,
            reader: ActionReader::new(&profile.actions),
            scan: BlockerScan::new(&profile.blockers, &profile.actions),
            stances: StanceReader::new(&profile.agreement),
            history: History::default(),
            footprints: Footprints::default(),
            embedding: Embedding::default(),
            agents: BTreeSet::new(),
            open_before: None,
            was_ready: None,
            ever_ready: false,
            review: ReviewLedger::default(),
            rounds: Vec::new(),
            cancellation: Cancellation::default(),
            profile: Arc::new(profile),
        })
    }

    /// Adds the vectors of [`prototype_texts`](super::prototype_texts), which enables detection of blockers
    /// by meaning.
    pub fn with_blocker_prototypes(mut self, vectors: Vec<Vec<f32>>) -> Result<Self, ConversationError> {
        let texts = &self.profile.blockers.prototypes;
        if vectors.len() != texts.len() {
            let wrong = VectorError::Count {
                expected: texts.len(),
                got: vectors.len(),
            };
            return Err(ConversationError::Prototypes(wrong));
        }
        let vectors = normalized(vectors).map_err(ConversationError::Prototypes)?;
        self.scan
            .set_prototypes(texts.iter().cloned().zip(vectors).collect());
        Ok(self)
    }

    /// Makes further rounds fail with [`ConversationError::Cancelled`] once the flag is set. The flag is
    /// checked before each claim, question and action, so that even a round of thousands of claims ends soon.
    /// After that error the conversation contains a partial round: discard it.
    pub fn set_cancellation(&mut self, cancellation: Cancellation) {
        self.cancellation = cancellation;
    }

    /// Number of claims so far. Each further claim is compared with all of them.
    pub fn claim_count(&self) -> usize {
        self.claims.recorded.len()
    }

    /// Adds the next round and returns the verdict. Without `meaning`, only L0 and L1 remain active from here
    /// on.
    pub fn observe(
        &mut self,
        round: &Round,
        meaning: Option<&RoundVectors>,
    ) -> Result<Verdict, ConversationError> {
        let observed = self.score_round(round, meaning)?;
        let (reasons, explanation) = self.explain(&observed);
        let verdict = Verdict {
            round: round.round,
            signal: observed.decision.signal,
            reasons,
            novelty: observed.novelty.clone(),
            readiness: observed.readiness.clone(),
            warnings: observed.warnings.clone(),
            explanation,
        };
        self.rounds.push(observed);
        Ok(verdict)
    }

    /// Like [`observe`](Self::observe) without building the text of the verdict, for callers that only need
    /// the report.
    pub fn follow(&mut self, round: &Round, meaning: Option<&RoundVectors>) -> Result<(), ConversationError> {
        let observed = self.score_round(round, meaning)?;
        self.rounds.push(observed);
        Ok(())
    }

    fn score_round(
        &mut self,
        round: &Round,
        meaning: Option<&RoundVectors>,
    ) -> Result<Observed, ConversationError> {
        self.cancellation.check()?;
        self.check_vectors(round, meaning)
            .map_err(|source| ConversationError::Vectors {
                round: round.round,
                source,
            })?;
        let vectors = meaning.filter(|_| matches!(self.embedding, Embedding::Active { .. }));
        let at = self.rounds.len();
        self.record_agents(round);

        let texts = RoundTexts::of(round);
        let words = texts.words(&mut self.vocabulary);
        let rules = &self.profile;
        let claims = self
            .claims
            .observe(round, &words, vectors, &rules.novelty, &self.cancellation)?;
        let questions = self.questions.observe(
            round,
            &words,
            vectors,
            &rules.questions,
            &rules.novelty,
            &self.cancellation,
        )?;
        let blockers = self.scan.scan(round, &words, vectors);
        let new_actions = self.record_actions(round, vectors)?;
        let input = ReadinessInput {
            actions: &round.outputs.next_actions,
            words: &words.actions,
            open: questions.open.len(),
            open_before: self.open_before,
            blocked: !blockers.blockers.is_empty(),
        };
        let (detail, specific_actions) = readiness(input, &self.reader, &self.profile.readiness);
        let (score, level) = composite(&detail, &self.profile.readiness);
        let actions = (specific_actions, new_actions);
        let mut facts = self.facts(round, &claims, &questions, &blockers, level, actions);
        let earlier = self.footprints.record(round, &self.claims, &claims);
        facts.verbatim = new_actions == 0 && earlier.is_copy;
        facts.alternates = warnings::alternates(self.footprints.rounds());
        facts.below_bar = self
            .review
            .observe(round.round, &self.claims, &claims, &self.profile.review);
        let peak = self.history.peak();
        let decision = decide(&mut self.history, facts, &self.profile);

        let context = RoundContext {
            round,
            ledger: &self.claims,
            claims: &claims,
            questions: &questions,
            open_before: self.open_before.unwrap_or_default(),
            blockers: &blockers,
            novelty: classify(claims.rate, &self.profile.novelty),
            readiness: level,
            was_ready: self.was_ready,
            ever_ready: self.ever_ready,
            peak,
            signal: decision.signal,
            empty: facts.empty,
            footprints: self.footprints.rounds(),
            repeats: earlier.same_clusters,
        };
        let warnings = warnings(&context, &self.profile.warnings);
        let novelty = self.round_novelty(round, &claims, decision, at);
        let readiness = round_readiness(round.round, score, level, detail, &questions, &blockers);

        self.open_before = Some(questions.open.len());
        let is_ready = level == Level::High && questions.open.is_empty();
        self.was_ready = is_ready.then_some(round.round);
        self.ever_ready |= level == Level::High;
        Ok(Observed {
            novelty,
            readiness,
            warnings,
            decision,
            facts,
            cusum: self.history.cusum,
            unseen: unseen::after_round(round.round, &self.claims.abundance),
        })
    }

    /// Builds the report over all rounds so far.
    pub fn report(&self) -> Result<Report, ConversationError> {
        let last = self.rounds.last().ok_or(ConversationError::NoRounds)?;
        let (reasons, explanation) = self.explain(last);
        let signal_by_round: Vec<RoundSignal> = self
            .rounds
            .iter()
            .map(|observed| RoundSignal {
                round: observed.novelty.round,
                signal: observed.decision.signal,
            })
            .collect();
        let stopped = signal_by_round
            .iter()
            .find(|round| round.signal != Signal::Continue);
        let embedder = match &self.embedding {
            Embedding::Active { embedder, .. } => Some(embedder.clone()),
            _ => None,
        };
        let mut levels = vec!["L0".to_owned(), "L1".to_owned()];
        levels.extend(embedder.is_some().then(|| "L2".to_owned()));
        Ok(Report {
            score: round6(1.0 - last.novelty.novelty_rate),
            components: Components {
                novelty_rate: last.novelty.novelty_rate,
                novelty_rate_l0: last.novelty.novelty_rate_l0,
                novelty_rate_l1: last.novelty.novelty_rate_l1,
                novelty_rate_l2: last.novelty.novelty_rate_l2,
                action_readiness: last.readiness.action_readiness,
                action_readiness_detail: last.readiness.detail,
                semantic_similarity: last.novelty.semantic_similarity,
                structural_agreement: last.novelty.structural_agreement,
            },
            novelty_by_round: self
                .rounds
                .iter()
                .map(|observed| observed.novelty.clone())
                .collect(),
            readiness_by_round: self
                .rounds
                .iter()
                .map(|observed| observed.readiness.clone())
                .collect(),
            first_stop_round: stopped.map(|round| round.round),
            stop_recommendation: StopRecommendation {
                signal: last.decision.signal,
                novelty_classification: last.decision.novelty,
                readiness_classification: last.readiness.classification,
                k_consecutive_low_novelty: last.decision.low_run,
                rationale: explain::rationale(last.decision, &last.readiness),
                caveat: explain::caveat(last.decision.signal, &last.readiness),
            },
            hint: explain::hint(last.decision).to_owned(),
            reasons,
            warnings: self
                .rounds
                .iter()
                .flat_map(|observed| observed.warnings.iter().cloned())
                .collect(),
            unseen: unseen::summarize(
                self.rounds
                    .iter()
                    .map(|observed| observed.unseen.clone())
                    .collect(),
            ),
            review: self.review.report(&self.profile.review, &last.unseen),
            profile: self.profile.name.clone(),
            scoring_version: SCORING_VERSION.to_owned(),
            embedder,
            levels,
            signal_by_round,
            explanation,
        })
    }

    fn check_vectors(&mut self, round: &Round, meaning: Option<&RoundVectors>) -> Result<(), VectorError> {
        let Some(meaning) = meaning else {
            self.embedding = Embedding::Off;
            return Ok(());
        };
        meaning.check_counts(round)?;
        let now = meaning.dimensions();
        match &mut self.embedding {
            Embedding::Off => {}
            Embedding::NotStarted => {
                self.embedding = Embedding::Active {
                    embedder: meaning.embedder.clone(),
                    dimensions: now,
                };
            }
            Embedding::Active { embedder, dimensions } => {
                if *embedder != meaning.embedder {
                    return Err(VectorError::OtherEmbedder {
                        first: embedder.clone(),
                        now: meaning.embedder.clone(),
                    });
                }
                if let (Some(expected), Some(got)) = (*dimensions, now)
                    && expected != got
                {
                    return Err(VectorError::Length { expected, got });
                }
                *dimensions = dimensions.or(now);
            }
        }
        Ok(())
    }

    /// Records the speakers whose agreement counts, without those who only ask.
    fn record_agents(&mut self, round: &Round) {
        let requesters = &self.profile.agreement.requesters;
        let discusses = |name: &&String| !requesters.contains(&name.to_lowercase());
        let asks = round.extra.get(Round::ROLE).and_then(|role| role.as_str()) == Some("user");
        let speaker = round.agent.iter().filter(|_| !asks);
        let named = round
            .outputs
            .claims
            .iter()
            .filter_map(|claim| claim.agent.as_ref());
        self.agents
            .extend(speaker.chain(named).filter(discusses).cloned());
    }

    /// Records the round's actions and returns how many of them are new.
    fn record_actions(&mut self, round: &Round, vectors: Option<&RoundVectors>) -> Result<usize, Cancelled> {
        let mut new = 0;
        for (position, action) in round.outputs.next_actions.iter().enumerate() {
            self.cancellation.check()?;
            let vector = vectors.map(|vectors| vectors.actions[position].as_slice());
            new += usize::from(self.actions.record(action, vector, &self.profile.novelty));
        }
        Ok(new)
    }

    fn facts(
        &self,
        round: &Round,
        claims: &RoundClaims,
        questions: &QuestionState,
        blockers: &BlockerState,
        readiness: Level,
        (specific_actions, new_actions): (usize, usize),
    ) -> Facts {
        let outputs = &round.outputs;
        let new = claims.findings.iter().filter(|finding| finding.is_new()).count();
        let answers: BTreeSet<&str> = questions
            .answered
            .iter()
            .filter_map(|answer| answer.claim)
            .map(|position| outputs.claims[position].text.as_str())
            .collect();
        let answering = claims
            .findings
            .iter()
            .filter(|finding| {
                finding.is_new() && answers.contains(self.claims.recorded[finding.index].text.as_str())
            })
            .count();
        let near = claims
            .findings
            .iter()
            .filter(|finding| finding.possibly_restates.is_some())
            .filter(|finding| !answers.contains(self.claims.recorded[finding.index].text.as_str()))
            .count();
        let share = ((new - answering) as f64 - 0.5 * near as f64) / new.max(1) as f64;
        let effective_rate = claims.rate * share;
        // With several named speakers, a speaker who repeats an own claim does not confirm it.
        let echo = |finding: &&ClaimFinding| self.agents.len() > 1 && finding.self_echo;
        let repeated = claims
            .findings
            .iter()
            .filter(|finding| !finding.is_new())
            .filter(|f| !echo(f))
            .count();
        Facts {
            rate: claims.rate,
            effective_rate,
            readiness,
            blocked: !blockers.blockers.is_empty(),
            open_questions: questions.open.len(),
            actions: outputs.next_actions.len(),
            specific_actions,
            other_questions: questions
                .open
                .iter()
                .filter(|question| !blockers.blockers.iter().any(|blocker| blocker.text == **question))
                .count(),
            asked: questions.asked,
            new_actions,
            closes: self.open_before.is_some_and(|open| open > 0)
                && questions.open.is_empty()
                && (!questions.answered.is_empty() || !outputs.decisions.is_empty())
                && self.agents.len() < 2,
            claims: claims.findings.len(),
            empty: claims.findings.is_empty()
                && outputs.decisions.is_empty()
                && outputs.next_actions.is_empty()
                && outputs.open_questions.is_empty()
                && outputs.partings.is_empty(),
            new,
            repeated,
            decisions: outputs.decisions.len(),
            answered: questions.answered.len(),
            had_questions: self.open_before.is_some_and(|open| open > 0),
            escalates: blockers.escalates,
            verbatim: false,
            alternates: false,
            partings: outputs.partings.len(),
            below_bar: false,
        }
    }

    fn round_novelty(
        &self,
        round: &Round,
        claims: &RoundClaims,
        decision: Decision,
        at: usize,
    ) -> RoundNovelty {
        let restatement = |finding: &ClaimFinding, near: NearestClaim| {
            let earlier = &self.claims.recorded[near.index];
            Restatement {
                claim: self.claims.recorded[finding.index].text.clone(),
                of: earlier.text.clone(),
                of_round: self
                    .footprints
                    .rounds()
                    .get(earlier.at)
                    .map_or(round.round, |footprint| footprint.round),
                level: match near.level {
                    MatchLevel::L0 => "L0",
                    MatchLevel::L1 => "L1",
                    MatchLevel::L2 => "L2",
                }
                .to_owned(),
                similarity: round6(near.similarity),
            }
        };
        let collect_matches = |pick: fn(&ClaimFinding) -> Option<NearestClaim>| {
            claims
                .findings
                .iter()
                .filter_map(|finding| Some(restatement(finding, pick(finding)?)))
                .collect()
        };
        RoundNovelty {
            round: round.round,
            agent: round.agent.clone(),
            claims: claims.findings.len(),
            new_claims: claims.findings.iter().filter(|finding| finding.is_new()).count(),
            novelty: claims.graded.map(round6),
            novelty_rate: round6(claims.rate),
            novelty_rate_l0: round6(claims.rates.0),
            novelty_rate_l1: round6(claims.rates.1),
            novelty_rate_l2: claims.rates.2.map(round6),
            term_novelty: claims.term_novelty.map(round6),
            classification: decision.novelty,
            semantic_similarity: claims.similarity.map(round6),
            structural_agreement: self
                .stances
                .structural_agreement(&self.claims, claims, at)
                .map(round6),
            restatements: collect_matches(|finding| finding.restates),
            possible_restatements: collect_matches(|finding| finding.possibly_restates),
        }
    }

    /// The reasons for a round's signal, as text and as a tree.
    fn explain(&self, observed: &Observed) -> (Vec<String>, Explanation) {
        let Observed {
            novelty,
            readiness,
            warnings,
            decision,
            facts,
            cusum,
            ..
        } = observed;
        let reasons = explain::reasons(*decision, novelty, readiness, warnings);
        let explanation = explain::explanation(
            *decision,
            *facts,
            *cusum,
            novelty,
            readiness,
            &reasons,
            &self.profile,
        );
        (reasons, explanation)
    }
}

fn round_readiness(
    round: u32,
    score: f64,
    level: Level,
    detail: ReadinessDetail,
    questions: &QuestionState,
    blockers: &BlockerState,
) -> RoundReadiness {
    RoundReadiness {
        round,
        action_readiness: round6(score),
        detail,
        classification: level,
        open_questions: questions.open.clone(),
        answered_questions: questions
            .answered
            .iter()
            .map(|answer| AnsweredQuestion {
                question: answer.question.clone(),
                answer: answer.reply.clone(),
            })
            .collect(),
        dropped_questions: questions.dropped.clone(),
        blockers: blockers
            .blockers
            .iter()
            .map(|blocker| blocker.text.clone())
            .collect(),
    }
}

/// Rounds to six decimals, so that reports contain 0.65 instead of 0.6500000000000001.
fn round6(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
