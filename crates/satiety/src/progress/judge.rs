//! The state machine that judges steps one at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, EvidenceKind};
use super::finish::Ending;
use super::nudge::{self, Situation};
use super::profile::ProgressProfile;
use super::report::{OpenEnd, ProgressSignal, StepVerdict, ToolStats, Waste};
use super::signature::{Answer, Signature};
use crate::trajectory::{CallKind, Step};

/// Number of steps without anything new from which [`EvidenceKind::NoNewTarget`] is found.
const LONG_SERIES: usize = 8;

/// In a series of steps that try something else without another result, evidence grows up to this factor.
const STAGNATION_GROWTH: usize = 3;

/// Texts with fewer words than this are similar only if they are equal.
const SHORT_TEXT: usize = 4;

/// Judges the steps of one run.
#[derive(Debug, Clone)]
pub struct Progress {
    pub(super) profile: Arc<ProgressProfile>,
    pub(super) steps: usize,
    pub(super) recent: VecDeque<Past>,
    /// The last step with an action and outcome.
    pub(super) seen: FxHashMap<(u64, u64), usize>,
    pub(super) seen_outcomes: FxHashSet<u64>,
    pub(super) seen_targets: FxHashSet<u64>,
    /// Edits by replaced and replacing text, with their step.
    pub(super) replacements: FxHashMap<(u64, u64), usize>,
    pub(super) level: f64,
    /// The current series of steps in which the level is above zero.
    pub(super) episode: Episode,
    pub(super) nudged: bool,
    /// Steps since a new outcome, target or edit.
    pub(super) since_new: usize,
    pub(super) ending: Ending,
    pub(super) tools: BTreeMap<String, ToolStats>,
    pub(super) wasted_steps: usize,
}

/// An earlier step.
#[derive(Debug, Clone)]
pub(super) struct Past {
    pub(super) step: usize,
    pub(super) signature: Signature,
    pub(super) vector: Option<Arc<[f32]>>,
    /// How many steps before this one the step lies that it repeats.
    pub(super) repeats: Option<usize>,
    /// Length of the series of steps, up to this one, that try something else without another result.
    pub(super) stagnation: usize,
    pub(super) new_edit: bool,
}

/// The current series of suspicious steps.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Episode {
    steps: usize,
    failed: usize,
    tokens: u64,
    cost: f64,
    first_tokens: Option<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new(ProgressProfile::built_in())
    }
}

/// What comparing a step with the earlier ones gave.
#[derive(Default)]
struct Findings {
    evidence: Vec<Evidence>,
    /// Distance to the repeated step.
    repeats: Option<usize>,
    /// Length of the series of steps, up to this one, that try something else without another result.
    stagnation: usize,
    new_edit: bool,
    /// The step is neither evidence of progress nor of a lack of it.
    neutral: bool,
}

impl Progress {
    /// Creates a judge with a profile.
    pub fn new(profile: Arc<ProgressProfile>) -> Self {
        Self {
            profile,
            steps: 0,
            recent: VecDeque::new(),
            seen: FxHashMap::default(),
            seen_outcomes: FxHashSet::default(),
            seen_targets: FxHashSet::default(),
            replacements: FxHashMap::default(),
            level: 0.0,
            episode: Episode::default(),
            nudged: false,
            since_new: 0,
            ending: Ending::default(),
            tools: BTreeMap::new(),
            wasted_steps: 0,
        }
    }

    /// Judges the next step by its words.
    pub fn observe(&mut self, step: &Step) -> StepVerdict {
        self.observe_with(step, None)
    }

    /// Judges the next step. `vector` is the embedding of [`texts_to_embed`]; with it, paraphrased arguments
    /// of the same tool are recognized.
    pub fn observe_with(&mut self, step: &Step, vector: Option<&[f32]>) -> StepVerdict {
        self.steps += 1;
        let signature = Signature::new(step);
        let vector: Option<Arc<[f32]>> = vector.map(Arc::from);
        let findings = self.compare(&signature, vector.as_deref());
        self.update_level(&findings, &signature, step);
        self.count_tools(step, &findings);
        self.ending.observe(self.steps, step, &signature);
        let Findings {
            evidence,
            repeats,
            stagnation,
            new_edit,
            ..
        } = findings;
        let verdict = self.decide(step, &signature, evidence);
        self.remember(Past {
            step: self.steps,
            signature,
            vector,
            repeats,
            stagnation,
            new_edit,
        });
        verdict
    }

