//! Traces: made up, converted from logs, and replayed under policies. Also what a benchmark asks of a version of the scorer,
//! so that an ablation can show whether it does harm.

use crate::handles::EvictionOperations;
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

use super::scopes::heuristic_named;
use super::tokens::count_tokens;
use crate::EngineError;

/// The agent from whose answers versions learn in simulations: it knows what it will use in the next ten turns, with errors.
const AGENT: Agent = Agent::Foresight {
    horizon: 10,
    recall: 0.7,
    false_positive: 0.05,
};

/// How many items a simulated agent is asked about only to learn, as a share of those that must go: it costs nothing there.
const EXPLORATION: f64 = 0.5;

/// Asks how policies do on a trace.
#[derive(Debug, Clone)]
pub struct SimulateRequest {
    /// What messages call the trace, and its text.
    pub trace: (String, String),
    /// Names of policies, versions of the scorer, or files with weights; all that need no name where empty.
    pub policies: Vec<String>,
    /// How big the context is.
    pub budget: Budget,
    /// The share of it that a flush leaves free.
    pub headroom: f64,
    /// A trace to learn from first: adds the policy `calibrated`.
    pub learn_from: Option<(String, String)>,
    /// Seed of chance.
    pub seed: u64,
    /// Resamples for the intervals.
    pub resamples: u64,
}

/// How policies did.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SimulateResponse {
    /// The trace.
    pub trace: String,
    /// How big the context was.
    pub budget: Budget,
    /// The figures.
    #[serde(flatten)]
    pub simulation: Simulation,
}

/// Asks for a trace made from a log.
#[derive(Debug, Clone)]
pub struct ConvertRequest {
    /// What messages call the log, and its text.
    pub log: (String, String),
    /// How.
    pub options: ConvertOptions,
}

/// What a version of the scorer answers to a case of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetAnswer {
    /// The figures, in words.
    pub output: String,
    /// The figures.
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
            policies.push(Policy::Ours(Box::new(learned(&read(training)?, &options)?)));
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

    /// Makes a trace up.
    pub fn generate(self, settings: &GeneratorSettings) -> Result<String, EngineError> {
        Ok(write_trace(&generate(settings)?))
    }

    /// Makes a trace from a log.
    pub fn convert(self, request: &ConvertRequest) -> Result<String, EngineError> {
        let (name, text) = &request.log;
        let session =
            convert(text, &request.options, &count_tokens).map_err(|problem| named(name, &problem))?;
        Ok(write_trace(&[session]))
    }

    async fn policy(self, name: &str) -> Result<Policy, EngineError> {
        if let Ok(policy) = name.parse() {
            return Ok(policy);
        }
        if let Some(weights) = heuristic_named(name) {
            return Ok(Policy::Ours(Box::new(weights)));
        }
        Ok(Policy::Ours(Box::new(self.scorer_or_file(name).await?.weights)))
    }

    /// A version of the scorer by its name, or from a file: TOML with weights, or JSON as `evict weights VERSION` prints.
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

/// Answers a case: replays a session that the case describes (`config_overrides`: `seed`, `turns`, `budget`) and measures
/// what was there when it was needed.
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
        // It adjusts itself to the agent before it is measured, on sessions that are not measured.
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
    // Tokens that were kept, turn by turn, for each use that they served.
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

fn learned(training: &[Session], options: &ReplayOptions) -> Result<Weights, EngineError> {
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
    read_trace(text).map_err(|problem| named(name, &problem))
}

fn named(name: &str, problem: &satiety::eviction::EvictionError) -> EngineError {
    EngineError::Invalid {
        message: format!("{name}: {problem}"),
        hint: problem.hint().into(),
    }
}

impl EvictionOperations<'_> {
    /// What an ablation of a version needs: a suite of sessions, a control and the version as targets, and the command that
    /// runs it. `command` is how this program is started.
    pub async fn variants(self, version: &str, command: &str) -> Result<Variants, EngineError> {
        let scorer = self.scorer(version).await?;
        let in_force = self.scorer_in_force().await?;
        let baseline = Weights::heuristic().version;
        let control = if in_force.weights.version == baseline {
            BASELINE.to_owned()
        } else {
            in_force.weights.version.clone()
        };
        let version = scorer.weights.version.clone();
        if version == in_force.weights.version {
            return Err(EngineError::Invalid {
                message: format!("`{version}` is in force, so there is nothing to compare it with"),
                hint: "`satiety evict weights` shows all versions".into(),
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

/// What an ablation needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Variants {
    /// The version.
    pub version: String,
    /// The name of the control.
    pub control: String,
    /// Files: name and text.
    pub files: Vec<(String, String)>,
}

/// Sessions that an ablation replays.
const CASES: u64 = 30;
/// The seed of the first; those of the documents and of tuning are smaller.
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
