//! `satiety.Progress`: is an agent at work still making progress?

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use satiety::dialogue::StopRecommendation;
use satiety::progress::{ProgressProfile, RunJudge, StepVerdict, texts_to_embed};
use satiety::trajectory::Step;
use satiety_models::minilm::MiniLm;
use serde_json::{Value, json};

use crate::convert::{to_json, to_python, type_name};
use crate::dialogue::{Embeddings, report_discussion};
use crate::embedder::builtin;
use crate::error::{Failure, compute};

/// Judge of one run, behind a lock so that threads may share it.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Progress {
    state: Mutex<State>,
}

struct State {
    judge: RunJudge,
    model: Option<MiniLm>,
    /// All messages as long as no tool was called, because a discussion is judged as a whole.
    said: Vec<Value>,
    embeddings: Embeddings,
}

impl State {
    fn observe(&mut self, messages: &[Value]) -> Vec<StepVerdict> {
        let mut steps: Vec<Step> = Vec::new();
        for message in messages {
            steps.extend_from_slice(self.judge.push(message));
        }
        let texts: Vec<Option<String>> = match self.model {
            Some(_) => steps.iter().map(texts_to_embed).collect(),
            None => vec![None; steps.len()],
        };
        let to_embed: Vec<&str> = texts.iter().filter_map(Option::as_deref).collect();
        let mut vectors = match &self.model {
            Some(model) if !to_embed.is_empty() => model.encode(&to_embed),
            _ => Vec::new(),
        }
        .into_iter();
        let mut verdicts = Vec::with_capacity(steps.len());
        for (step, text) in steps.iter().zip(&texts) {
            let vector = text.as_ref().and_then(|_| vectors.next());
            verdicts.push(self.judge.observe(step, vector.as_deref()));
        }
        verdicts
    }

    /// Judges what was said, unless a tool was called or the discussion already repeats itself.
    fn judge_discussion(&mut self, messages: Vec<Value>) -> Option<StopRecommendation> {
        if !self.judge.is_open_discussion() {
            self.said = Vec::new();
            return None;
        }
        self.said.extend(messages);
        let report = report_discussion(&self.said, &mut self.embeddings)?;
        Some(report.stop_recommendation)
    }
}

#[pymethods]
impl Progress {
    #[new]
    #[pyo3(signature = (profile, meaning))]
    fn new(py: Python<'_>, profile: Option<String>, meaning: bool) -> PyResult<Self> {
        compute(py, || {
            let profile = match profile {
                Some(text) => ProgressProfile::parse(&text)
                    .map(std::sync::Arc::new)
                    .map_err(|error| Failure::new(error.to_string()).at("profile"))?,
                None => ProgressProfile::built_in(),
            };
            let model = builtin(meaning)?;
            Ok(Self {
                state: Mutex::new(State {
                    judge: RunJudge::new(profile),
                    embeddings: Embeddings::new(model.clone()),
                    said: Vec::new(),
                    model,
                }),
            })
        })
    }

    /// Judges the steps that these messages complete.
    fn observe<'py>(&self, py: Python<'py>, messages: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let messages = messages_to_json(messages, "messages")?;
        let observed = compute(py, || {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let verdicts = state.observe(&messages);
            let discussion = state.judge_discussion(messages);
            Ok(json!({
                "verdicts": verdicts,
                "discussion": discussion,
                "kind": state.judge.kind(),
                "messages": state.judge.records(),
                "steps": state.judge.steps(),
                "wasted_steps": state.judge.wasted_steps(),
                "skipped": state.judge.skipped(),
            }))
        })?;
        to_python(py, &observed)
    }
}

/// Fields of which every message, event, span and step of a known format has at least one.
const DISCRIMINATORS: &[&str] = &[
    "role",
    "type",
    "calls",
    "kind",
    "source",
    "action",
    "observation",
    "event",
    "name",
    "parts",
    "messages",
    "steps",
    "trajectory",
    "resourceSpans",
    "attributes",
];

/// Converts one message or a sequence of messages to a list of objects.
pub(crate) fn messages_to_json(messages: &Bound<'_, PyAny>, place: &str) -> PyResult<Vec<Value>> {
    let wrong = |found: &Bound<'_, PyAny>, place: &str| -> PyErr {
        Failure::new(format!(
            "{place} must be a message or a list of messages, not {}",
            type_name(found)
        ))
        .at(place)
        .hint("pass a list of dicts such as {\"role\": \"assistant\", \"content\": \"…\"}")
        .into()
    };
    if messages.is_none() || messages.is_instance_of::<PyString>() {
        return Err(wrong(messages, place));
    }
    let value = match to_json(messages, place)? {
        Value::Array(values) => values,
        one @ Value::Object(_) => vec![one],
        _ => return Err(wrong(messages, place)),
    };
    for (index, message) in value.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let Value::Object(fields) = message else {
            return Err(Failure::new(format!("{place} must be a message (a dict)"))
                .at(place)
                .into());
        };
        if !DISCRIMINATORS.iter().any(|key| fields.contains_key(*key)) {
            return Err(Failure::new(format!("{place} has no `role`"))
                .at(format!("{place}.role"))
                .hint(
                    "pass messages with `role` and `content`, messages of a framework, or steps with `calls`",
                )
                .into());
        }
    }
    Ok(value)
}
