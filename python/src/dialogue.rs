//! `satiety.Conversation` and `satiety.score`: discussions round by round, and whole logs.

use std::collections::HashMap;
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
    embeddings: Embeddings,
    rounds: u32,
}

/// Vectors of texts, each computed once; none without a model.
#[derive(Default)]
pub(crate) struct Embeddings {
    model: Option<MiniLm>,
    known: HashMap<String, Vec<f32>>,
}

impl Embeddings {
    pub(crate) fn new(model: Option<MiniLm>) -> Self {
        Self {
            model,
            known: HashMap::new(),
        }
    }

    /// Vectors of texts in their order, with the id of the model.
    fn encode(&mut self, texts: &[String]) -> Option<(String, Vec<Vec<f32>>)> {
        let model = self.model.as_ref()?;
        let mut unknown: Vec<&str> = texts.iter().map(String::as_str).collect();
        unknown.retain(|text| !self.known.contains_key(*text));
        unknown.sort_unstable();
        unknown.dedup();
        for (text, vector) in unknown.iter().zip(model.encode(&unknown)) {
            self.known.insert((*text).to_owned(), vector);
        }
        let vectors = texts.iter().filter_map(|text| self.known.get(text).cloned());
        Some((model.id().to_string(), vectors.collect()))
    }

    fn of_round(&mut self, round: &Round) -> Result<Option<RoundVectors>, Failure> {
        let Some((id, vectors)) = self.encode(&texts_to_embed(round)) else {
            return Ok(None);
        };
        RoundVectors::new(id, round, vectors)
            .map(Some)
            .map_err(|error| Failure::new(error.to_string()).at("round"))
    }
}

/// A conversation without rounds that recognizes blockers by meaning, if there is a model.
fn new_judge(profile: Profile, embeddings: &mut Embeddings) -> Result<Judge, Failure> {
    let prototypes = prototype_texts(&profile);
    let judge = Judge::new(profile)?;
    Ok(match embeddings.encode(&prototypes) {
        Some((_, vectors)) => judge.with_blocker_prototypes(vectors)?,
        None => judge,
    })
}

/// Judges chat messages as a discussion; `None` if they contain no round or are not chat messages.
pub(crate) fn report_discussion(messages: &[Value], embeddings: &mut Embeddings) -> Option<Report> {
    let options = ReadOptions {
        format: Some(InputFormat::Chat),
        growing: false,
    };
    let bytes = serde_json::to_vec(messages).ok()?;
    let transcript = input::parse(&bytes, options).ok()?.content;
    let mut judge = new_judge(Profile::default(), embeddings).ok()?;
    for round in &transcript.rounds {
        let vectors = embeddings.of_round(round).ok()?;
        judge.follow(round, vectors.as_ref()).ok()?;
    }
    judge.report().ok()
}

#[pymethods]
impl Conversation {
    #[new]
    #[pyo3(signature = (profile, meaning))]
    fn new(py: Python<'_>, profile: Option<String>, meaning: bool) -> PyResult<Self> {
        compute(py, || {
            let profile = match profile.as_deref() {
                None => Profile::default(),
                Some(name) if Profile::built_in_names().contains(&name) => Profile::built_in(name)?,
                Some(text) => Profile::parse(text)?,
            };
            let mut embeddings = Embeddings::new(builtin(meaning)?);
            Ok(Self(Mutex::new(State {
                judge: new_judge(profile, &mut embeddings)?,
                embeddings,
                rounds: 0,
            })))
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
            let vectors = state.embeddings.of_round(&round)?;
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
    let bytes =
        serde_json::to_vec(&messages).map_err(|error| Failure::new(error.to_string()).at("messages"))?;
    let log = read::read(&bytes, trajectory::ReadOptions::default())
        .map_err(|error| Failure::new(error.to_string()).at("messages"))?;
    let Some(run) = log.trajectories.first() else {
        return Err(Failure::new("messages contain no turn of an agent").at("messages"));
    };
    let model = builtin(meaning)?;
    // Messages of other shapes than chat are judged by their turns.
    if LogKind::of(run) == LogKind::Deliberation
        && let Some(report) = report_discussion(&messages, &mut Embeddings::new(model.clone()))
    {
        return Ok(json!({"kind": "deliberation", "discussion": report}));
    }
    let report = progress::judge(run, ProgressProfile::built_in(), |step| {
        let text = progress::texts_to_embed(step)?;
        model.as_ref()?.encode(&[&text]).pop()
    });
    Ok(json!({"kind": report.kind, "work": report}))
}
