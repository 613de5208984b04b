//! Search gate for external loops: takes recorded rounds and returns a decision for each.

use crate::handles::ResearchOperations;
use std::collections::BTreeMap;

use satiety::admission::{ModelCost, Workload};
use satiety::cancel::Cancellation;
use satiety::research::assess::{Agreement, agreement, model_score};
use satiety::research::{Decision, Gate, GateSettings, Hit, Novelty, RoundInput, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EngineError, admission};

/// Request to decide on recorded rounds.
#[derive(Debug, Clone)]
pub struct GateRequest {
    /// Settings of the gate.
    pub settings: GateSettings,
    /// Task of rounds that do not name one.
    pub task: String,
    /// Derive each run's seed from its name instead of the settings' seed.
    pub seed_by_run: bool,
}

/// One recorded round: a line of JSON.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GateLine {
    /// Run that the round belongs to; rounds of one run are judged together.
    #[serde(default, alias = "run_id", alias = "session", alias = "session_id")]
    pub run: Option<serde_json::Value>,
    /// Task of the run.
    #[serde(default)]
    pub task: Option<String>,
    /// Number of the round; a run without a name restarts at 1.
    #[serde(default)]
    pub round: Option<u32>,
    #[serde(default)]
    pub query: Option<String>,
    #[serde(default, alias = "hits")]
    pub results: Option<Vec<Hit>>,
    /// Summary before this round, if the loop keeps one.
    #[serde(
        default,
        alias = "knowledge_state",
        alias = "state_summary",
        alias = "state_before",
        alias = "summary"
    )]
    pub state: Option<String>,
    /// Error message of a failed search.
    #[serde(default)]
    pub error: Option<serde_json::Value>,
    /// Score of the loop's own assessor, 0 to 10, for comparison.
    #[serde(default, alias = "novelty_score")]
    pub novelty: Option<f64>,
    /// A model's raw assessment.
    #[serde(default, alias = "model_answer")]
    pub model: Option<serde_json::Value>,
}

/// Decision on a recorded round.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchGateResponse {
    /// Run that the round belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<serde_json::Value>,
    /// Query of the round, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Verdict of the search gate.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Verdict in plain words.
    pub words: String,
    /// Novelty score by each assessor.
    pub by_assessor: Novelty,
    /// Score of the loop's own assessor, 0 to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_novelty: Option<f64>,
    /// Whether the gate would have stopped before this round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_stop: bool,
}

/// Totals over all rounds.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct GateSummary {
    /// Number of distinct runs.
    pub runs: usize,
    /// Number of recorded rounds.
    pub rounds: usize,
    /// Rounds that the gate would have accepted.
    pub accepted: usize,
    /// Searches that would have been made with the gate.
    pub searches: usize,
    /// Rounds after the point where the gate would have stopped.
    pub after_stop: usize,
    /// Agreement between pairs of assessors.
    pub agreement: Vec<Agreement>,
}

struct GateState {
    gate: Gate,
    stopped: bool,
}

/// Minimum bytes of a statement, for the cost estimate.
const MIN_STATEMENT_BYTES: u64 = 40;