    /// Starts a new series: the level returns to zero, while all earlier steps stay known. For hosts in which a
    /// person has stepped in, or that have acted on STOP: the next repeats have to add up again.
    pub fn begin_series(&mut self) {
        self.level = 0.0;
        self.episode = Episode::default();
        self.nudged = false;
        self.since_new = 0;
    }

    /// Number of steps so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Number of steps so far that brought nothing new.
    pub fn wasted_steps(&self) -> usize {
        self.wasted_steps
    }

    /// What is unfinished now: items of the plan, failed checks, questions.
    pub fn open_ends(&self) -> Vec<OpenEnd> {
        self.ending.open_ends()
    }

    /// Calls, failures and repeats of each tool.
    pub fn tools(&self) -> Vec<ToolStats> {
        self.tools.values().cloned().collect()
    }

    fn compare(&self, signature: &Signature, vector: Option<&[f32]>) -> Findings {
        let weights = &self.profile.evidence;
        let mut findings = Findings::default();
        let outside = self.recent.len().saturating_sub(self.profile.similarity.window);
        // Of equally good ones, the nearest: `max_by` returns the last.
        let best = self
            .recent
            .iter()
            .skip(outside)
            .filter_map(|past| self.repeat_of(past, signature, vector))
            .max_by(|left, right| left.weight.total_cmp(&right.weight));
        if let Some(mut best) = best {
            let repeated = matches!(
                best.kind,
                EvidenceKind::ExactRepeat
                    | EvidenceKind::NearRepeat
                    | EvidenceKind::RepeatedQuestion
                    | EvidenceKind::RepeatedText
            );
            findings.repeats = best
                .earlier_step
                .filter(|_| repeated)
                .map(|earlier| self.steps - earlier);
            let repeat_weight = best.weight;
            if matches!(best.kind, EvidenceKind::SameError | EvidenceKind::Stagnation) {
                // One or two attempts that fail alike are usual; a series of them is not.
                let previous = self.recent.back().map_or(0, |past| past.stagnation);
                findings.stagnation = previous + 1;
                if !signature.runs_command {
                    best.weight *= findings.stagnation.min(STAGNATION_GROWTH) as f64;
                }
            }
            findings.evidence.push(best);
            if let Some(period) = findings.repeats.filter(|period| self.continues_cycle(*period)) {
                let mut cycle =
                    Evidence::new(EvidenceKind::Cycle, weights.cycle * repeat_weight.min(1.0), None);
                cycle.period = Some(period);
                findings.evidence.push(cycle);
            }
        }
        if let Some(earlier) = signature
            .replacements
            .iter()
            .find_map(|(old, new)| self.replacements.get(&(*new, *old)))
        {
            findings
                .evidence
                .push(Evidence::new(EvidenceKind::Undo, weights.undo, Some(*earlier)));
        }
        let is_reading = matches!(signature.kind, Some(CallKind::Read | CallKind::Search));
        if findings.evidence.is_empty()
            && is_reading
            && let Some(earlier) = self.seen.get(&(signature.action.hash, signature.outcome.hash))
        {
            findings.evidence.push(Evidence::new(
                EvidenceKind::Reread,
                weights.reread,
                Some(*earlier),
            ));
        }
        findings.new_edit = signature.is_successful_edit()
            && !findings.evidence.iter().any(|evidence| {
                matches!(
                    evidence.kind,
                    EvidenceKind::ExactRepeat | EvidenceKind::NearRepeat | EvidenceKind::Undo
                )
            });
        if self.since_new >= LONG_SERIES && !self.brings_new(signature, &findings) {
            findings.evidence.push(Evidence::new(
                EvidenceKind::NoNewTarget,
                weights.no_new_target,
                None,
            ));
        }
        if !findings.evidence.is_empty()
            && let (Some(first), Some(tokens)) = (self.episode.first_tokens, signature.tokens)
            && tokens as f64 > 1.2 * first as f64
        {
            findings
                .evidence
                .push(Evidence::new(EvidenceKind::CostGrowth, weights.cost_growth, None));
        }
        findings.neutral = findings.evidence.is_empty() && signature.kind == Some(CallKind::Plan);
        findings
    }

