//! Eviction simulator: generates traces, converts logs to traces, and replays them under policies. Also the
//! benchmark target that answers with a scorer version, so that an ablation can show whether it does harm.

use crate::handles::EvictionOperations;
use satiety::Hint;
use satiety::eviction::Weights;
use satiety::eviction::calibration::{FitSettings, Online, fit};
use satiety::eviction::gate::{BASELINE, Scorer};
use satiety::eviction::simulation::{
    Agent, Budget, GeneratorSettings, LearningSettings, Policy, ReplayOptions, Session, Simulation,
    SimulationSettings, gather, generate, read_trace, replay, simulate, write_trace,
};
use satiety::stats::BootstrapSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::scopes::built_in_weights;
use crate::EngineError;

/// Simulated agent that versions learn from: it knows what it will use in the next ten turns, with errors.
const AGENT: Agent = Agent::Foresight {
    horizon: 10,
    recall: 0.7,
    false_positive: 0.05,
};

/// Share of exploratory candidates in simulations, relative to the items that must be evicted; they cost
/// nothing there.
const EXPLORATION: f64 = 0.5;

/// Request to replay a trace under policies.
#[derive(Debug, Clone)]
pub struct SimulateRequest {
    /// Name of the trace for error messages, and its text.
    pub trace: (String, String),
    /// Names of policies, scorer versions, or files with weights; if empty, all policies without parameters.
    pub policies: Vec<String>,
    /// Size of the context.
    pub budget: Budget,
    /// Share of the context that a flush leaves free.
    pub headroom: f64,
    /// Name and text of a trace to learn from first; adds the policy `calibrated`.
    pub learn_from: Option<(String, String)>,
    /// Random seed.
    pub seed: u64,
    /// Bootstrap resamples for the confidence intervals.
    pub resamples: u64,
    /// Provider whose cache prices the bill uses; the configured one if absent.
    pub provider: Option<String>,
}

/// Result of replaying a trace under policies.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SimulateResponse {
    /// Name of the replayed trace.
    pub trace: String,
    /// Size limit of the simulated context.
    pub budget: Budget,
    /// Metrics of each policy.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// The same by the broad definition of use; absent if the trace does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broad: Option<Simulation>,
    /// Provider whose prices the bill uses.
    pub provider: String,
}

/// Answer of a scorer version to a benchmark case.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetAnswer {
    /// Summary of the metrics as text.
    pub output: String,
    /// Metrics of the replay, by name.
    pub metrics: std::collections::BTreeMap<String, f64>,
}

impl EvictionOperations<'_> {
    /// Replays a trace under policies.
    pub async fn simulate(self, request: SimulateRequest) -> Result<SimulateResponse, EngineError> {
        let sessions = read(&request.trace)?;
        let mut policies = Vec::new();
        if request.policies.is_empty() {
            policies.push(Policy::Ours(Box::new(Weights::heuristic())));
        }
        for name in &request.policies {
            policies.push(self.policy(name).await?);
        }
        let prices = &self.engine.eviction.settings;
        let provider = request
            .provider
            .clone()
            .unwrap_or_else(|| prices.provider.clone());
        let options = ReplayOptions {
            budget: request.budget,
            headroom: request.headroom,
            seed: request.seed,
            prices: prices.prices.clone(),
            provider: provider.clone(),
            ..ReplayOptions::default()
        };
        if let Some(training) = &request.learn_from {
            policies.push(Policy::Ours(Box::new(fit_weights(&read(training)?, &options)?)));
        }
        if request.policies.is_empty() {
            policies.push(Policy::Priced(Box::new(Weights::heuristic())));
            policies.extend(Policy::plain());
            policies.push(Policy::None);
        }
        let settings = SimulationSettings {
            replay: options,
            bootstrap: BootstrapSettings {
                resamples: request.resamples,
                seed: request.seed,
                ..BootstrapSettings::default()
            },
            against: vec![Policy::Lru, Policy::GreedyDual],
        };
        let simulation = simulate(&sessions, &policies, &settings)?;
        let broad = if sessions.iter().any(Session::has_broad_uses) {
            let all: Vec<Session> = sessions.into_iter().map(Session::with_broad_uses).collect();
            Some(simulate(&all, &policies, &settings)?)
        } else {
            None
        };
        Ok(SimulateResponse {
            trace: request.trace.0.clone(),
            budget: request.budget,
            simulation,
            broad,
            provider,
        })
    }

    /// Generates a synthetic trace.
    pub fn generate(self, settings: &GeneratorSettings) -> Result<String, EngineError> {
        Ok(write_trace(&generate(settings)?))
    }

    async fn policy(self, name: &str) -> Result<Policy, EngineError> {
        if let Ok(policy) = name.parse() {
            return Ok(policy);
        }
        if let Some(weights) = built_in_weights(name) {
            return Ok(Policy::Ours(Box::new(weights)));
        }
        Ok(Policy::Ours(Box::new(self.scorer_or_file(name).await?.weights)))
    }

    /// Loads a scorer version by name, or from a file: TOML with weights, or JSON as printed by `evict
    /// weights VERSION`.
    pub async fn scorer_or_file(self, name: &str) -> Result<Scorer, EngineError> {
        let path = std::path::Path::new(name);
        if !path.is_file() {
            return self.scorer(name).await;
        }
        let text = fs_err::read_to_string(path).map_err(|cause| EngineError::File {
            action: "read",
            path: name.into(),
            cause,
        })?;
        if path.extension().is_some_and(|extension| extension == "json") {
            let scorer: Scorer = super::scopes::parse(&text, || name.to_owned())?;
            scorer.check()?;
            return Ok(scorer);
        }
        Ok(Scorer {
            weights: Weights::from_toml(&text)?,
            ..Scorer::baseline()
        })
    }
}

