//! Which claims of a round are new: L0 (same normal form), L1 (same words), L2 (same meaning), each against everything
//! said before. Keeps the claims said so far, their clusters and the running peaks; decides nothing about the
//! conversation.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::lexicon::RoundWords;
use super::profile::NoveltyRules;
use super::vectors::{RoundVectors, cosine};
use super::wire::Round;
use crate::cancel::{Cancellation, Cancelled};
use crate::text::guard::{Difference, ParsedStatement, differences_between};
use crate::text::{JaccardIndex, ThresholdError, WordSet, normalize};

/// A claim that was made, and where it belongs.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) text: String,
    /// Position of its round in the conversation, from zero.
    pub(super) at: usize,
    pub(super) cluster: usize,
    vector: Option<Vec<f32>>,
    /// The text as the guard reads it, read when the guard first needs it: a later claim may be compared with it again and
    /// again, and reading takes ten times as long as comparing.
    reading: OnceLock<Arc<ParsedStatement>>,
}

impl Said {
    fn reading(&self) -> &ParsedStatement {
        self.reading
            .get_or_init(|| Arc::new(ParsedStatement::of(&self.text)))
    }
}

/// How a claim was recognised as said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchLevel {
    L0,
    L1,
    L2,
}

/// An earlier claim and how near it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearestClaim {
    pub(super) said: usize,
    pub(super) similarity: f64,
    pub(super) level: MatchLevel,
}

/// An earlier claim that sounds the same and does not say the same.
#[derive(Debug, Clone)]
pub(super) struct Differing {
    pub(super) near: NearestClaim,
    /// Whether one denies the other, as against naming another number, name or strength.
    pub(super) contradicts: bool,
}

/// What was found out about one claim of a round.
#[derive(Debug, Clone)]
pub(super) struct ClaimFinding {
    /// Its number among everything said.
    pub(super) said: usize,
    /// Whether L0, L1 and L2 call it new; L2 is absent without vectors.
    pub(super) new_at: (bool, bool, Option<bool>),
    /// The earlier claim that it restates.
    pub(super) restates: Option<NearestClaim>,
    /// A new claim that comes near an earlier one.
    pub(super) possibly_restates: Option<NearestClaim>,
    /// An earlier claim that would match but for a difference in meaning.
    pub(super) differs: Option<Differing>,
    /// The largest similarity to anything said in earlier rounds, by meaning if there are vectors.
    pub(super) nearest: Option<NearestClaim>,
    /// Whether the same speaker, by name, had made this claim already.
    pub(super) self_echo: bool,
}

impl ClaimFinding {
    /// New at every active level.
    pub(super) fn is_new(&self) -> bool {
        self.restates.is_none()
    }
}

/// The claims of one round, judged.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundClaims {
    pub(super) findings: Vec<ClaimFinding>,
    /// New claims over the running peak at each level.
    pub(super) rates: (f64, f64, Option<f64>),
    /// The minimum of the rates.
    pub(super) rate: f64,
    /// Share of the round's terms that no earlier round used.
    pub(super) term_novelty: Option<f64>,
    /// The graded figure: geometric mean of `term_novelty` and the mean distance to the nearest earlier claim.
    pub(super) graded: Option<f64>,
    /// Mean over claims of the cosine to the nearest earlier claim.
    pub(super) similarity: Option<f64>,
}

/// Where a normal form was said.
#[derive(Debug, Clone, Copy)]
struct Mentions {
    /// The claim that said it first.
    first: usize,
    /// The position of the latest round that did.
    latest: usize,
}

/// Everything claimed so far.
#[derive(Debug, Clone)]
pub(super) struct ClaimLedger {
    pub(super) said: Vec<Said>,
    by_normal_form: FxHashMap<String, Mentions>,
    index: JaccardIndex,
    /// By cluster, who has said it: a speaker by name, or a round where nobody is named.
    sources: Vec<BTreeSet<(Option<String>, usize)>>,
    peaks: (usize, usize, usize),
    /// By term, the position of the latest round that used it.
    terms: FxHashMap<u32, usize>,
    rounds: usize,
}

impl ClaimLedger {
    pub(super) fn new(rules: &NoveltyRules) -> Result<Self, ThresholdError> {
        Ok(Self {
            said: Vec::new(),
            by_normal_form: FxHashMap::default(),
            index: JaccardIndex::new(rules.jaccard_threshold, rules.tokenization)?,
            sources: Vec::new(),
            peaks: (0, 0, 0),
            terms: FxHashMap::default(),
            rounds: 0,
        })
    }