    /// Evidence from one earlier step, if this one repeats it in some way.
    fn repeat_of(&self, past: &Past, signature: &Signature, vector: Option<&[f32]>) -> Option<Evidence> {
        let weights = &self.profile.evidence;
        let near = self.profile.similarity.near;
        let other = &past.signature;
        let same_action = signature.action.hash == other.action.hash && signature.tools == other.tools;
        let same_outcome =
            signature.outcome.hash == other.outcome.hash && signature.has_result() == other.has_result();
        let evidence = |kind, weight| Some(Evidence::new(kind, weight, Some(past.step)));
        if signature.kind.is_none() || other.kind.is_none() {
            // Turns without calls are compared with each other only.
            if signature.kind.is_some() || other.kind.is_some() || signature.action.is_empty() {
                return None;
            }
            let similar = same_action
                || (signature.action.len() >= SHORT_TEXT
                    && signature.action.numbers == other.action.numbers
                    && signature.action.similarity(&other.action, near).is_some())
                || self.same_meaning(vector, past);
            if !similar {
                return None;
            }
            return if signature.has_result() {
                // The answer may be what the agent needs to go on.
                let answered_alike = signature.outcome.similarity(&other.outcome, near).is_some();
                evidence(
                    EvidenceKind::RepeatedQuestion,
                    weights.repeated_question * if answered_alike { 1.0 } else { 0.5 },
                )
            } else {
                evidence(EvidenceKind::RepeatedText, weights.repeated_text)
            };
        }
        let similar_action = same_action
            || signature.action.similarity(&other.action, near).is_some()
            || (signature.tools == other.tools && self.same_meaning(vector, past));
        if similar_action {
            let similar_outcome =
                same_outcome || signature.outcome.similarity(&other.outcome, near).is_some();
            if !similar_outcome || signature.polls(other) {
                return None;
            }
            let known = if signature.has_result() { 1.0 } else { 0.5 };
            if !same_action && (signature.is_successful_edit() || signature.is_silent()) {
                return evidence(EvidenceKind::Revision, weights.revision * known);
            }
            let factor = known * self.excuse(past, signature);
            return if same_action && same_outcome {
                evidence(EvidenceKind::ExactRepeat, weights.exact_repeat * factor)
            } else {
                evidence(EvidenceKind::NearRepeat, weights.near_repeat * factor)
            };
        }
        if signature.failed && other.failed {
            let similar = same_outcome || signature.outcome.similarity(&other.outcome, near).is_some();
            return if similar {
                evidence(EvidenceKind::SameError, weights.same_error)
            } else {
                None
            };
        }
        let nothing_again = same_outcome
            || (!signature.runs_command && signature.is_empty_answer() && other.is_empty_answer());
        if !nothing_again || signature.failed || !signature.has_result() || !other.has_result() {
            return None;
        }
        let full = weights.stagnation;
        let weight = match (signature.kind, other.kind) {
            (Some(CallKind::Search), Some(CallKind::Search)) => full,
            (Some(CallKind::Read | CallKind::Search), Some(CallKind::Read | CallKind::Search))
                if !signature.is_silent() || (signature.is_empty_answer() && !signature.runs_command) =>
            {
                full
            }
            (Some(CallKind::Run), Some(CallKind::Run)) if signature.tools == other.tools => {
                match signature.answer {
                    Some(Answer::Done) => return None,
                    _ if signature.runs_command && signature.is_silent() => return None,
                    _ if signature.runs_command => 0.5 * full,
                    _ => full,
                }
            }
            _ => return None,
        };
        evidence(EvidenceKind::Stagnation, weight)
    }

