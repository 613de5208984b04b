//! Models: list them, verify the configured one, and calibrate its similarity threshold.

use crate::handles::ModelOperations;
use satiety::dialogue::{Fit, ScoredPair, fit_threshold};
use satiety::text::guard;
use satiety_models::Embedder;
use satiety_models::catalogue::{self, Spec};
pub use satiety_models::catalogue::{Check, Entry, Verification};
use satiety_models::http::{ApiKey, HttpSettings};
use satiety_models::{AddressOrigin, KeyOwner};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::embedding_cache::EmbeddingCache;
use crate::{EngineError, Settings};

/// Available sentence models and the configured one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ModelList {
    /// Sentence model from the settings.
    pub chosen: String,
    /// All available sentence models.
    pub models: Vec<Entry>,
}

/// A fitted similarity threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CalibratedThreshold")]
pub struct Calibrated {
    /// Sentence model that the threshold belongs to.
    pub embedder: String,
    /// Maximum share of different pairs that may be classified as the same, 0 to 1.
    pub max_false_positives: f64,
    /// Fit with the guard against meaning-changing edits, as used for scoring.
    pub with_guard: Fit,
    /// Fit with cosine similarity alone.
    pub without_guard: Fit,
    /// Number of pairs that are meaning-changing edits. Cosine similarity cannot separate them, so they do
    /// not count for the threshold: rejecting them is up to the guard.
    pub edits: usize,
    /// Number of these edits that the guard rejected.
    pub edits_refused: usize,
    /// Profile in TOML that uses the threshold.
    pub profile: String,
}

/// A line of a file of labelled pairs.
#[derive(Debug, Deserialize)]
struct Pair {
    a: String,
    b: String,
    same: Option<bool>,
    kind: Option<String>,
}

impl ModelOperations<'_> {
    /// Lists the available sentence models.
    pub fn list(self) -> ModelList {
        ModelList {
            chosen: self.engine.settings.embedder.clone(),
            models: catalogue::catalogue(),
        }
    }

    /// Opens the configured sentence model and verifies that it works.
    pub async fn verify(self) -> Result<Verification, EngineError> {
        // Open a fresh model: the cache would only agree with itself.
        let embedder = open(&self.engine.settings)
            .await?
            .ok_or(EngineError::NeedsEmbedder { what: "verification" })?;
        Ok(catalogue::verify(embedder.as_ref()).await?)
    }

    /// Validates a model specification and returns it in canonical form.
    pub fn check(self, spec: &str) -> Result<String, EngineError> {
        if spec == "none" {
            return Ok(spec.into());
        }
        Ok(spec.parse::<Spec>()?.to_string())
    }

    /// Fits the threshold of the configured sentence model to labelled pairs: JSON Lines with `a`, `b` and
    /// `same`, or with `kind`: `paraphrase`, `distinct`, or `edit` for a pair that differs in a
    /// meaning-changing detail.
    pub async fn calibrate(
        self,
        name: &str,
        pairs: &str,
        max_false_positives: f64,
    ) -> Result<Calibrated, EngineError> {
        let embedder = self
            .engine
            .embedder()
            .await?
            .ok_or(EngineError::NeedsEmbedder { what: "calibration" })?;
        let (edits, pairs): (Vec<_>, Vec<_>) = parse_pairs(name, pairs)?
            .into_iter()
            .partition(|(.., truth)| *truth == Truth::Edited);
        let texts: Vec<(String, String)> = pairs.iter().map(|(a, b, _)| (a.clone(), b.clone())).collect();
        let cosines = EmbeddingCache::new(embedder).cosines(&texts).await?;
        let scored = |guarded: bool| -> Vec<ScoredPair> {
            pairs
                .iter()
                .zip(&cosines)
                .map(|((a, b, truth), cosine)| {
                    let refused = guarded && !guard::agree(a, b);
                    ScoredPair {
                        cosine: if refused { -1.0 } else { *cosine },
                        same: *truth == Truth::Same,
                    }
                })
                .collect()
        };
        let with_guard = fit_threshold(&scored(true), max_false_positives)?;
        let without_guard = fit_threshold(&scored(false), max_false_positives)?;
        let edits_refused = edits.iter().filter(|(a, b, _)| !guard::agree(a, b)).count();
        let embedder = embedder.id().to_string();
        let threshold = (with_guard.threshold * 1000.0).ceil() / 1000.0;
        let profile = format!(
            "# Fitted for {embedder} with `satiety calibrate`.\nname = \"calibrated\"\nextends = \"default\"\n\n\
             [novelty]\nsemantic_threshold = {threshold}\npossible_restatement = {:.3}\n",
            (threshold - 0.1).max(0.05)
        );
        Ok(Calibrated {
            embedder,
            max_false_positives,
            with_guard,
            without_guard,
            edits: edits.len(),
            edits_refused,
            profile,
        })
    }
}

/// Label of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Same,
    Different,
    Edited,
}

fn parse_pairs(name: &str, text: &str) -> Result<Vec<(String, String, Truth)>, EngineError> {
    let wrong = |line: usize, reason: String| EngineError::Pairs {
        name: name.into(),
        line,
        reason,
    };
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let pair: Pair = serde_json::from_str(line).map_err(|cause| wrong(number, cause.to_string()))?;
        let truth = match (pair.same, pair.kind.as_deref()) {
            (Some(true), _) | (None, Some("paraphrase")) => Truth::Same,
            (_, Some("edit")) => Truth::Edited,
            (Some(false), _) | (None, Some("distinct")) => Truth::Different,
            (None, Some(kind)) => {
                return Err(wrong(
                    number,
                    format!("unknown kind `{kind}` (expected one of: paraphrase, distinct, edit)"),
                ));
            }
            (None, None) => return Err(wrong(number, "missing field `same` or `kind`".into())),
        };
        pairs.push((pair.a, pair.b, truth));
    }
    Ok(pairs)
}

/// Opens the configured model; `None` for `none`.
pub(crate) async fn open(settings: &Settings) -> Result<Option<Box<dyn Embedder>>, EngineError> {
    if settings.embedder == "none" {
        return Ok(None);
    }
    let spec: Spec = settings.embedder.parse()?;
    // An API key is sent only to the provider it belongs to.
    let api_key = settings
        .api_key
        .as_deref()
        .filter(|_| matches!(spec, Spec::OpenAi { .. }));
    let http = HttpSettings {
        api_key: api_key.map(|key| ApiKey::new(key, KeyOwner::OpenAi)),
        // Settings hold URLs only from flags, the environment, the user's own file and trusted files.
        address_origin: AddressOrigin::Given,
        ..HttpSettings::default()
    };
    Ok(Some(catalogue::open(&spec, &http).await?))
}
