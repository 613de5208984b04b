//! Embedder trait, and the id that keeps vectors of different models apart. Independent of any particular
//! model.
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[cfg(feature = "http")]
use crate::transport::TransportError;

/// Future returned by [`Embedder::embed`].
pub type EmbedFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Vec<f32>>, EmbedError>> + Send + 'a>>;

/// Turns texts into vectors whose dot product is their cosine similarity.
///
/// The method is asynchronous because some models are called over HTTP. Local models move the work to a
/// blocking thread, so callers in an async runtime can treat all models alike.
///
/// Every implementation guarantees: one vector per text, in order; every vector has [`dimension`] components
/// and unit length; a text's vector does not depend on the other texts of the call; an empty list gives an
/// empty list.
///
/// [`dimension`]: Embedder::dimension
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Identifies the model; stored with every vector.
    fn id(&self) -> &EmbedderId;

    /// Number of components of a vector.
    fn dimension(&self) -> usize;

    /// Embeds the texts. The embedder splits long lists into batches.
    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a>;
}

/// Identifies everything that determines a vector: `minilm-l6-v2-int8:ab12cd34:mean`.
///
/// Two vectors may be compared only if their ids are equal, and a threshold is valid only for the id it was
/// fitted for: even another quantization of the same weights moves cosines by more than a threshold's margin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct EmbedderId {
    model: String,
    weights: String,
    pooling: String,
}

impl EmbedderId {
    /// Characters of the weights hash in an id.
    const HASH_LENGTH: usize = 8;

    /// Builds an id from the model name, a hash that identifies its weights, and the pooling method.
    ///
    /// The weights of a remote model cannot be hashed here, so the digest reported by the server is used
    /// instead, or else its address, model name and dimension.
    pub fn new(model: &str, weights: &blake3::Hash, pooling: &str) -> Self {
        let short = weights.to_hex().as_str()[..Self::HASH_LENGTH].to_owned();
        Self {
            model: printable(model),
            weights: short,
            pooling: printable(pooling),
        }
    }

    /// Model name, such as `minilm-l6-v2-int8`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// First eight hexadecimal digits of the BLAKE3 hash of the weights.
    pub fn weights(&self) -> &str {
        &self.weights
    }

    /// Pooling method: `mean`, `cls` or `remote`.
    pub fn pooling(&self) -> &str {
        &self.pooling
    }
}

/// Ids appear in logs, tables and thresholds, so they must be one word regardless of server or directory
/// names.
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

/// Error of parsing an [`EmbedderId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid embedder id `{0}` (expected model:hash:pooling with a hash of 8 hexadecimal digits)")]
pub struct ParseIdError(String);

impl FromStr for EmbedderId {
    type Err = ParseIdError;

    /// Splits from the right, because remote model names may contain colons (`nomic-embed-text:latest`).
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

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A file of a model directory is missing.
    #[error("cannot open model in {}: {file} not found (a model directory contains config.json, vocab.txt and model.safetensors)", directory.display())]
    MissingFile { directory: PathBuf, file: &'static str },
    /// A file exists and cannot be read.
    #[error("cannot read model file")]
    Read(#[source] std::io::Error),
    /// A file exists and is invalid.
    #[error("{file}: {reason}")]
    BadFile {
        /// Path of the file, or its name for a built-in file.
        file: String,
        /// The cause, with the field or tensor.
        reason: String,
    },
    /// The specification cannot be parsed.
    #[error("invalid embedder `{spec}`: {reason}")]
    BadSpec { spec: String, reason: String },
    /// The specification is valid, but the model or server does not exist or is not reachable.
    #[error("{what} not found: {hint}")]
    NotFound {
        what: String,
        /// One action that fixes it.
        hint: String,
    },
    /// The environment variable `SATIETY_CPU` names an instruction set that cannot be used.
    #[error("cannot use SATIETY_CPU={name}: {reason}")]
    Instructions { name: String, reason: String },
    /// The request to a server failed.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Transport(TransportError),
    /// The vectors differ from the expected ones; see `catalogue::verify`.
    #[error("{id} fails verification: {reason}")]
    Verification { id: String, reason: String },
    /// The queue of the model is full; nothing was computed.
    #[error("sentence model is busy: {waiting} calls are already waiting")]
    Busy { waiting: usize },
    /// A layer in front of the model rejected the texts or stopped waiting.
    #[error("{0}")]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The blocking task panicked; this is a bug.
    #[error("embedding task failed")]
    Task(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EmbedError {
    /// Whether the model rejected the texts themselves, such as one that is too long for it: other texts may succeed.
    pub fn is_rejection(&self) -> bool {
        #[cfg(feature = "http")]
        if let Self::Transport(TransportError::Status { status, .. }) = self {
            return matches!(status, 400 | 413 | 422);
        }
        false
    }
}

#[cfg(feature = "http")]
impl From<TransportError> for EmbedError {
    fn from(error: TransportError) -> Self {
        match error {
            // The address is part of the specification that the user wrote.
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
    fn ids_are_one_word_and_round_trip() {
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
    fn model_names_keep_colons_and_lose_spaces() {
        let id = EmbedderId::new("nomic-embed-text:v1.5 big", &blake3::hash(b""), "remote");
        assert_eq!(id.model(), "nomic-embed-text:v1.5_big");
        assert_eq!(id.to_string().parse::<EmbedderId>().unwrap(), id);
    }

    #[test]
    fn invalid_ids_are_rejected() {
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
    fn ids_differ_in_every_part() {
        let other = [
            EmbedderId::new("minilm-l6-v2", &blake3::hash(b"weights"), "mean"),
            EmbedderId::new("minilm-l6-v2-int8", &blake3::hash(b"other"), "mean"),
            EmbedderId::new("minilm-l6-v2-int8", &blake3::hash(b"weights"), "cls"),
        ];
        assert!(other.iter().all(|other| *other != id()));
    }
}
