//! Embedder specifications: parsing, opening and verification.
//!
//! | specification | meaning |
//! |---|---|
//! | `builtin` | all-MiniLM-L6-v2 inside the binary |
//! | `dir:PATH` | f32 weights in a directory |
//! | `ollama:MODEL[@URL]` | a model served by Ollama |
//! | `openai:MODEL[@URL]` | any OpenAI-compatible embeddings endpoint |
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::embedder::{EmbedError, Embedder, EmbedderId};
use crate::http::{HttpEmbedder, HttpSettings, TransportError, Wire, with_causes};
use crate::minilm::MiniLm;
use crate::transport::{OLLAMA, OPENAI, model_and_address};

/// Parsed specification. Displays in the same syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spec {
    Builtin,
    Folder(PathBuf),
    Ollama { model: String, url: String },
    OpenAi { model: String, url: String },
}

impl FromStr for Spec {
    type Err = EmbedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: &str| EmbedError::BadSpec {
            spec: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (kind, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let (model, url) = model_and_address(rest);
        let at = |default: &str| (model.to_owned(), url.unwrap_or(default).to_owned());
        match kind {
            "builtin" if rest.is_empty() => Ok(Self::Builtin),
            "dir" if rest.is_empty() => Err(bad("expected dir:PATH")),
            "dir" => Ok(Self::Folder(rest.into())),
            "ollama" | "openai" if model.is_empty() || model.contains(char::is_whitespace) => Err(bad(
                "expected a model name, as in ollama:nomic-embed-text or openai:NAME@https://HOST/v1",
            )),
            "ollama" => {
                let (model, url) = at(OLLAMA);
                Ok(Self::Ollama { model, url })
            }
            "openai" => {
                let (model, url) = at(OPENAI);
                Ok(Self::OpenAi { model, url })
            }
            _ => Err(bad(
                "expected builtin, dir:PATH, ollama:MODEL[@URL] or openai:MODEL[@URL]",
            )),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Folder(path) => write!(f, "dir:{}", path.display()),
            Self::Ollama { model, url } => write!(f, "ollama:{model}@{url}"),
            Self::OpenAi { model, url } => write!(f, "openai:{model}@{url}"),
        }
    }
}

/// Embedder that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ModelEntry")]
pub struct Entry {
    /// Specification to pass in settings and flags.
    pub spec: &'static str,
    /// Description of the model.
    pub what: &'static str,
    /// Prerequisites for using the model.
    pub needs: &'static str,
    /// Id of the embedder, if known without opening it.
    pub id: Option<EmbedderId>,
}

/// All embedders that can be chosen, default first.
pub fn catalogue() -> Vec<Entry> {
    vec![
        Entry {
            spec: "builtin",
            what: "all-MiniLM-L6-v2, int8, inside the binary: 384 dimensions, 256 tokens",
            needs: "nothing",
            id: MiniLm::builtin_id().ok(),
        },
        Entry {
            spec: "dir:PATH",
            what: "a BERT-shaped sentence encoder with f32 weights, such as the unrounded all-MiniLM-L6-v2",
            needs: "a directory with config.json, vocab.txt and model.safetensors, as on huggingface.co",
            id: None,
        },
        Entry {
            spec: "ollama:MODEL[@URL]",
            what: "an embedding model served by Ollama (default http://localhost:11434)",
            needs: "a running Ollama that has pulled the model",
            id: None,
        },
        Entry {
            spec: "openai:MODEL[@URL]",
            what: "any OpenAI-compatible embeddings endpoint (default https://api.openai.com/v1)",
            needs: "the endpoint and usually an API key",
            id: None,
        },
    ]
}

/// Opens the embedder. `http` is only used for remote models.
pub async fn open(spec: &Spec, http: &HttpSettings) -> Result<Box<dyn Embedder>, EmbedError> {
    let (wire, model, url) = match spec {
        Spec::Builtin => return Ok(Box::new(blocking(MiniLm::builtin).await?)),
        Spec::Folder(path) => {
            if !path.is_dir() {
                return Err(EmbedError::NotFound {
                    what: format!("directory {}", path.display()),
                    hint: "download config.json, vocab.txt and model.safetensors of \
                           sentence-transformers/all-MiniLM-L6-v2 into it, or use `builtin`"
                        .to_owned(),
                });
            }
            let path = path.clone();
            return Ok(Box::new(blocking(move || MiniLm::from_directory(&path)).await?));
        }
        Spec::Ollama { model, url } => (Wire::Ollama, model, url),
        Spec::OpenAi { model, url } => (Wire::OpenAi, model, url),
    };
    match HttpEmbedder::connect(wire, model, url, http.clone()).await {
        Ok(embedder) => Ok(Box::new(embedder)),
        Err(EmbedError::Transport(TransportError::Unreachable { url, source })) if wire == Wire::Ollama => {
            Err(EmbedError::NotFound {
                what: format!("Ollama server at {url}"),
                hint: format!(
                    "start it with `ollama serve`, or set another address with @URL ({})",
                    with_causes(&*source)
                ),
            })
        }
        Err(EmbedError::Transport(TransportError::Status {
            url,
            status: status @ (401 | 403),
            message,
            ..
        })) => Err(EmbedError::NotFound {
            what: format!("valid API key for {url}"),
            hint: format!("set the API key (the server answered {status}: {message})"),
        }),
        Err(error) => Err(error),
    }
}

async fn blocking(
    load: impl FnOnce() -> Result<MiniLm, EmbedError> + Send + 'static,
) -> Result<MiniLm, EmbedError> {
    tokio::task::spawn_blocking(load)
        .await
        .map_err(|error| EmbedError::Task(error.into()))?
}

/// Result of one verification check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "VerificationCheck")]
pub struct Check {
    /// Property that was checked.
    pub name: &'static str,
    /// Whether the check passed.
    pub passed: bool,
    /// Measured values behind the result.
    pub detail: String,
}

/// Results of verifying an embedder.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Verification {
    /// Id of the verified embedder.
    pub id: EmbedderId,
    /// All checks, passed or failed.
    pub checks: Vec<Check>,
}

