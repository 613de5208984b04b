//! `satiety.Conversation` and `satiety.score`: discussions round by round, and whole logs.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use satiety::dialogue::input::{self, InputFormat, ReadOptions};
use satiety::dialogue::{
    Conversation as Judge, ConversationError, Profile, ProfileError, Report, Round, RoundVectors,
    prototype_texts, texts_to_embed,
};
use satiety::progress::{self, LogKind, ProgressProfile};
use satiety::trajectory::{self, read};
use satiety_models::minilm::MiniLm;
use serde_json::{Value, json};

use crate::convert::{deserialize, to_json, to_python};
use crate::embedder::builtin;
use crate::error::{Failure, compute};
use crate::progress::messages_to_json;

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        Self::new(error.to_string()).at("round")
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        Self::new(error.to_string()).at("profile")
    }
}

/// A conversation, behind a lock so that threads may share it.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Conversation(Mutex<State>);

struct State {
    judge: Judge,
    model: Option<MiniLm>,
    rounds: u32,
}

impl State {
    fn new(profile: Option<&str>, meaning: bool) -> Result<Self, Failure> {
        let profile = match profile {
            None => Profile::built_in("default")?,
            Some(name) if Profile::built_in_names().contains(&name) => Profile::built_in(name)?,
            Some(text) => Profile::parse(text)?,
        };
        let model = builtin(meaning)?;
        let prototypes = prototype_texts(&profile);
        let mut judge = Judge::new(profile)?;
        if let Some(model) = &model {
            judge = judge.with_blocker_prototypes(encode(model, &prototypes))?;
        }
        Ok(Self {
            judge,
            model,
            rounds: 0,
        })
    }

    fn vectors(&self, round: &Round) -> Result<Option<RoundVectors>, Failure> {
        let Some(model) = &self.model else {
            return Ok(None);
        };
        let vectors = encode(model, &texts_to_embed(round));
        RoundVectors::new(model.id().to_string(), round, vectors)
            .map(Some)
            .map_err(|error| Failure::new(error.to_string()).at("round"))
    }

    fn report(profile: Option<&str>, meaning: bool, rounds: &[Round]) -> Result<Report, Failure> {
        let mut state = Self::new(profile, meaning)?;
        for round in rounds {
            let vectors = state.vectors(round)?;
            state.judge.follow(round, vectors.as_ref())?;
        }
        Ok(state.judge.report()?)
    }
}

fn encode(model: &MiniLm, texts: &[String]) -> Vec<Vec<f32>> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    model.encode(&texts)
}

#[pymethods]
impl Conversation {
    #[new]
    #[pyo3(signature = (profile, meaning))]
    fn new(py: Python<'_>, profile: Option<String>, meaning: bool) -> PyResult<Self> {
        compute(py, || {
            Ok(Self(Mutex::new(State::new(profile.as_deref(), meaning)?)))
        })
    }

    /// Adds a round; its number is assigned if it has none.
    fn observe<'py>(&self, py: Python<'py>, round: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut round = to_json(round, "round")?;
        let verdict = compute(py, || {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Value::Object(fields) = &mut round {
                fields
                    .entry("round")
                    .or_insert_with(|| Value::from(state.rounds + 1));
            }
            let round: Round = deserialize(round, "round")?;
            let vectors = state.vectors(&round)?;
            let verdict = state.judge.observe(&round, vectors.as_ref())?;
            state.rounds = round.round;
            Ok(verdict)
        })?;
        to_python(py, &verdict)
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = compute(py, || {
            let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(state.judge.report()?)
        })?;
        to_python(py, &report)
    }
}

/// Judges messages: what agents did if they called tools, otherwise what they said.
#[pyfunction]
#[pyo3(signature = (messages, meaning))]
pub(crate) fn score<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    meaning: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let messages = messages_to_json(messages, "messages")?;
    let report = compute(py, || score_messages(messages, meaning))?;
    to_python(py, &report)
}

fn score_messages(messages: Vec<Value>, meaning: bool) -> Result<Value, Failure> {
    if messages.is_empty() {
        return Err(Failure::new("messages must not be empty").at("messages"));
    }
    let bytes = Value::Array(messages).to_string().into_bytes();
    let log = read::read(&bytes, trajectory::ReadOptions::default())
        .map_err(|error| Failure::new(error.to_string()).at("messages"))?;
    let Some(run) = log.trajectories.first() else {
        return Err(Failure::new("messages contain no turn of an agent").at("messages"));
    };
    if LogKind::of(run) == LogKind::Deliberation {
        let options = ReadOptions {
            format: Some(InputFormat::Chat),
            growing: false,
        };
        // Messages of other shapes than chat are judged by their turns.
        if let Ok(parsed) = input::parse(&bytes, options)
            && let Ok(report) = State::report(None, meaning, &parsed.content.rounds)
        {
            return Ok(json!({"kind": "deliberation", "discussion": report}));
        }
    }
    let model = builtin(meaning)?;
    let report = progress::judge(run, ProgressProfile::built_in(), |step| {
        let text = progress::texts_to_embed(step)?;
        model.as_ref()?.encode(&[&text]).pop()
    });
    Ok(json!({"kind": report.kind, "work": report}))
}
