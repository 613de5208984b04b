//! Novelty of claims: compares each claim with all earlier ones by normal form (L0), words (L1) and embedding
//! (L2). Owns the claims so far, their clusters and the running peaks.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::lexicon::RoundWords;
use super::profile::NoveltyRules;
use super::vectors::{RoundVectors, SimilaritySearch};
use super::wire::Round;
use crate::cancel::{Cancellation, Cancelled};
use crate::stats::Abundance;
use crate::text::guard::{
    Candidates, Difference, GuardIndex, ParsedStatement, are_different, differences_between,
};
use crate::text::{JaccardIndex, Match, ThresholdError, WordSet, normalize, sort_matches};

/// Refused candidates from which claims are also indexed by numbers and names: this many, and as many again
/// for each claim. Most conversations never reach it and save the parsing.
const MANY_REFUSALS: usize = 256;
const MANY_REFUSALS_PER_CLAIM: usize = 4;

/// A recorded claim and its cluster.
#[derive(Debug, Clone)]
pub(super) struct RecordedClaim {
    pub(super) text: String,
    /// Zero-based position of its round in the conversation.
    pub(super) at: usize,
    pub(super) cluster: usize,
    /// The text as parsed by the guard, cached on first use: parsing takes ten times as long as comparing.
    parsed: OnceLock<Arc<ParsedStatement>>,
}

impl RecordedClaim {
    fn parsed(&self) -> &ParsedStatement {
        self.parsed
            .get_or_init(|| Arc::new(ParsedStatement::of(&self.text)))
    }
}

/// Level at which a claim matches an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchLevel {
    L0,
    L1,
    L2,
}

/// An earlier claim and its similarity.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearestClaim {
    pub(super) index: usize,
    pub(super) similarity: f64,
    pub(super) level: MatchLevel,
}

/// An earlier claim with similar wording but a different meaning.
#[derive(Debug, Clone)]
pub(super) struct Differing {
    pub(super) near: NearestClaim,
    /// Whether one claim negates the other, rather than stating another number, name or strength.
    pub(super) contradicts: bool,
}

/// Result of comparing one claim of a round.
#[derive(Debug, Clone)]
pub(super) struct ClaimFinding {
    /// Index among all recorded claims.
    pub(super) index: usize,
    /// Whether it is new at L0, L1 and L2; L2 is `None` without vectors.
    pub(super) new_at: (bool, bool, Option<bool>),
    /// The earlier claim that it restates.
    pub(super) restates: Option<NearestClaim>,
    /// The earlier claim that a new claim may restate.
    pub(super) possibly_restates: Option<NearestClaim>,
    /// An earlier claim that would match except for a difference in meaning.
    pub(super) differs: Option<Differing>,
    /// The most similar claim of earlier rounds, by embedding if there are vectors.
    pub(super) nearest: Option<NearestClaim>,
    /// Whether the same named speaker made this claim in an earlier round.
    pub(super) self_echo: bool,
}

impl ClaimFinding {
    /// Whether the claim is new at every active level.
    pub(super) fn is_new(&self) -> bool {
        self.restates.is_none()
    }
}

/// Novelty of the claims of one round.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundClaims {
    pub(super) findings: Vec<ClaimFinding>,
    /// New claims over the running peak at each level.
    pub(super) rates: (f64, f64, Option<f64>),
    /// The minimum of the rates.
    pub(super) rate: f64,
    /// Share of the round's terms that no earlier round used.
    pub(super) term_novelty: Option<f64>,
    /// Graded novelty: geometric mean of `term_novelty` and the mean distance to the nearest earlier claim.
    pub(super) graded: Option<f64>,
    /// Mean cosine similarity of the claims to their nearest earlier claim.
    pub(super) similarity: Option<f64>,
}

/// The forms in which a claim is compared.
struct ClaimForms<'a> {
    own: &'a RecordedClaim,
    words: &'a WordSet,
    /// The claim with the same normal form.
    exact: Option<NearestClaim>,
    vector: Option<&'a [f32]>,
}

