//! The models: which there are, whether the chosen one works, and which cosine means "the same" for it.

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

/// What can be chosen, and what is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ModelList {
    /// The choice of the settings.
    pub chosen: String,
    /// All choices.
    pub models: Vec<Entry>,
}

/// A fitted threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// The sentence model it belongs to.
    pub embedder: String,
    /// The share of different pairs that it may take for the same.
    pub max_false_positives: f64,
    /// With the guard against edits that change the meaning, as scoring uses it.
    pub with_guard: Fit,
    /// Cosine alone.
    pub without_guard: Fit,
    /// Edits that change the meaning, among the pairs. No cosine tells them apart, so they do not count for the
    /// threshold: refusing them is the guard's part.
    pub edits: usize,
    /// How many of these the guard refused.
    pub edits_refused: usize,
    /// A profile that uses it.
    pub profile: String,
}

/// A line of a file of pairs.
#[derive(Debug, Deserialize)]
struct Pair {
    a: String,
    b: String,
    same: Option<bool>,
    kind: Option<String>,
}

impl ModelOperations<'_> {
    /// The sentence models that can be chosen.
    pub fn list(self) -> ModelList {
        ModelList {
            chosen: self.engine.settings.embedder.clone(),
            models: catalogue::catalogue(),
        }
    }

    /// Opens the chosen sentence model and checks that it does what it should.
    pub async fn verify(self) -> Result<Verification, EngineError> {
        // A fresh one: what was remembered would agree with itself.
        let embedder = open(&self.engine.settings)
            .await?
            .ok_or(EngineError::NeedsEmbedder { what: "verification" })?;
        Ok(catalogue::verify(embedder.as_ref()).await?)
    }

    /// Checks that a specification means something, and gives it in its full form.
    pub fn check(self, spec: &str) -> Result<String, EngineError> {
        if spec == "none" {
            return Ok(spec.into());
        }
        Ok(spec.parse::<Spec>()?.to_string())
    }

    /// Fits the threshold of the chosen sentence model from labelled pairs: JSON Lines with `a`, `b` and `same`, or with
    /// `kind`: `paraphrase`, `distinct`, or `edit` for a pair that differs in a detail that changes the meaning.
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

/// What is true of a pair.
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
            (None, Some(kind)) => return Err(wrong(number, format!("there is no kind `{kind}`"))),
            (None, None) => return Err(wrong(number, "there is neither `same` nor `kind`".into())),
        };
        pairs.push((pair.a, pair.b, truth));
    }
    Ok(pairs)
}

/// Opens what the settings name; `none` is a choice, too.
pub(crate) async fn open(settings: &Settings) -> Result<Option<Box<dyn Embedder>>, EngineError> {
    if settings.embedder == "none" {
        return Ok(None);
    }
    let spec: Spec = settings.embedder.parse()?;
    // A key goes to the provider it belongs to and to nobody else.
    let api_key = settings
        .api_key
        .as_deref()
        .filter(|_| matches!(spec, Spec::OpenAi { .. }));
    let http = HttpSettings {
        api_key: api_key.map(|key| ApiKey::new(key, KeyOwner::OpenAi)),
        // Settings hold addresses only from flags, the environment, the user's own file and trusted files.
        address_origin: AddressOrigin::Given,
        ..HttpSettings::default()
    };
    Ok(Some(catalogue::open(&spec, &http).await?))
}
