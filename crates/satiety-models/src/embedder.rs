//! What every embedder promises, and the id that keeps vectors of different models apart.
//! Knows nothing of any particular model.
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[cfg(feature = "http")]
use crate::transport::TransportError;

/// The pending answer of [`Embedder::embed`].
pub type EmbedFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Vec<f32>>, EmbedError>> + Send + 'a>>;

/// Turns texts into vectors whose dot product is their cosine similarity.
///
/// The method is asynchronous because some models are an HTTP request away; those that compute here move the work to
/// a blocking thread themselves, so a caller in an async runtime never stalls it and never has to know which is which.
///
/// Every implementation keeps these promises: one vector a text, in order; every vector has [`dimension`] components
/// and length 1; a text's vector does not depend on the other texts of the call; no texts give no vectors.
///
/// [`dimension`]: Embedder::dimension
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Which model this is; stored with every vector.
    fn id(&self) -> &EmbedderId;

    /// Components of a vector.
    fn dimension(&self) -> usize;

    /// Embeds the texts. Long lists are fine: batching is the embedder's business.
    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a>;
}

/// Identifies everything that decides a vector: `minilm-l6-v2-int8:ab12cd34:mean`.
///
/// Two vectors may be compared only if their ids are equal, and a threshold belongs to the id it was fitted for: even
/// another rounding of the same weights moves cosines by more than a threshold's margin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct EmbedderId {
    model: String,
    weights: String,
    pooling: String,
}

impl EmbedderId {
    /// Characters of the weights hash that an id shows.
    const HASH_LENGTH: usize = 8;

    /// An id from the model's name, the hash of whatever fixes its weights, and how token vectors become one.
    ///
    /// A remote model's weights cannot be hashed here: its digest as the server reports it, or else its address, model
    /// name and dimension, stand in for them.
    pub fn new(model: &str, weights: &blake3::Hash, pooling: &str) -> Self {
        let short = weights.to_hex().as_str()[..Self::HASH_LENGTH].to_owned();
        Self {
            model: printable(model),
            weights: short,
            pooling: printable(pooling),
        }
    }

    /// The model's name, such as `minilm-l6-v2-int8`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The first eight hexadecimal digits of the weights' BLAKE3.
    pub fn weights(&self) -> &str {
        &self.weights
    }

    /// `mean`, `cls` or `remote`.
    pub fn pooling(&self) -> &str {
        &self.pooling
    }
}

/// Ids are written into logs, tables and thresholds: one word, whatever a server or folder is called.
fn printable(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_whitespace() || c.is_control() {
                '_'
            } else {
                c
            }
        })
        .collect()
}

impl fmt::Display for EmbedderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.model, self.weights, self.pooling)
    }
}

impl From<EmbedderId> for String {
    fn from(id: EmbedderId) -> Self {
        id.to_string()
    }
}

/// Why a text is no [`EmbedderId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no embedder id; expected model:hash:pooling with a hash of 8 hexadecimal digits")]
pub struct ParseIdError(String);

impl FromStr for EmbedderId {
    type Err = ParseIdError;

    /// Splits from the right, because remote model names may hold colons (`nomic-embed-text:latest`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseIdError(text.to_owned());
        let mut parts = text.rsplitn(3, ':');
        let (Some(pooling), Some(weights), Some(model)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong());
        };
        let hash = weights.len() == Self::HASH_LENGTH
            && weights
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let words = [model, pooling]
            .iter()
            .all(|word| !word.is_empty() && printable(word) == **word);
        if !hash || !words {
            return Err(wrong());
        }
        Ok(Self {
            model: model.to_owned(),
            weights: weights.to_owned(),
            pooling: pooling.to_owned(),
        })
    }
}

impl TryFrom<String> for EmbedderId {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Why texts could not be embedded or a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A model folder lacks a file.
    #[error("{} has no {file}; a model folder holds config.json, vocab.txt and model.safetensors", folder.display())]
    MissingFile {
        /// The folder that was named.
        folder: PathBuf,
        /// The file it should hold.
        file: &'static str,
    },
    /// A file is there and cannot be read.
    #[error("cannot read model file")]
    Read(#[source] std::io::Error),
    /// A file is there and is not what it should be.
    #[error("{file}: {reason}")]
    BadFile {
        /// Which file, with its folder where there is one.
        file: String,
        /// What is wrong, with the field or tensor.
        reason: String,
    },
    /// A model specification that means nothing.
    #[error("`{spec}` names no embedder: {reason}")]
    BadSpec {
        /// What was written.
        spec: String,
        /// What was expected.
        reason: String,
    },
    /// The specification is well formed and what it names is not there.
    #[error("{what} is not there: {hint}")]
    NotThere {
        /// What was looked for.
        what: String,
        /// The way to get it.
        hint: String,
    },
    /// The exchange with a server failed.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Transport(TransportError),
    /// The model gave other vectors than it should; see `catalogue::verify`.
    #[error("{id} fails verification: {reason}")]
    Verification {
        /// The embedder.
        id: String,
        /// What differed.
        reason: String,
    },
    /// As many calls wait for the model as may; nothing was computed.
    #[error("the sentence model is busy: {waiting} calls wait for it already")]
    Busy {
        /// Calls that wait.
        waiting: usize,
    },
    /// Whoever passes texts on to the model refused them, or stopped waiting for it.
    #[error("{0}")]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The blocking task that computed the vectors died; this is a bug.
    #[error("embedding task failed")]
    Task(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(feature = "http")]
impl From<TransportError> for EmbedError {
    fn from(error: TransportError) -> Self {
        match error {
            // An address is part of what the user wrote to choose the model.
            TransportError::BadAddress { address, reason } => Self::BadSpec {
                spec: address,
                reason,
            },
            other => Self::Transport(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> EmbedderId {
        EmbedderId::new("minilm-l6-v2-int8", &blake3::hash(b"weights"), "mean")
    }

    #[test]
    fn an_id_prints_as_one_word_and_is_read_back() {
        // printf weights | b3sum
        assert_eq!(
            id().to_string(),
            format!(
                "minilm-l6-v2-int8:{}:mean",
                &blake3::hash(b"weights").to_hex()[..8]
            )
        );
        assert_eq!(id().to_string().parse::<EmbedderId>().unwrap(), id());
        let json = serde_json::to_string(&id()).unwrap();
        assert_eq!(serde_json::from_str::<EmbedderId>(&json).unwrap(), id());
    }

    #[test]
    fn a_model_name_may_hold_colons_and_loses_its_spaces() {
        let id = EmbedderId::new("nomic-embed-text:v1.5 big", &blake3::hash(b""), "remote");
        assert_eq!(id.model(), "nomic-embed-text:v1.5_big");
        assert_eq!(id.to_string().parse::<EmbedderId>().unwrap(), id);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "a",
            "a:b",
            "a:12345678",
            "a:1234567:mean",
            "a:1234567G:mean",
            ":12345678:mean",
            "a:12345678:",
        ] {
            assert!(text.parse::<EmbedderId>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_part_tells_ids_apart() {
        let other = [
            EmbedderId::new("minilm-l6-v2", &blake3::hash(b"weights"), "mean"),
            EmbedderId::new("minilm-l6-v2-int8", &blake3::hash(b"other"), "mean"),
            EmbedderId::new("minilm-l6-v2-int8", &blake3::hash(b"weights"), "cls"),
        ];
        assert!(other.iter().all(|other| *other != id()));
    }
}
