//! Texts to vectors, each text once: the engine's memory of what it has embedded.

use std::collections::{BTreeSet, HashMap};

use satiety::dialogue::{Profile, Round, RoundVectors, prototype_texts, texts_to_embed};
use satiety_models::Embedder;

use crate::EngineError;

/// Vectors of texts, of one embedder. Conversations say the same thing again and again; a model need not hear it twice.
pub(crate) struct EmbeddingCache<'a> {
    embedder: &'a dyn Embedder,
    known: HashMap<String, Vec<f32>>,
}

impl<'a> EmbeddingCache<'a> {
    pub(crate) fn new(embedder: &'a dyn Embedder) -> Self {
        Self {
            embedder,
            known: HashMap::new(),
        }
    }

    /// Which model this is.
    pub(crate) fn id(&self) -> String {
        self.embedder.id().to_string()
    }

    /// Learns all texts of these rounds in one go, so that the model sees large batches.
    pub(crate) async fn learn_rounds(&mut self, rounds: &[Round]) -> Result<(), EngineError> {
        let texts: Vec<String> = rounds.iter().flat_map(texts_to_embed).collect();
        self.learn(&texts).await
    }

    /// The vectors of a round that was learnt.
    pub(crate) fn of_round(&self, round: &Round) -> Result<RoundVectors, EngineError> {
        let vectors = self.of(&texts_to_embed(round));
        Ok(RoundVectors::new(self.id(), round, vectors)?)
    }

    /// The vectors of what a hidden blocker sounds like.
    pub(crate) async fn of_prototypes(&mut self, profile: &Profile) -> Result<Vec<Vec<f32>>, EngineError> {
        let texts = prototype_texts(profile);
        self.learn(&texts).await?;
        Ok(self.of(&texts))
    }

    /// Cosines of pairs of texts.
    pub(crate) async fn cosines(&mut self, pairs: &[(String, String)]) -> Result<Vec<f64>, EngineError> {
        let texts: Vec<String> = pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        self.learn(&texts).await?;
        let vectors = self.of(&texts);
        Ok(vectors
            .chunks_exact(2)
            .map(|pair| {
                pair[0]
                    .iter()
                    .zip(&pair[1])
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum()
            })
            .collect())
    }

    async fn learn(&mut self, texts: &[String]) -> Result<(), EngineError> {
        let new: BTreeSet<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !self.known.contains_key(*text))
            .collect();
        let new: Vec<&str> = new.into_iter().collect();
        let vectors = self.embedder.embed(&new).await?;
        self.known.extend(new.into_iter().map(str::to_owned).zip(vectors));
        Ok(())
    }

    fn of(&self, texts: &[String]) -> Vec<Vec<f32>> {
        texts
            .iter()
            .filter_map(|text| self.known.get(text).cloned())
            .collect()
    }
}