impl Verification {
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

/// A sentence, a paraphrase of it and an unrelated sentence.
const KNOWN: [&str; 3] = [
    "We should cache the results of the expensive query in Redis for five minutes.",
    "Store the costly query's results in Redis with a five-minute time to live.",
    "Bananas are rich in potassium.",
];
/// Cosine similarities of these sentences (0-1, 0-2, 1-2) by sentence-transformers 6.2.0 with the f32 weights
/// (`reference.json` of the tests).
const KNOWN_COSINES: [f32; 3] = [0.851805, 0.056731, 0.008586];
/// Largest cosine error that int8 quantization may cause.
const TOLERANCE: f32 = 0.015;

/// Verifies an embedder: vectors have unit length, are reproducible, and place a paraphrase nearer than an
/// unrelated sentence. For the built-in model it also checks the hash of the weights and compares cosines
/// with the reference. Costs one request for a remote model.
pub async fn verify(embedder: &dyn Embedder) -> Result<Verification, EmbedError> {
    let texts = [KNOWN[0], KNOWN[1], KNOWN[2], KNOWN[0]];
    let vectors = embedder.embed(&texts).await?;
    let [a, b, c, again] = vectors.as_slice() else {
        return Err(EmbedError::Verification {
            id: embedder.id().to_string(),
            reason: format!("{} vectors for {} texts", vectors.len(), texts.len()),
        });
    };
    let cosines = [dot(a, b), dot(a, c), dot(b, c)];
    let mut checks = Vec::new();
    let mut check = |name, passed, detail| checks.push(Check { name, passed, detail });

    if MiniLm::builtin_id().is_ok_and(|id| id == *embedder.id()) {
        let intact = tokio::task::spawn_blocking(MiniLm::builtin_is_intact).await;
        let intact = intact.map_err(|error| EmbedError::Task(error.into()))?;
        check(
            "weights match the hash in the id",
            intact,
            embedder.id().weights().to_owned(),
        );
        let error = cosines
            .iter()
            .zip(KNOWN_COSINES)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        check(
            "cosines match the reference",
            error <= TOLERANCE,
            format!("error {error:.4}, limit {TOLERANCE}"),
        );
    }
    let length = vectors
        .iter()
        .map(|vector| (dot(vector, vector).sqrt() - 1.0).abs())
        .fold(0.0, f32::max);
    check(
        "vectors have unit length",
        length < 1e-4,
        format!("largest deviation {length:.1e}"),
    );
    let sizes = vectors.iter().all(|vector| vector.len() == embedder.dimension());
    check(
        "vectors have the declared dimension",
        sizes,
        embedder.dimension().to_string(),
    );
    // Remote models sum in varying order; 0.001 is far below the margin of any threshold.
    let same = 1.0 - dot(a, again);
    check(
        "the same text gives the same vector",
        same.abs() < 1e-3,
        format!("cosine deviates by {same:.1e}"),
    );
    let nearer = cosines[0] > cosines[1].max(cosines[2]);
    let detail = format!(
        "{:.3} against {:.3} and {:.3}",
        cosines[0], cosines[1], cosines[2]
    );
    check(
        "a paraphrase is nearer than an unrelated sentence",
        nearer,
        detail,
    );
    Ok(Verification {
        id: embedder.id().clone(),
        checks,
    })
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
