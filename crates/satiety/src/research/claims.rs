//! Claim ledger: stores every accepted claim and finds the claims of new results that it does not contain.
//! Three levels match: L0 (same normal form), L1 (same words) and L2 (same meaning, when vectors are given).
//! Identical results contain nothing new; unrelated text stays new, because a claim only matches a single
//! claim and never the words of many.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hit::Hit;
use crate::text::guard::agree;
use crate::text::{JaccardIndex, SentenceKind, ThresholdError, Tokenization, normalize, sentences};

/// Word similarity at which two claims are the same.
pub(crate) const L1_THRESHOLD: f64 = 0.6;
/// Cosine similarity at which two claims are the same.
pub(crate) const L2_THRESHOLD: f64 = 0.82;
/// Cosine similarity at and below which a claim counts as entirely new.
pub(crate) const L2_FLOOR: f64 = 0.4;
/// A claim of a single word is too short to match.
const FEWEST_WORDS: usize = 2;

/// One claim of a search result.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Zero-based position of the result that the claim comes from.
    pub hit: usize,
    /// Text of the claim.
    pub text: String,
    normal: String,
}

/// Sentences of a text with their normal forms.
pub(super) type Sentences = Arc<[(String, String)]>;

/// Text that the claims of a result are taken from: its snippet, or its title when the snippet is empty.
pub(super) fn source_of(hit: &Hit) -> &str {
    if hit.snippet.trim().is_empty() {
        &hit.title
    } else {
        &hit.snippet
    }
}

/// Sentences of a text that have enough words to be claims.
pub(super) fn sentences_of(source: &str) -> Sentences {
    sentences(source)
        .into_iter()
        .filter_map(|sentence| {
            let normal = normalize(sentence.text);
            let enough = sentence.kind == SentenceKind::Code
                || normal.split(' ').nth(FEWEST_WORDS - 1).is_some()
                || !normal.is_ascii();
            enough.then(|| (sentence.text.to_owned(), normal))
        })
        .collect()
}

/// Claims of results: the sentences of their snippets, or the title when the snippet is empty. Duplicates are
/// one claim.
pub(crate) fn extract_claims(results: &[Hit]) -> Vec<Claim> {
    let read: Vec<Sentences> = results.iter().map(|hit| sentences_of(source_of(hit))).collect();
    claims_in(&read)
}

/// Claims of results whose sentences were already extracted.
pub(super) fn claims_in(read: &[Sentences]) -> Vec<Claim> {
    let mut seen = FxHashSet::default();
    let mut claims = Vec::new();
    for (hit, sentences) in read.iter().enumerate() {
        for (text, normal) in sentences.iter() {
            if seen.insert(normal.as_str()) {
                claims.push(Claim {
                    hit,
                    text: text.clone(),
                    normal: normal.clone(),
                });
            }
        }
    }
    claims
}

/// How a claim relates to the accepted claims.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// No accepted claim says the same.
    New,
    /// Same normal form as an accepted claim (L0).
    SameForm,
    /// Shares most words with an accepted claim (L1).
    SameWords,
    /// Same meaning as an accepted claim by embedding similarity (L2).
    SameMeaning,
}

/// Claims of one round compared with the ledger.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// Relation of each claim to the ledger.
    pub standing: Vec<Standing>,
    /// For each claim, the accepted claim that says the same.
    same: Vec<Option<usize>>,
    /// For each claim, its semantic distance from 0 (known) to 1 (new); absent without vectors.
    pub distance: Option<Vec<f64>>,
}

impl Judged {
    /// Share of new claims; `None` when there are no claims.
    pub(crate) fn share_new(&self) -> Option<f64> {
        let new = self
            .standing
            .iter()
            .filter(|found| **found == Standing::New)
            .count();
        (!self.standing.is_empty()).then(|| new as f64 / self.standing.len() as f64)
    }

    /// Mean semantic distance; `None` without vectors.
    pub(crate) fn mean_distance(&self) -> Option<f64> {
        let distances = self.distance.as_ref().filter(|list| !list.is_empty())?;
        Some(distances.iter().sum::<f64>() / distances.len() as f64)
    }
}