    /// Factor below 1 for repeats that have a good reason: an edit in between, or a pause.
    fn excuse(&self, past: &Past, signature: &Signature) -> f64 {
        let weights = &self.profile.evidence;
        let mut factor = 1.0;
        let edited = signature.kind != Some(CallKind::Edit)
            && self
                .recent
                .iter()
                .rev()
                .take_while(|later| later.step > past.step)
                .any(|later| later.new_edit);
        if edited {
            factor *= weights.after_edit;
        }
        let paused = match (signature.time, past.signature.time) {
            (Some(now), Some(then)) if self.steps == past.step + 1 => {
                now.duration_since(then).as_secs_f64() >= self.profile.similarity.backoff_seconds
            }
            _ => false,
        };
        let waited = signature.waits
            || self
                .recent
                .iter()
                .rev()
                .take_while(|later| later.step > past.step)
                .any(|later| later.signature.waits);
        if paused || waited {
            factor *= weights.after_backoff;
        }
        factor
    }

    fn same_meaning(&self, vector: Option<&[f32]>, past: &Past) -> bool {
        match (vector, past.vector.as_deref()) {
            (Some(left), Some(right)) => cosine(left, right) >= self.profile.similarity.meaning,
            _ => false,
        }
    }

    /// Whether the steps before this one repeat at the same distance, so that they form a cycle.
    fn continues_cycle(&self, period: usize) -> bool {
        let before = (period - 1).max(1);
        (1..=self.profile.similarity.longest_cycle).contains(&period)
            && self.recent.len() >= period
            && self
                .recent
                .iter()
                .rev()
                .take(before)
                .all(|past| past.repeats == Some(period))
    }

    fn brings_new(&self, signature: &Signature, findings: &Findings) -> bool {
        findings.new_edit
            || (signature.has_result() && !self.seen_outcomes.contains(&signature.outcome.hash))
            || signature
                .targets
                .iter()
                .any(|target| !self.seen_targets.contains(target))
    }

    fn update_level(&mut self, findings: &Findings, signature: &Signature, step: &Step) {
        let weights = &self.profile.evidence;
        let raise: f64 = findings.evidence.iter().map(|evidence| evidence.weight).sum();
        if raise > 0.0 {
            self.level = (self.level + raise).min(self.profile.decision.ceiling);
        } else if !findings.neutral {
            self.level -= weights.new_result;
        }
        if findings.new_edit {
            self.level -= weights.new_edit;
        }
        if raise >= weights.near_repeat {
            self.wasted_steps += 1;
        }
        if self.level <= 0.0 {
            self.level = 0.0;
            self.episode = Episode::default();
        } else {
            let episode = &mut self.episode;
            episode.steps += 1;
            episode.failed += usize::from(signature.failed);
            episode.tokens = episode.tokens.saturating_add(signature.tokens.unwrap_or(0));
            episode.cost += step.usage.cost.unwrap_or(0.0);
            episode.first_tokens = episode.first_tokens.or(signature.tokens);
        }
        if self.level <= self.profile.decision.nudge / 2.0 {
            self.nudged = false;
        }
        self.since_new = if self.brings_new(signature, findings) {
            0
        } else {
            self.since_new + 1
        };
    }