/// Occurrences of a normal form.
#[derive(Debug, Clone, Copy)]
struct Mentions {
    /// Index of the first claim with this form.
    first: usize,
    /// Position of the latest round with this form.
    latest: usize,
}

/// All claims so far.
#[derive(Debug, Clone)]
pub(super) struct ClaimLedger {
    pub(super) recorded: Vec<RecordedClaim>,
    by_normal_form: FxHashMap<String, Mentions>,
    index: JaccardIndex,
    /// Claims of groups in `index`, by numbers and names.
    guard_index: GuardIndex,
    /// Candidates that the guard refused, and the number from which `guard_index` is used.
    refused: usize,
    many_refusals: usize,
    vectors: SimilaritySearch,
    /// Sources of each cluster: named speakers, or rounds without a named speaker.
    sources: Vec<BTreeSet<(Option<String>, usize)>>,
    /// Summary of the numbers of sources. A claim counts once per named speaker, or once per round without a
    /// named speaker, so that an agent that repeats itself counts once.
    pub(super) abundance: Abundance,
    peaks: (usize, usize, usize),
    /// Position of the latest round that used each term.
    terms: FxHashMap<u32, usize>,
    rounds: usize,
}

impl ClaimLedger {
    pub(super) fn new(rules: &NoveltyRules) -> Result<Self, ThresholdError> {
        Ok(Self {
            recorded: Vec::new(),
            by_normal_form: FxHashMap::default(),
            index: JaccardIndex::new(rules.jaccard_threshold, rules.tokenization)?,
            guard_index: GuardIndex::default(),
            refused: 0,
            many_refusals: MANY_REFUSALS,
            vectors: SimilaritySearch::default(),
            sources: Vec::new(),
            abundance: Abundance::default(),
            peaks: (0, 0, 0),
            terms: FxHashMap::default(),
            rounds: 0,
        })
    }

    /// Scores and records the claims of the next round.
    pub(super) fn observe(
        &mut self,
        round: &Round,
        words: &RoundWords<'_>,
        vectors: Option<&RoundVectors>,
        rules: &NoveltyRules,
        cancellation: &Cancellation,
    ) -> Result<RoundClaims, Cancelled> {
        let at = self.rounds;
        let before = self.recorded.len();
        let mut findings = Vec::new();
        let mut pending = Vec::new();
        let mut sources = Vec::new();
        for (position, claim) in round.outputs.claims.iter().enumerate() {
            cancellation.check()?;
            let normal = normalize(&claim.text);
            let mentions = self.by_normal_form.get(&normal).copied();
            // L0 step 2: claims of one round with the same normal form count once.
            if normal.is_empty() || mentions.is_some_and(|mentions| mentions.latest == at) {
                continue;
            }
            let exact = mentions.map(|mentions| NearestClaim {
                index: mentions.first,
                similarity: 1.0,
                level: MatchLevel::L0,
            });
            let set = self.index.words_of_normal(&normal);
            let vector = vectors.map(|vectors| vectors.claims[position].as_slice());
            let horizon = if rules.compare_within_round {
                self.recorded.len()
            } else {
                before
            };
            let mut recorded = RecordedClaim {
                text: claim.text.clone(),
                at,
                cluster: 0,
                parsed: OnceLock::new(),
            };
            let forms = ClaimForms {
                own: &recorded,
                words: &set,
                exact,
                vector,
            };
            let (mut finding, refused) = self.compare(&forms, before, horizon, rules, cancellation)?;
            let agent = round.speaker_of(claim).map(str::to_owned);
            finding.index = self.recorded.len();
            let cluster = if let Some(near) = finding.restates {
                self.recorded[near.index].cluster
            } else {
                self.sources.push(BTreeSet::new());
                self.sources.len() - 1
            };
            let named = agent.is_some();
            let source = (agent, if named { 0 } else { at });
            // Sources of this round are added at its end, so that only earlier rounds count as an echo.
            finding.self_echo = named && self.sources[cluster].contains(&source);
            sources.push((cluster, source));
            self.refused += refused;
            recorded.cluster = cluster;
            self.recorded.push(recorded);
            if let Some(vector) = vector {
                self.vectors.insert(finding.index, vector);
            }
            pending.push((finding.index, set));
            if rules.compare_within_round {
                self.index_claims(&mut pending);
            }
            let mentions = Mentions {
                first: mentions.map_or(finding.index, |mentions| mentions.first),
                latest: at,
            };
            self.by_normal_form.insert(normal, mentions);
            findings.push(finding);
        }
        self.index_claims(&mut pending);
        for (cluster, source) in sources {
            let sources = &mut self.sources[cluster];
            if sources.insert(source) {
                self.abundance.add_observation(sources.len() as u64);
            }
        }
        self.rounds += 1;
        Ok(self.summarise(words, findings, vectors.is_some()))
    }