/// Answers a benchmark case: replays the session that the case names (`config_overrides`: `session` of the
/// trace, or `seed` and `turns` of a generated one; `budget` in tokens, or `budget_share` of the session) and
/// measures how much of the needed context was retained.
pub fn target_answer(
    request: &Value,
    scorer: &Scorer,
    trace: &[Session],
) -> Result<TargetAnswer, EngineError> {
    let named = request
        .pointer("/input/config_overrides/session")
        .and_then(Value::as_str);
    let asked = |key: &str, otherwise: u64| {
        request
            .pointer(&format!("/input/config_overrides/{key}"))
            .and_then(Value::as_u64)
            .unwrap_or(otherwise)
    };
    let generator = GeneratorSettings {
        sessions: 1,
        turns: asked("turns", 250),
        seed: asked("seed", 1),
        ..GeneratorSettings::default()
    };
    let share = request
        .pointer("/input/config_overrides/budget_share")
        .and_then(Value::as_f64);
    let options = ReplayOptions {
        budget: share.map_or_else(|| Budget::Tokens(asked("budget", 24_000)), Budget::Share),
        ..ReplayOptions::default()
    };
    let sessions = match named {
        None => generate(&generator)?,
        Some(name) => {
            let found = trace.iter().find(|session| session.id == name);
            let found = found.ok_or_else(|| EngineError::NotFound {
                what: format!("session `{name}` of the trace"),
                hint: "keep the suite together with the trace that was written beside it".into(),
            })?;
            vec![found.clone()]
        }
    };
    let mut weights = scorer.weights.clone();
    if let Some(settings) = scorer.online {
        // It adapts to the agent before the measurement, on separate sessions.
        let before = if named.is_some() {
            let other = |session: &&Session| Some(session.id.as_str()) != named;
            trace.iter().filter(other).cloned().collect()
        } else {
            generate(&GeneratorSettings {
                seed: generator.seed.wrapping_add(1 << 32),
                ..generator
            })?
        };
        let learning = LearningSettings {
            replay: ReplayOptions {
                agent: Some(AGENT),
                exploration: EXPLORATION,
                ..options.clone()
            },
            proposals: None,
        };
        let labels = gather(&before, &weights, &learning)?;
        let mut online = Online::new(&weights, &labels, settings)?;
        for label in &labels {
            online.observe(label)?;
        }
        weights = online.weights(&weights.version);
    }
    let policy = Policy::Ours(Box::new(weights));
    let (mut hits, mut uses, mut preserved, mut answers, mut retained) = (0, 0, 0, 0, 0);
    for session in &sessions {
        let found = replay(session, &policy, &options)?;
        hits += found.hits;
        uses += found.uses;
        preserved += found.answers_preserved;
        answers += found.answers;
        retained += found.retained_tokens;
    }
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let relevance = share(hits, uses);
    // Retained tokens, turn by turn, per use that they served.
    let efficiency = share(retained, hits);
    let results = share(preserved, answers);
    Ok(TargetAnswer {
        output: format!("{:.1} % of what was needed was there", relevance * 100.0),
        metrics: [
            ("retained_relevance".to_owned(), relevance),
            ("tokens_per_use".to_owned(), efficiency),
            ("task_results".to_owned(), results),
        ]
        .into(),
    })
}

fn fit_weights(training: &[Session], options: &ReplayOptions) -> Result<Weights, EngineError> {
    let learning = LearningSettings {
        replay: ReplayOptions {
            agent: Some(AGENT),
            exploration: EXPLORATION,
            ..options.clone()
        },
        proposals: None,
    };
    let labels = gather(training, &Weights::heuristic(), &learning)?;
    Ok(fit(
        &labels,
        &Weights::heuristic(),
        "calibrated",
        &FitSettings::default(),
    )?
    .weights)
}

fn read((name, text): &(String, String)) -> Result<Vec<Session>, EngineError> {
    read_trace(text).map_err(|problem| with_name(name, &problem))
}