    /// Judges the claims of the next round and remembers them.
    pub(super) fn observe(
        &mut self,
        round: &Round,
        words: &RoundWords<'_>,
        vectors: Option<&RoundVectors>,
        rules: &NoveltyRules,
        cancellation: &Cancellation,
    ) -> Result<RoundClaims, Cancelled> {
        let at = self.rounds;
        let before = self.said.len();
        let mut findings = Vec::new();
        let mut pending = Vec::new();
        let mut sources = Vec::new();
        for (position, claim) in round.outputs.claims.iter().enumerate() {
            cancellation.check()?;
            let normal = normalize(&claim.text);
            let mentions = self.by_normal_form.get(&normal).copied();
            // L0 step 2: the same normal form within a round is the same claim.
            if normal.is_empty() || mentions.is_some_and(|mentions| mentions.latest == at) {
                continue;
            }
            let exact = mentions.map(|mentions| NearestClaim {
                said: mentions.first,
                similarity: 1.0,
                level: MatchLevel::L0,
            });
            let set = self.index.words_of_normal(&normal);
            let vector = vectors.map(|vectors| vectors.claims[position].as_slice());
            let horizon = if rules.compare_within_round {
                self.said.len()
            } else {
                before
            };
            let mut finding = self.judge(
                &claim.text,
                &set,
                exact,
                vector,
                before,
                horizon,
                rules,
                cancellation,
            )?;
            let agent = round.speaker_of(claim).map(str::to_owned);
            finding.said = self.said.len();
            let cluster = if let Some(near) = finding.restates {
                self.said[near.said].cluster
            } else {
                self.sources.push(BTreeSet::new());
                self.sources.len() - 1
            };
            let named = agent.is_some();
            let source = (agent, if named { 0 } else { at });
            // What the round itself says is counted at its end: an echo is one of an earlier round.
            finding.self_echo = named && self.sources[cluster].contains(&source);
            sources.push((cluster, source));
            self.said.push(Said {
                text: claim.text.clone(),
                at,
                cluster,
                vector: vector.map(<[f32]>::to_vec),
                reading: OnceLock::new(),
            });
            if rules.compare_within_round {
                self.index.insert_words(&set);
            } else {
                pending.push(set);
            }
            let mentions = Mentions {
                first: mentions.map_or(finding.said, |mentions| mentions.first),
                latest: at,
            };
            self.by_normal_form.insert(normal, mentions);
            findings.push(finding);
        }
        for set in pending {
            self.index.insert_words(&set);
        }
        for (cluster, source) in sources {
            self.sources[cluster].insert(source);
        }
        self.rounds += 1;
        Ok(self.summarise(words, findings, vectors.is_some()))
    }

    /// Number of times each cluster was said. An agent that repeats itself is one source: a claim counts once a
    /// speaker, or once a round where nobody is named.
    pub(super) fn abundances(&self) -> Vec<u64> {
        self.sources.iter().map(|set| set.len() as u64).collect()
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a claim in all its forms and what it is held against"
    )]
    fn judge(
        &self,
        text: &str,
        words: &WordSet,
        exact: Option<NearestClaim>,
        vector: Option<&[f32]>,
        before: usize,
        horizon: usize,
        rules: &NoveltyRules,
        cancellation: &Cancellation,
    ) -> Result<ClaimFinding, Cancelled> {
        let mut differs: Option<Differing> = None;
        let own = LazyCell::new(|| ParsedStatement::of(text));
        // Nearest first; the first one that does not differ in meaning is the match.
        let mut accept = |candidates: &mut dyn Iterator<Item = NearestClaim>| {
            for near in candidates {
                // One claim may be held against thousands; what a cancelled search finds is not used.
                if cancellation.is_cancelled() {
                    return None;
                }
                let found = if rules.guard {
                    differences_between(self.said[near.said].reading(), &own)
                } else {
                    Vec::new()
                };
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
            let found = self.index.matches_of(words);
            accept(&mut found.into_iter().map(|found| NearestClaim {
                said: found.id as usize,
                similarity: found.similarity(),
                level: MatchLevel::L1,
            }))
        });
        let by_meaning = vector.map(|vector| {
            let mut near: Vec<NearestClaim> = self.said[..horizon]
                .iter()
                .enumerate()
                .filter_map(|(said, earlier)| {
                    let similarity = cosine(vector, earlier.vector.as_deref()?);
                    Some(NearestClaim {
                        said,
                        similarity,
                        level: MatchLevel::L2,
                    })
                })
                .collect();
            near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.said.cmp(&b.said)));
            near
        });
        let meaning = by_meaning.as_ref().map(|near| {
            exact.or_else(|| {
                accept(
                    &mut near
                        .iter()
                        .take_while(|near| near.similarity >= rules.semantic_threshold)
                        .copied(),
                )
            })
        });
        let restates = exact.or(words).or(meaning.flatten());
        let nearest = match &by_meaning {
            Some(near) => near.iter().find(|near| near.said < before).copied(),
            None => words.filter(|near| near.said < before),
        };
        let possibly_restates = by_meaning
            .as_ref()
            .and_then(|near| near.first().copied())
            .filter(|near| restates.is_none() && near.similarity >= rules.possible_restatement)
            .filter(|near| differs.as_ref().is_none_or(|other| other.near.said != near.said));
        cancellation.check()?;
        Ok(ClaimFinding {
            said: 0,
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
        })
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
            // What differs in a number or a name is at least half new, however alike it sounds.
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