impl ResearchOperations<'_> {
    /// Decides on the rounds of a request, each a JSON object, after admitting their cost. Stops between two
    /// rounds when the caller no longer waits for the response.
    pub async fn gate_rounds(
        self,
        request: GateRequest,
        rounds: Vec<String>,
    ) -> Result<(Vec<SearchGateResponse>, GateSummary), EngineError> {
        let bytes: u64 = rounds.iter().map(|round| round.len() as u64).sum();
        let statements = bytes / MIN_STATEMENT_BYTES;
        let work = Workload {
            bytes,
            texts: statements,
            pairs: statements.saturating_mul(statements) / 2,
            ..Workload::default()
        };
        admission::admit("deciding about these rounds", &work, ModelCost::None)?;
        let computing = move |cancellation: &Cancellation| {
            let mut decisions = Vec::new();
            let lines = rounds.into_iter().map(Ok);
            let summary = Self::gate(&request, "rounds", lines, |gated| {
                decisions.push(gated.clone());
                cancellation.check()
            })?;
            Ok((decisions, summary?))
        };
        self.engine.compute(work.units(ModelCost::None), computing).await
    }

    /// Decides on rounds, one JSON object per line, and passes each decision to `tell`. `name` is the file
    /// name.
    pub fn gate<E>(
        request: &GateRequest,
        name: &str,
        lines: impl Iterator<Item = std::io::Result<String>>,
        mut tell: impl FnMut(&SearchGateResponse) -> Result<(), E>,
    ) -> Result<Result<GateSummary, E>, EngineError> {
        request.settings.check()?;
        let mut runs: BTreeMap<String, GateState> = BTreeMap::new();
        let mut begun = 0;
        let mut summary = GateSummary::default();
        let mut novelties = Vec::new();
        for (number, line) in (1_usize..).zip(lines) {
            let wrong = |reason: String| EngineError::GateLine {
                name: name.to_owned(),
                line: number,
                reason,
            };
            let line = line.map_err(|error| wrong(error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let line: GateLine = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            if line.results.is_none() && line.error.is_none() {
                return Err(wrong(
                    "missing field `results` (a list, may be empty) or `error`".into(),
                ));
            }
            let key = line.run.as_ref().map(ToString::to_string).unwrap_or_default();
            if line.run.is_none() && line.round == Some(1) {
                runs.remove(&key);
            }
            if !runs.contains_key(&key) {
                begun += 1;
                let task = line.task.as_deref().unwrap_or(&request.task);
                let mut settings = request.settings;
                if request.seed_by_run {
                    settings.seed = super::derive_seed(&key);
                }
                let state = GateState {
                    gate: Gate::new(settings, task)?,
                    stopped: false,
                };
                runs.insert(key.clone(), state);
            }
            let Some(state) = runs.get_mut(&key) else {
                continue;
            };
            let gated = judge(line, state);
            summary.rounds += 1;
            summary.after_stop += usize::from(gated.after_stop);
            summary.searches += usize::from(!gated.after_stop);
            summary.accepted += usize::from(!gated.after_stop && gated.verdict.accepted);
            novelties.push(gated.by_assessor.clone());
            if let Err(error) = tell(&gated) {
                return Ok(Err(error));
            }
        }
        summary.runs = begun;
        summary.agreement = agreement(&novelties, request.settings.threshold);
        Ok(Ok(summary))
    }
}

fn judge(line: GateLine, state: &mut GateState) -> SearchGateResponse {
    let model = line.model.as_ref().map(|answer| {
        let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        model_score(&text)
    });
    let results = line.results.unwrap_or_default();
    let (verdict, by_assessor) = state.gate.observe(&RoundInput {
        results: &results,
        failed: line.error.is_some_and(|error| !error.is_null()),
        summary: line.state.as_deref(),
        vectors: None,
        model,
    });
    let after_stop = state.stopped;
    state.stopped |= verdict.decision == Decision::Stop;
    SearchGateResponse {
        run: line.run,
        query: line.query,
        words: verdict.words(),
        verdict,
        by_assessor,
        recorded_novelty: line.novelty,
        after_stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(text: &str, settings: GateSettings) -> (Vec<SearchGateResponse>, GateSummary) {
        let request = GateRequest {
            settings,
            task: String::new(),
            seed_by_run: false,
        };
        let mut seen = Vec::new();
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        let summary = ResearchOperations::gate::<()>(&request, "rounds.jsonl", lines, |gated| {
            seen.push(gated.clone());
            Ok(())
        });
        (seen, summary.unwrap().unwrap())
    }

    fn literal() -> GateSettings {
        GateSettings {
            epsilon: 0.0,
            ..GateSettings::literal()
        }
    }

    #[test]
    fn runs_are_separated_and_rounds_numbered() {
        let text = r#"
{"run": "a", "query": "q", "results": [{"title": "t", "href": "u", "body": "x y"}], "state": "", "novelty": 10}
{"run": "b", "results": [{"body": "x y"}], "knowledge_state": "x y"}
{"run": "a", "results": [{"body": "x y"}], "state": "x y"}
{"run": "a", "results": [{"body": "x y"}], "state": "x y"}
{"run": "a", "results": [{"body": "n"}], "state": "x y"}
{"run": "b", "results": []}
{"run": "b", "error": "503"}
"#;
        let (seen, summary) = gated(text, literal());
        assert_eq!((summary.runs, summary.rounds, summary.after_stop), (2, 7, 1));
        assert_eq!((summary.searches, summary.accepted), (6, 3));
        let shown: Vec<(u32, Option<u8>, Decision)> = seen
            .iter()
            .map(|gated| (gated.verdict.round, gated.verdict.score, gated.verdict.decision))
            .collect();
        assert_eq!(
            shown,
            [
                (1, Some(10), Decision::Continue),
                (1, Some(0), Decision::Continue),
                (2, Some(0), Decision::Continue),
                (3, Some(0), Decision::Stop),
                (4, Some(10), Decision::Continue),
                (2, None, Decision::Continue),
                (3, None, Decision::Continue),
            ]
        );
        assert!(seen[4].after_stop);
        assert_eq!(seen[0].recorded_novelty, Some(10.0));
    }

    #[test]
    fn unnamed_runs_restart_at_round_one() {
        let round = |number: u32| {
            format!("{{\"round\": {number}, \"results\": [{{\"body\": \"x\"}}], \"state\": \"x\"}}\n")
        };
        let text: String = [1, 2, 3, 1, 2].map(round).concat();
        let (seen, summary) = gated(&text, literal());
        assert_eq!(summary.runs, 2);
        let rounds: Vec<u32> = seen.iter().map(|gated| gated.verdict.round).collect();
        assert_eq!(rounds, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn invalid_lines_are_reported() {
        let request = GateRequest {
            settings: literal(),
            task: String::new(),
            seed_by_run: false,
        };
        for (text, part) in [
            ("{\"results\": []}\nnot json", "rounds.jsonl:2: "),
            ("{}", "rounds.jsonl:1: missing field `results`"),
            ("{\"results\": [7]}", "rounds.jsonl:1: "),
        ] {
            let lines = text.lines().map(|line| Ok(line.to_owned()));
            let error =
                ResearchOperations::gate::<()>(&request, "rounds.jsonl", lines, |_| Ok(())).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
