//! The settings of the search by words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Bm25;

/// How words are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct LexicalSettings {
    /// How soon another occurrence stops counting.
    pub k1: f64,
    /// How much long memories are held back, from 0 to 1.
    pub b: f64,
    /// How much an occurrence in a title, heading or trigger phrase counts beside one in the text.
    pub title: f64,
    /// How much a word that is said for one of the question counts beside that.
    pub expansion: f64,
}

impl From<LexicalSettings> for Bm25 {
    fn from(settings: LexicalSettings) -> Self {
        let LexicalSettings { k1, b, title, .. } = settings;
        Self { k1, b, title }
    }
}