    /// Makes recorded claims searchable, in their order.
    fn index_claims(&mut self, pending: &mut Vec<(usize, WordSet)>) {
        for (index, words) in pending.drain(..) {
            let is_guarded =
                self.refused > self.many_refusals + MANY_REFUSALS_PER_CLAIM * self.recorded.len();
            let group = (is_guarded || !self.guard_index.is_empty())
                .then(|| self.guard_index.insert(id(index), self.recorded[index].parsed()))
                .flatten();
            self.index.insert_words(&words, group);
        }
    }

    /// Compares a claim with the earlier ones. Also returns how many of them the guard refused.
    fn compare(
        &self,
        claim: &ClaimForms<'_>,
        before: usize,
        horizon: usize,
        rules: &NoveltyRules,
        cancellation: &Cancellation,
    ) -> Result<(ClaimFinding, usize), Cancelled> {
        let exact = claim.exact;
        let mut differs: Option<Differing> = None;
        let mut refused = 0;
        let candidates = LazyCell::new(|| self.guard_index.candidates(claim.own.parsed()));
        let is_certainly_refused =
            |index: usize| !self.guard_index.is_empty() && candidates.is_refused(id(index));
        // Candidates come nearest first; the first one without a difference in meaning is the match.
        let mut accept = |candidates: &mut dyn Iterator<Item = NearestClaim>| {
            for near in candidates {
                // There may be thousands of candidates. The result of a cancelled search is discarded.
                if cancellation.is_cancelled() {
                    return None;
                }
                if !rules.guard {
                    return Some(near);
                }
                let earlier = self.recorded[near.index].parsed();
                refused += 1;
                if differs.is_some() {
                    // Only the first difference is reported.
                    if are_different(earlier, claim.own.parsed()) {
                        continue;
                    }
                    return Some(near);
                }
                let found = differences_between(earlier, claim.own.parsed());
                if found.is_empty() {
                    return Some(near);
                }
                let contradicts = found
                    .iter()
                    .any(|found| matches!(found, Difference::Negation { .. } | Difference::Antonym { .. }));
                differs.get_or_insert(Differing { near, contradicts });
            }
            None
        };
        let words = exact.or_else(|| {
            let at_l1 = |found: Match| NearestClaim {
                index: found.id as usize,
                similarity: found.similarity(),
                level: MatchLevel::L1,
            };
            let mut found = self.index.matches_of(claim.words);
            let Some(best) = self.index.best_in_groups(claim.words) else {
                return accept(&mut found.into_iter().map(at_l1));
            };
            // The first candidate decides most often; it is also the one that is reported as different. Of the
            // others, only those matter that the guard may accept.
            found.push(best);
            sort_matches(&mut found);
            let first = found[0];
            accept(&mut std::iter::once(at_l1(first))).or_else(|| {
                found.extend(self.matches_of_candidates(claim.words, &candidates));
                sort_matches(&mut found);
                let others = found.into_iter().filter(|found| found.id != first.id);
                accept(&mut others.map(at_l1))
            })
        });
        let by_meaning = claim.vector.map(|vector| {
            // A claim that repeats an earlier one word for word needs no match by meaning.
            let threshold = exact.is_none().then_some(rules.semantic_threshold);
            self.vectors
                .search(vector, horizon, before, threshold, is_certainly_refused)
        });
        let at_l2 = |(index, similarity): (usize, f64)| NearestClaim {
            index,
            similarity,
            level: MatchLevel::L2,
        };
        let meaning = by_meaning
            .as_ref()
            .map(|near| exact.or_else(|| accept(&mut near.similar.iter().copied().map(at_l2))));
        let restates = exact.or(words).or(meaning.flatten());
        let nearest = match &by_meaning {
            Some(near) => near.nearest_before.map(at_l2),
            None => words.filter(|near| near.index < before),
        };
        let possibly_restates = by_meaning
            .as_ref()
            .and_then(|near| near.nearest.map(at_l2))
            .filter(|near| restates.is_none() && near.similarity >= rules.possible_restatement)
            .filter(|near| {
                differs
                    .as_ref()
                    .is_none_or(|other| other.near.index != near.index)
            });
        cancellation.check()?;
        let finding = ClaimFinding {
            index: 0,
            new_at: (
                exact.is_none(),
                words.is_none(),
                meaning.map(|found| found.is_none()),
            ),
            restates,
            possibly_restates,
            differs: differs.filter(|_| restates.is_none()),
            nearest,
            self_echo: false,
        };
        Ok((finding, refused))
    }

