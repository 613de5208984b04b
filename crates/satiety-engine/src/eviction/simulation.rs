//! Eviction simulator: generates traces, converts logs to traces, and replays them under policies. Also the
//! benchmark target that answers with a scorer version, so that an ablation can show whether it does harm.

use crate::handles::EvictionOperations;
use satiety::Hint;
use satiety::eviction::calibration::{FitSettings, Online, fit};
use satiety::eviction::gate::{BASELINE, Scorer};
use satiety::eviction::simulation::{
    Agent, Budget, GeneratorSettings, LearningSettings, Policy, ReplayOptions, Session, Simulation,
    SimulationSettings, gather, generate, read_trace, replay, simulate, write_trace,
};
use satiety::eviction::{ConvertOptions, Weights, convert};
use satiety::stats::BootstrapSettings;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::scopes::built_in_weights;
use super::tokens::count_tokens;
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
}

/// Request to convert a log to a trace.
#[derive(Debug, Clone)]
pub struct ConvertRequest {
    /// Name of the log for error messages, and its text.
    pub log: (String, String),
    pub options: ConvertOptions,
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
        let options = ReplayOptions {
            budget: request.budget,
            headroom: request.headroom,
            seed: request.seed,
            ..ReplayOptions::default()
        };
        if let Some(training) = &request.learn_from {
            policies.push(Policy::Ours(Box::new(fit_weights(&read(training)?, &options)?)));
        }
        if request.policies.is_empty() {
            policies.extend(Policy::plain());
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
        Ok(SimulateResponse {
            trace: request.trace.0.clone(),
            budget: request.budget,
            simulation: simulate(&sessions, &policies, &settings)?,
        })
    }

    /// Generates a synthetic trace.
    pub fn generate(self, settings: &GeneratorSettings) -> Result<String, EngineError> {
        Ok(write_trace(&generate(settings)?))
    }

    /// Converts a log to a trace.
    pub fn convert(self, request: &ConvertRequest) -> Result<String, EngineError> {
        let (name, text) = &request.log;
        let session =
            convert(text, &request.options, &count_tokens).map_err(|problem| with_name(name, &problem))?;
        Ok(write_trace(&[session]))
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

/// Answers a benchmark case: replays the session that the case describes (`config_overrides`: `seed`,
/// `turns`, `budget`) and measures how much of the needed context was retained.
pub fn target_answer(request: &Value, scorer: &Scorer) -> Result<TargetAnswer, EngineError> {
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
    let options = ReplayOptions {
        budget: Budget::Tokens(asked("budget", 24_000)),
        ..ReplayOptions::default()
    };
    let sessions = generate(&generator)?;
    let mut weights = scorer.weights.clone();
    if let Some(settings) = scorer.online {
        // It adapts to the agent before the measurement, on separate sessions.
        let before = generate(&GeneratorSettings {
            seed: generator.seed.wrapping_add(1 << 32),
            ..generator
        })?;
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
    /// the command that runs it. `command` starts this program.
    pub async fn variants(self, version: &str, command: &str) -> Result<Variants, EngineError> {
        let scorer = self.scorer(version).await?;
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
        let mut files = vec![("suite.json".to_owned(), serde_json::to_string_pretty(&suite())?)];
        for (name, scorer) in [(&control, &in_force), (&version, &scorer)] {
            files.push((format!("{name}.json"), serde_json::to_string_pretty(scorer)?));
            files.push((
                format!("{name}.toml"),
                format!(
                    "# Replays made-up sessions with this scorer. Put your own agent here to measure it in earnest.\n\
                     type = \"worker\"\ncommand = {}\nargs = [\"evict\", \"target\", \"{{{{base}}}}/{name}.json\"]\n",
                    Value::from(command)
                ),
            ));
        }
        Ok(Variants {
            version,
            control,
            files,
        })
    }
}

/// Files for an ablation of a scorer version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Variants {
    /// Version of the scorer under test.
    pub version: String,
    /// Version that serves as the control.
    pub control: String,
    /// Files to write, as name and text.
    pub files: Vec<(String, String)>,
}

/// Number of sessions that an ablation replays.
const CASES: u64 = 30;
/// Seed of the first session; documentation and tuning use smaller seeds.
const FIRST_SEED: u64 = 5000;

fn suite() -> Value {
    let cases: Vec<Value> = (0..CASES)
        .map(|number| {
            json!({
                "case_id": format!("session-{number:02}"),
                "description": "A made-up session of an agent, replayed under a budget",
                "input": {"goal": "Keep what will be needed.", "config_overrides": {"seed": FIRST_SEED + number}},
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