    fn decide(&mut self, step: &Step, signature: &Signature, evidence: Vec<Evidence>) -> StepVerdict {
        let decision = &self.profile.decision;
        let prior = decision.prior_stuck / (1.0 - decision.prior_stuck);
        let odds = prior * (decision.nats_per_level * self.level).exp();
        let stuck = odds / (1.0 + odds);
        let open_ends = if step.finish {
            self.ending.open_ends()
        } else {
            Vec::new()
        };
        let signal = if self.level >= decision.stop {
            let asks = evidence
                .iter()
                .any(|evidence| evidence.kind == EvidenceKind::RepeatedQuestion);
            if asks || self.episode.failed * 2 >= self.episode.steps {
                ProgressSignal::Escalate
            } else {
                ProgressSignal::Stop
            }
        } else if step.finish {
            if open_ends.is_empty() {
                ProgressSignal::Ship
            } else {
                ProgressSignal::Nudge
            }
        } else if self.level >= decision.nudge && !self.nudged {
            self.nudged = true;
            ProgressSignal::Nudge
        } else {
            ProgressSignal::Continue
        };
        let situation = Situation {
            signal,
            step,
            evidence: &evidence,
            open_ends: &open_ends,
            episode_steps: self.episode.steps,
            failed: signature.failed,
        };
        let acts = matches!(
            signal,
            ProgressSignal::Nudge | ProgressSignal::Stop | ProgressSignal::Escalate
        );
        let episode = self.episode;
        // A loop that has gone on for some time is expected to go on for as long again.
        let remaining = stuck * episode.steps as f64;
        let per_step =
            |total: f64| (episode.steps > 0 && total > 0.0).then(|| remaining * total / episode.steps as f64);
        StepVerdict {
            step: self.steps,
            signal,
            reason: nudge::reason(&situation),
            nudge: acts.then(|| nudge::sentence(&situation)),
            level: self.level,
            confidence: if acts && open_ends.is_empty() {
                stuck
            } else {
                1.0 - stuck
            },
            expected_waste: Waste {
                steps: remaining,
                tokens: per_step(episode.tokens as f64),
                cost: per_step(episode.cost),
            },
            evidence,
            open_ends,
        }
    }

    fn remember(&mut self, past: Past) {
        let Past { step, signature, .. } = &past;
        self.seen
            .insert((signature.action.hash, signature.outcome.hash), *step);
        if signature.has_result() {
            self.seen_outcomes.insert(signature.outcome.hash);
        }
        self.seen_targets.extend(&signature.targets);
        for replacement in &signature.replacements {
            self.replacements.insert(*replacement, *step);
        }
        self.recent.push_back(past);
        let kept = self
            .profile
            .similarity
            .window
            .max(self.profile.similarity.longest_cycle);
        while self.recent.len() > kept {
            self.recent.pop_front();
        }
    }

    fn count_tools(&mut self, step: &Step, findings: &Findings) {
        for call in &step.calls {
            if !self.tools.contains_key(&call.tool) && self.tools.len() >= MAX_TOOLS {
                continue;
            }
            let stats = self.tools.entry(call.tool.clone()).or_insert_with(|| ToolStats {
                tool: call.tool.clone(),
                ..ToolStats::default()
            });
            stats.calls += 1;
            if let Some(result) = &call.result {
                stats.failures += usize::from(super::signature::has_failed(result));
            }
            stats.repeats += usize::from(findings.repeats.is_some());
        }
    }
}

/// Number of tools with statistics; further ones are not counted by name.
const MAX_TOOLS: usize = 1000;

/// The text of a step whose embedding [`Progress::observe_with`] uses: the words of its arguments for searches,
/// questions and other calls in natural language, or the text of a turn without calls. `None` for commands,
/// edits and short texts, which are compared by words only.
pub fn texts_to_embed(step: &Step) -> Option<String> {
    const FEWEST_WORDS: usize = 3;
    const LONGEST: usize = 2000;
    let text = match step.calls.as_slice() {
        [] => step.text.clone(),
        calls => {
            let mut texts = Vec::new();
            for call in calls {
                let kind = crate::trajectory::classify(call).kind;
                if matches!(kind, CallKind::Edit | CallKind::Plan | CallKind::Finish)
                    || call.command().is_some()
                {
                    return None;
                }
                let values = call.arguments.as_object()?.values();
                texts.extend(values.filter_map(|value| value.as_str()));
            }
            texts.join(" ")
        }
    };
    (text.split_whitespace().count() >= FEWEST_WORDS && text.len() <= LONGEST).then_some(text)
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    if left.len() != right.len() {
        return 0.0;
    }
    let (mut dot, mut left_square, mut right_square) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (left, right) in left.iter().zip(right) {
        let (left, right) = (f64::from(*left), f64::from(*right));
        dot += left * right;
        left_square += left * left;
        right_square += right * right;
    }
    let norm = (left_square * right_square).sqrt();
    if norm > 0.0 { dot / norm } else { 0.0 }
}