fn with_name(name: &str, problem: &satiety::eviction::EvictionError) -> EngineError {
    EngineError::Invalid {
        message: format!("{name}: {problem}"),
        hint: problem.hint(),
    }
}

impl EvictionOperations<'_> {
    /// Prepares an ablation of a version: a suite of sessions, the control and the version as targets, and
    /// the command that runs it. `command` starts this program. The sessions are those of the trace, or
    /// generated ones if there is none.
    pub async fn variants(self, request: &VariantsRequest, command: &str) -> Result<Variants, EngineError> {
        let scorer = self.scorer(&request.version).await?;
        let trace = match &request.trace {
            Some(text) => Some(read(&("trace".into(), text.clone()))?),
            None => None,
        };
        let in_force = self.active_scorer().await?;
        let baseline = Weights::heuristic().version;
        let control = if in_force.weights.version == baseline {
            BASELINE.to_owned()
        } else {
            in_force.weights.version.clone()
        };
        let version = scorer.weights.version.clone();
        if version == in_force.weights.version {
            return Err(EngineError::Invalid {
                message: format!("`{version}` is the active version, so there is nothing to compare it with"),
                hint: Hint::with_command("list the weights to see their versions", "satiety evict weights"),
            });
        }
        let suite = match &trace {
            Some(sessions) => suite_of_trace(sessions),
            None => suite(),
        };
        let mut files = vec![ScorerFile::new(
            "suite.json",
            serde_json::to_string_pretty(&suite)?,
        )];
        let (about, argument) = match &trace {
            Some(sessions) => {
                files.push(ScorerFile::new("trace.jsonl", write_trace(sessions)));
                (
                    "the sessions of trace.jsonl",
                    ", \"--trace\", \"{{base}}/trace.jsonl\"",
                )
            }
            None => ("made-up sessions", ""),
        };
        for (name, scorer) in [(&control, &in_force), (&version, &scorer)] {
            files.push(ScorerFile::new(
                &format!("{name}.json"),
                serde_json::to_string_pretty(scorer)?,
            ));
            files.push(ScorerFile::new(
                &format!("{name}.toml"),
                format!(
                    "# Replays {about} with this scorer. Put your own agent here to measure it in earnest.\n\
                     type = \"worker\"\ncommand = {}\nargs = [\"evict\", \"target\", \"{{{{base}}}}/{name}.json\"{argument}]\n",
                    Value::from(command)
                ),
            ));
        }
        Ok(Variants {
            version,
            control,
            sessions: trace.map_or(usize::try_from(CASES).unwrap_or(usize::MAX), |trace| trace.len()),
            files,
        })
    }
}

/// Request for the files of an ablation of a scorer version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantsRequest {
    /// Version of the scorer under test.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Sessions to judge on, as a trace (JSON Lines, one turn per line); generated ones if absent.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub trace: Option<String>,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScorerFile {
    /// Name of the file, without a directory.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

impl ScorerFile {
    fn new(name: &str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            text,
        }
    }
}

/// Files for an ablation of a scorer version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Variants {
    /// Version of the scorer under test.
    pub version: String,
    /// Version that serves as the control.
    pub control: String,
    /// Number of sessions that the suite replays.
    pub sessions: usize,
    /// Files to write into one directory.
    pub files: Vec<ScorerFile>,
}

/// Number of sessions that an ablation replays.
const CASES: u64 = 30;
/// Seed of the first session; documentation and tuning use smaller seeds.
const FIRST_SEED: u64 = 5000;

/// Share of a session's tokens that its context holds in an ablation on recorded sessions.
const BUDGET_SHARE: f64 = 0.25;

fn suite() -> Value {
    suite_of(
        "A made-up session of an agent, replayed under a budget",
        (0..CASES).map(|number| json!({"seed": FIRST_SEED + number})),
    )
}

fn suite_of_trace(sessions: &[Session]) -> Value {
    suite_of(
        "A recorded session of an agent, replayed under a budget",
        sessions
            .iter()
            .map(|session| json!({"session": session.id, "budget_share": BUDGET_SHARE})),
    )
}

fn suite_of(description: &str, overrides: impl Iterator<Item = Value>) -> Value {
    let cases: Vec<Value> = overrides
        .enumerate()
        .map(|(number, overrides)| {
            json!({
                "case_id": format!("session-{number:02}"),
                "description": description,
                "input": {"goal": "Keep what will be needed.", "config_overrides": overrides},
                "expected": {"mode": "contains", "value": "was there"},
                "tags": ["eviction"],
                "difficulty": "medium"
            })
        })
        .collect();
    json!({
        "suite_id": "eviction",
        "name": "Eviction: is what is needed still there?",
        "target": "scorer",
        "version": "1.0.0",
        "deterministic": true,
        "cases": cases
    })
}