    /// Claims of groups with similar words that the guard may accept, in any order.
    fn matches_of_candidates(&self, words: &WordSet, candidates: &Candidates<'_>) -> Vec<Match> {
        let listed = candidates.listed().iter();
        let mut found: Vec<Match> = listed
            .filter_map(|id| self.index.match_with(words, *id))
            .collect();
        let is_restricted = |group| candidates.is_restricted(group);
        found.extend(self.index.matches_in_groups(words, is_restricted));
        found
    }

    fn summarise(
        &mut self,
        words: &RoundWords<'_>,
        findings: Vec<ClaimFinding>,
        with_vectors: bool,
    ) -> RoundClaims {
        let count = |pick: fn(&ClaimFinding) -> bool| findings.iter().filter(|finding| pick(finding)).count();
        let new = (
            count(|finding| finding.new_at.0),
            count(|finding| finding.new_at.1),
            with_vectors.then(|| count(|finding| finding.new_at.2 == Some(true))),
        );
        self.peaks = (
            self.peaks.0.max(new.0),
            self.peaks.1.max(new.1),
            self.peaks.2.max(new.2.unwrap_or_default()),
        );
        // Seed 2.1: new claims this round / max(peak new claims, 1).
        let rate = |new: usize, peak: usize| new as f64 / peak.max(1) as f64;
        let rates = (
            rate(new.0, self.peaks.0),
            rate(new.1, self.peaks.1),
            new.2.map(|new| rate(new, self.peaks.2)),
        );
        let combined = rates.0.min(rates.1).min(rates.2.unwrap_or(1.0));

        let (mut used, mut unused) = (0_usize, 0_usize);
        for term in words.claim_terms.iter().flatten().copied() {
            match self.terms.insert(term, self.rounds) {
                Some(latest) if latest == self.rounds => continue,
                Some(_) => {}
                None => unused += 1,
            }
            used += 1;
        }
        let term_novelty = (used > 0).then(|| unused as f64 / used as f64);
        let mean = |value: &dyn Fn(&ClaimFinding) -> f64| {
            (!findings.is_empty()).then(|| findings.iter().map(value).sum::<f64>() / findings.len() as f64)
        };
        let distance = mean(&|finding| match finding.nearest {
            // A claim that differs in a number or name counts as half new, even if the wording is similar.
            Some(_) if finding.differs.is_some() => 0.5,
            Some(near) if with_vectors || finding.restates.is_some() => 1.0 - near.similarity.clamp(0.0, 1.0),
            _ => 1.0,
        });
        let similarity = (with_vectors && self.rounds > 1)
            .then(|| mean(&|finding| finding.nearest.map_or(0.0, |near| near.similarity)))
            .flatten();
        RoundClaims {
            rates,
            rate: combined,
            term_novelty,
            graded: term_novelty
                .zip(distance)
                .map(|(terms, distance)| (terms * distance).sqrt()),
            similarity,
            findings,
        }
    }
}

#[expect(
    clippy::expect_used,
    reason = "four billion claims do not fit in memory as text"
)]
fn id(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 claims")
}

#[cfg(test)]
mod tests;
