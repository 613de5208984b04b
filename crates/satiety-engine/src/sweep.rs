//! Sweeps: scores many labelled conversations to measure a profile and to try other thresholds.

use crate::handles::DialogueOperations;
use std::path::{Path, PathBuf};

use satiety::dialogue::input::{self, ReadOptions};
use satiety::dialogue::{Grid, Labelled, Signal, SweepReport, Transcript, sweep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::EngineError;
use crate::embedding_cache::EmbeddingCache;

/// Request to sweep a directory of labelled conversations.
#[derive(Debug, Clone)]
pub struct SweepRequest {
    /// Directory; its files ending in `.json` and `.jsonl` are read. `None` takes the labelled conversations of the
    /// database.
    pub folder: Option<PathBuf>,
    /// Name of a built-in profile, or path of a profile file.
    pub profile: String,
    /// Thresholds to try; if empty, each one separately around its default.
    pub grid: Grid,
}

/// Result of sweeping a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepResponse {
    /// Name of the swept profile.
    pub profile: String,
    /// Sentence model, if one was used.
    pub embedder: Option<String>,
    /// Metrics of the profile and the tried thresholds.
    #[serde(flatten)]
    pub report: SweepReport,
    /// Files without a label, which were skipped.
    pub unlabelled: Vec<String>,
}

impl DialogueOperations<'_> {
    /// Scores all labelled conversations of a directory. A label is the key `_expected` with
    /// `stop_recommendation` (or `stop_signal`, `signal`), and optionally `stop_round`: the round where a person would have
    /// stopped.
    pub async fn sweep(self, request: &SweepRequest) -> Result<SweepResponse, EngineError> {
        let profile = self.profile(&request.profile)?;
        let mut unlabelled = Vec::new();
        let mut found = Vec::new();
        let files = match &request.folder {
            Some(folder) => conversation_files(folder)?,
            None => Vec::new(),
        };
        for path in files {
            let name = path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned();
            let bytes = fs_err::read(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
            let transcript = input::parse(&bytes, ReadOptions::default())
                .map_err(|problem| EngineError::Input {
                    name: path.display().to_string(),
                    problem,
                })?
                .content;
            match label(&transcript) {
                Some((expected, stop_round)) => found.push((name, expected, stop_round, transcript.rounds)),
                None => unlabelled.push(name),
            }
        }
        if request.folder.is_none() {
            for (id, signal, stop_round, rounds) in self.labelled_conversations().await? {
                found.push((id, Some(signal), stop_round, rounds));
            }
        }
        if found.is_empty() {
            let place = request.folder.as_ref().map(|folder| folder.display().to_string());
            return Err(EngineError::NoLabels {
                folder: place.unwrap_or_else(|| "the database".into()),
            });
        }
        let mut embeddings = self.engine.embedder().await?.map(EmbeddingCache::new);
        let mut prototypes = None;
        if let Some(embeddings) = &mut embeddings {
            prototypes = Some(embeddings.prototype_vectors(&profile).await?);
            let rounds: Vec<_> = found.iter().flat_map(|(.., rounds)| rounds.clone()).collect();
            embeddings.embed_rounds(&rounds).await?;
        }
        let labelled = found
            .into_iter()
            .map(|(name, expected, stop_round, rounds)| {
                let rounds = rounds
                    .into_iter()
                    .map(|round| {
                        let vectors = embeddings
                            .as_ref()
                            .map(|embeddings| embeddings.round_vectors(&round))
                            .transpose()?;
                        Ok((round, vectors))
                    })
                    .collect::<Result<_, EngineError>>()?;
                Ok(Labelled {
                    name,
                    expected,
                    stop_round,
                    rounds,
                })
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        let grids = if request.grid == Grid::default() {
            default_grids()
        } else {
            vec![request.grid.clone()]
        };
        let mut reports = Vec::with_capacity(grids.len());
        for grid in &grids {
            reports.push(sweep(&labelled, &profile, prototypes.as_deref(), grid)?);
        }
        let cells = reports.iter().flat_map(|report| report.cells.clone()).collect();
        // There is at least one grid, and each report covers the same conversations under the same profile.
        let report = reports.swap_remove(0);
        let report = SweepReport { cells, ..report };
        Ok(SweepResponse {
            profile: profile.name,
            embedder: embeddings.map(|embeddings| embeddings.id()),
            report,
            unlabelled,
        })
    }
}

/// Default grids: each setting separately, the others as in the profile.
fn default_grids() -> Vec<Grid> {
    let grid = Grid::default;
    vec![
        Grid {
            k: vec![1, 2, 3],
            ..grid()
        },
        Grid {
            jaccard_threshold: vec![0.5, 0.6, 0.7],
            ..grid()
        },
        Grid {
            semantic_threshold: vec![0.65, 0.7, 0.75, 0.8, 0.85],
            ..grid()
        },
        Grid {
            low: vec![0.1, 0.15, 0.25],
            ..grid()
        },
    ]
}

/// Lists the conversation files of a directory, sorted by name.
fn conversation_files(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let entries = fs_err::read_dir(folder).map_err(|cause| EngineError::file("read", folder, cause))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            path.is_file()
                && path
                    .extension()
                    .is_some_and(|ending| ending == "json" || ending == "jsonl")
        })
        .collect();
    files.sort();
    Ok(files)
}

fn label(transcript: &Transcript) -> Option<(Option<Signal>, Option<u32>)> {
    let label = transcript.extra.get("_expected")?;
    let signal = ["stop_recommendation", "stop_signal", "signal"]
        .iter()
        .filter_map(|key| label.get(key))
        .chain(Some(label))
        .find_map(|value| serde_json::from_value::<Signal>(value.clone()).ok());
    let stop_round = ["stop_round", "first_stop_round"]
        .iter()
        .find_map(|key| label.get(key).and_then(Value::as_u64))
        .and_then(|round| u32::try_from(round).ok());
    (signal.is_some() || stop_round.is_some()).then_some((signal, stop_round))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_read_under_each_of_their_keys() {
        let labelled = |expected: Value| {
            let transcript = json!({"rounds": [], "_expected": expected});
            label(&serde_json::from_value(transcript).expect("a transcript"))
        };
        for expected in [
            json!({"stop_recommendation": "SHIP"}),
            json!({"stop_signal": "SHIP"}),
            json!({"signal": "SHIP"}),
            json!("SHIP"),
        ] {
            assert_eq!(
                labelled(expected.clone()),
                Some((Some(Signal::Ship), None)),
                "{expected}"
            );
        }
        assert_eq!(
            labelled(json!({"stop_signal": "ESCALATE", "stop_round": 3})),
            Some((Some(Signal::Escalate), Some(3)))
        );
        assert_eq!(labelled(json!({"notes": "none"})), None);
    }
}
