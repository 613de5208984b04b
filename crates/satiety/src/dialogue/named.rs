//! Texts that count once however often they are named: questions and actions, recognized by words or meaning.

use super::profile::NoveltyRules;
use super::vectors::SimilaritySearch;
use crate::text::{JaccardIndex, ThresholdError, Tokenization};

/// Distinct texts in order of first appearance.
#[derive(Debug, Clone)]
pub(super) struct NamedTexts {
    index: JaccardIndex,
    vectors: SimilaritySearch,
}

impl NamedTexts {
    pub(super) fn new(rules: &NoveltyRules) -> Result<Self, ThresholdError> {
        // The index rounds its threshold to millionths; a lower one finds all that reach the exact one.
        const MILLIONTH: f64 = 1e-6;
        let threshold = (rules.jaccard_threshold - MILLIONTH).max(MILLIONTH);
        Ok(Self {
            index: JaccardIndex::new(threshold, Tokenization::Words)?,
            vectors: SimilaritySearch::default(),
        })
    }

    /// Number of the first text that is similar by words or meaning.
    pub(super) fn first_similar(
        &self,
        text: &str,
        vector: Option<&[f32]>,
        rules: &NoveltyRules,
    ) -> Option<usize> {
        let by_words = self
            .index
            .matches(text)
            .iter()
            .filter(|found| found.similarity() >= rules.jaccard_threshold)
            .map(|found| found.id as usize)
            .min();
        let by_meaning = vector.and_then(|vector| {
            self.vectors
                .first_similar(vector, by_words.unwrap_or(usize::MAX), rules.semantic_threshold)
        });
        by_meaning.or(by_words)
    }

    pub(super) fn insert(&mut self, text: &str, vector: Option<&[f32]>) {
        let number = self.index.insert(text) as usize;
        if let Some(vector) = vector {
            self.vectors.insert(number, vector);
        }
    }
}

/// All actions so far.
#[derive(Debug, Clone)]
pub(super) struct ActionLedger(NamedTexts);

impl ActionLedger {
    pub(super) fn new(rules: &NoveltyRules) -> Result<Self, ThresholdError> {
        NamedTexts::new(rules).map(Self)
    }

    /// Records an action and returns whether it is new.
    pub(super) fn record(&mut self, action: &str, vector: Option<&[f32]>, rules: &NoveltyRules) -> bool {
        let is_new = self.0.first_similar(action, vector, rules).is_none();
        if is_new {
            self.0.insert(action, vector);
        }
        is_new
    }
}