/// Ledger of all accepted claims.
#[derive(Debug, Clone)]
pub struct Ledger {
    texts: Vec<String>,
    by_form: FxHashMap<String, usize>,
    index: JaccardIndex,
    vectors: Vec<Option<Vec<f32>>>,
    /// For each claim, the cluster of equivalent claims it belongs to.
    cluster: Vec<usize>,
    /// For each cluster, how many results stated it.
    abundance: Vec<u64>,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new() -> Result<Self, ThresholdError> {
        Ok(Self {
            texts: Vec::new(),
            by_form: FxHashMap::default(),
            index: JaccardIndex::new(L1_THRESHOLD, Tokenization::Words)?,
            vectors: Vec::new(),
            cluster: Vec::new(),
            abundance: Vec::new(),
        })
    }

    /// Number of accepted claims.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether no claim was accepted.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// How often each cluster was stated, counted once per result.
    pub(crate) fn abundances(&self) -> &[u64] {
        &self.abundance
    }

    /// Compares claims with the ledger. `vectors`, when given, are unit vectors, one per claim.
    pub fn judge(&self, claims: &[Claim], vectors: Option<&[Vec<f32>]>) -> Judged {
        let mut judged = Judged {
            standing: Vec::with_capacity(claims.len()),
            same: Vec::with_capacity(claims.len()),
            distance: vectors.map(|_| Vec::with_capacity(claims.len())),
        };
        for (position, claim) in claims.iter().enumerate() {
            let vector = vectors
                .and_then(|vectors| vectors.get(position))
                .map(Vec::as_slice);
            let (standing, same, distance) = self.place(claim, vector);
            judged.standing.push(standing);
            judged.same.push(same);
            if let (Some(list), Some(distance)) = (&mut judged.distance, distance) {
                list.push(distance);
            }
        }
        judged
    }

    /// Adds claims that were judged against the current ledger.
    pub fn accept(&mut self, claims: &[Claim], judged: &Judged, vectors: Option<&[Vec<f32>]>) {
        for (position, claim) in claims.iter().enumerate() {
            let vector = vectors.and_then(|vectors| vectors.get(position));
            let same = judged.same.get(position).copied().flatten();
            let cluster = same
                .and_then(|same| self.cluster.get(same).copied())
                .unwrap_or_else(|| {
                    self.abundance.push(0);
                    self.abundance.len() - 1
                });
            if let Some(count) = self.abundance.get_mut(cluster) {
                *count += 1;
            }
            let number = self.texts.len();
            self.by_form.entry(claim.normal.clone()).or_insert(number);
            self.index.insert(&claim.text);
            self.texts.push(claim.text.clone());
            self.vectors.push(vector.cloned());
            self.cluster.push(cluster);
        }
    }

    /// Returns the relation, the accepted claim that says the same, and the semantic distance.
    fn place(&self, claim: &Claim, vector: Option<&[f32]>) -> (Standing, Option<usize>, Option<f64>) {
        if let Some(&same) = self.by_form.get(&claim.normal) {
            return (Standing::SameForm, Some(same), vector.map(|_| 0.0));
        }
        // The best match usually decides, except that a match that differs in a number or a negation is
        // another claim.
        let by_words = self
            .index
            .best_match(&claim.text)
            .map(|found| found.id as usize)
            .filter(|id| self.texts.get(*id).is_some_and(|text| agree(text, &claim.text)));
        let nearest = vector.and_then(|vector| self.nearest(vector));
        let by_meaning = nearest
            .filter(|(_, cosine)| *cosine >= L2_THRESHOLD)
            .map(|(id, _)| id)
            .filter(|id| self.texts.get(*id).is_some_and(|text| agree(text, &claim.text)));
        let distance = vector.map(|_| match (by_words.or(by_meaning), nearest) {
            (Some(_), _) => 0.0,
            (None, Some((_, cosine))) => {
                ((L2_THRESHOLD - cosine.min(L2_THRESHOLD)) / (L2_THRESHOLD - L2_FLOOR)).clamp(0.0, 1.0)
            }
            (None, None) => 1.0,
        });
        match (by_words, by_meaning) {
            (Some(id), _) => (Standing::SameWords, Some(id), distance),
            (None, Some(id)) => (Standing::SameMeaning, Some(id), distance),
            (None, None) => (Standing::New, None, distance),
        }
    }

