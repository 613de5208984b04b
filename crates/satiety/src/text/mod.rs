//! Text processing shared by all capabilities: comparing statements by words ([`normalize`],
//! [`JaccardIndex`]), full-text search ([`LexicalIndex`]), sentence splitting ([`sentences`]), splitting documents
//! into passages ([`document`]), and detecting contradictions between similar statements ([`guard`]).
//!
//! The module is independent of conversations, models and searches; sentence embeddings are in
//! `satiety-models`.

mod bm25;
pub mod document;
pub mod guard;
mod index;
pub(crate) mod language;
mod normalize;
mod sentences;
pub(crate) mod stem;
mod threshold;
mod tokens;
pub(crate) mod words;

pub use bm25::{Bm25, LexicalIndex, Question, Term};
pub use index::{JaccardIndex, Match};
pub(crate) use index::{WordSet, sort_matches};
pub use normalize::normalize;
pub use sentences::{Sentence, SentenceKind, sentences};
pub use stem::StopWords;
pub use threshold::{Threshold, ThresholdError};
pub use tokens::{Tokenization, jaccard};
