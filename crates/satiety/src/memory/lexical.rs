//! Settings of the lexical search channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Bm25;

/// Version of the text analysis: which words of a text are indexed, and in which form. An index that was built by another
/// version must be rebuilt. Increase it with every change of tokenization, stemming, stop words, language detection,
/// or resolved dates.
pub const TEXT_ANALYSIS_VERSION: u32 = 2;

/// BM25 parameters of the lexical channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct LexicalSettings {
    /// BM25 `k1`: term frequency saturation.
    pub k1: f64,
    /// BM25 `b`: length normalisation, from 0 to 1.
    pub b: f64,
    /// Weight of an occurrence in a title, heading or trigger phrase, relative to one in the text.
    pub title: f64,
    /// Weight of a synonym, relative to a word of the query.
    pub expansion: f64,
}

impl From<LexicalSettings> for Bm25 {
    fn from(settings: LexicalSettings) -> Self {
        let LexicalSettings { k1, b, title, .. } = settings;
        Self { k1, b, title }
    }
}