    fn nearest(&self, vector: &[f32]) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for (id, other) in self.vectors.iter().enumerate() {
            let Some(other) = other else { continue };
            let cosine = f64::from(vector.iter().zip(other).map(|(a, b)| a * b).sum::<f32>());
            if best.is_none_or(|(_, so_far)| cosine > so_far) {
                best = Some((id, cosine));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(texts: &[&str]) -> Vec<Hit> {
        texts.iter().map(|text| Hit::new("t", "u", *text)).collect()
    }

    fn accepted(texts: &[&str]) -> Ledger {
        let mut ledger = Ledger::new().unwrap();
        take(&mut ledger, &extract_claims(&hits(texts)), None);
        ledger
    }

    fn take(ledger: &mut Ledger, claims: &[Claim], vectors: Option<&[Vec<f32>]>) {
        let judged = ledger.judge(claims, vectors);
        ledger.accept(claims, &judged, vectors);
    }

    fn share(ledger: &Ledger, texts: &[&str]) -> f64 {
        ledger
            .judge(&extract_claims(&hits(texts)), None)
            .share_new()
            .unwrap()
    }

    #[test]
    fn identical_results_have_nothing_new() {
        let texts = [
            "Wings bend when heated. Ribs carry the load.",
            "Skin panels buckle at 3 bar.",
        ];
        let ledger = accepted(&texts);
        assert!(share(&ledger, &texts).abs() < 1e-12);
        assert!(share(&ledger, &["wings  bend when HEATED!"]).abs() < 1e-12);
    }

    #[test]
    fn a_changed_number_or_negation_is_new() {
        let ledger = accepted(&["The panel buckles at 3 bar in every test we made."]);
        assert!((share(&ledger, &["The panel buckles at 5 bar in every test we made."]) - 1.0).abs() < 1e-12);
        let ledger = accepted(&["The new valve is safe under load."]);
        assert!((share(&ledger, &["The new valve is not safe under load."]) - 1.0).abs() < 1e-12);
    }

    /// The bag-of-words rule fails here after twenty rounds; claims must not.
    #[test]
    fn unrelated_text_stays_new_for_fifty_rounds() {
        let mut ledger = Ledger::new().unwrap();
        // A small vocabulary, so that every word has occurred after a few rounds.
        let word = |state: &mut u64| {
            *state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            format!("w{}", (*state >> 33) % 600)
        };
        let mut state = 7;
        for round in 0..50 {
            let results: Vec<Hit> = (0..10)
                .map(|_| {
                    let sentence =
                        |state: &mut u64| (0..15).map(|_| word(state)).collect::<Vec<_>>().join(" ");
                    Hit::new(
                        "",
                        "",
                        format!("{}. {}.", sentence(&mut state), sentence(&mut state)),
                    )
                })
                .collect();
            let claims = extract_claims(&results);
            let share = ledger.judge(&claims, None).share_new().unwrap();
            assert!(share > 0.95, "round {round}: {share}");
            take(&mut ledger, &claims, None);
        }
    }

    #[test]
    fn meaning_matches_where_words_do_not() {
        let mut ledger = Ledger::new().unwrap();
        let old = extract_claims(&hits(&["The cache went cold overnight."]));
        take(&mut ledger, &old, Some(&[vec![1.0, 0.0]]));
        let new = extract_claims(&hits(&["By morning nothing was warm any more."]));
        let near = ledger.judge(&new, Some(&[vec![0.9, 0.435_889_9]]));
        assert_eq!(near.standing, [Standing::SameMeaning]);
        assert!(near.mean_distance().unwrap().abs() < 1e-9);
        let half = ledger.judge(&new, Some(&[vec![0.61, 0.792_4]]));
        assert_eq!(half.standing, [Standing::New]);
        assert!((half.mean_distance().unwrap() - 0.5).abs() < 1e-3);
        let far = ledger.judge(&new, Some(&[vec![0.0, 1.0]]));
        assert!((far.mean_distance().unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn clusters_count_repeated_claims() {
        let mut ledger = accepted(&["Wings bend when heated."]);
        let more = hits(&["Wings bend when heated", "Ribs carry the load."]);
        take(&mut ledger, &extract_claims(&more), None);
        assert_eq!(ledger.abundances(), [2, 1]);
    }

    #[test]
    fn results_without_words_have_no_share() {
        let ledger = accepted(&["Wings bend when heated."]);
        assert_eq!(
            ledger.judge(&extract_claims(&hits(&["", " "])), None).share_new(),
            None
        );
        assert_eq!(extract_claims(&[Hit::new("Only a title here", "u", "")]).len(), 1);
    }
}
