//! Embedding cache: embeds each text once per engine.

use std::collections::{BTreeSet, HashMap};

use satiety::dialogue::{Profile, Round, RoundVectors, prototype_texts, texts_to_embed};
use satiety_models::Embedder;

use crate::EngineError;

/// Cached vectors of one embedder. Conversations repeat themselves; each text is embedded once.
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

    /// Returns the id of the model.
    pub(crate) fn id(&self) -> String {
        self.embedder.id().to_string()
    }

    /// Embeds all texts of these rounds at once, so that the model gets large batches.
    pub(crate) async fn embed_rounds(&mut self, rounds: &[Round]) -> Result<(), EngineError> {
        let texts: Vec<String> = rounds.iter().flat_map(texts_to_embed).collect();
        self.embed_new(&texts).await
    }

    /// Embeds texts at once, so that the model gets large batches.
    pub(crate) async fn embed_texts(&mut self, texts: &[String]) -> Result<(), EngineError> {
        self.embed_new(texts).await
    }

    /// Returns the vector of a text that was embedded before.
    pub(crate) fn vector(&self, text: &str) -> Option<&[f32]> {
        self.known.get(text).map(Vec::as_slice)
    }

    /// Returns the vectors of a round that was learned before.
    pub(crate) fn round_vectors(&self, round: &Round) -> Result<RoundVectors, EngineError> {
        let vectors = self.cached_vectors(&texts_to_embed(round));
        Ok(RoundVectors::new(self.id(), round, vectors)?)
    }

    /// Returns the vectors of the prototypes of hidden blockers.
    pub(crate) async fn prototype_vectors(
        &mut self,
        profile: &Profile,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let texts = prototype_texts(profile);
        self.embed_new(&texts).await?;
        Ok(self.cached_vectors(&texts))
    }

    /// Returns the cosine similarity of each pair of texts.
    pub(crate) async fn cosines(&mut self, pairs: &[(String, String)]) -> Result<Vec<f64>, EngineError> {
        let texts: Vec<String> = pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        self.embed_new(&texts).await?;
        let vectors = self.cached_vectors(&texts);
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

    async fn embed_new(&mut self, texts: &[String]) -> Result<(), EngineError> {
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

    fn cached_vectors(&self, texts: &[String]) -> Vec<Vec<f32>> {
        texts
            .iter()
            .filter_map(|text| self.known.get(text).cloned())
            .collect()
    }
}
