//! What every capability needs to know about text: when two statements are the same words ([`normalize`],
//! [`JaccardIndex`]), which texts have the words of a query ([`LexicalIndex`]), where one statement ends and the next begins ([`sentences`]), and whether two statements that
//! look alike really say the same ([`guard`]).
//!
//! Nothing here knows about conversations, models or searches; sentence embeddings live in `satiety-models`.

mod bm25;
pub mod guard;
mod index;
mod normalize;
mod sentences;
pub(crate) mod stem;
mod threshold;
mod tokens;
pub(crate) mod words;

pub use bm25::{Bm25, LexicalIndex, Question, Term};
pub(crate) use index::WordSet;
pub use index::{JaccardIndex, Match};
pub use normalize::normalize;
pub use sentences::{Sentence, SentenceKind, sentences};
pub use stem::StopWords;
pub use threshold::{Threshold, ThresholdError};
pub use tokens::{Tokenization, jaccard};
