//! Converts the runs of agents to traces. Every step is a turn and one request: the task is pinned, and what the
//! agent wrote, its calls, their results and the messages of others become items.
//!
//! Logs do not record which items a step used, so uses are inferred, by two definitions that are kept apart:
//!
//! - **strict**: a call names a path or an id again; the latest item that holds it was used;
//! - **broad**: content reappears: the step quotes a line of an item, or shares rare words with it.
//!
//! Both miss items that an agent used without a trace in its words, and the broad one also counts coincidences.
//! Items keep their text unless `content` is off.

mod holders;
mod reappearance;

use std::collections::BTreeSet;

use serde_json::Value;

use self::holders::Holders;
use self::reappearance::Contents;
use super::error::EvictionError;
use super::item::ContextItem;
use super::simulation::{Session, TraceTurn};
use crate::trajectory::{Call, CallKind, Step, Trajectory, classify};

/// Options of the conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertOptions {
    /// Name of the session.
    pub session: String,
    /// Number of shared rare words that count as a broad use.
    pub overlap: usize,
    /// Whether items keep their text.
    pub content: bool,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            session: "session".to_owned(),
            overlap: 3,
            content: true,
        }
    }
}

/// Converts a run to a session of a trace. `count` counts tokens.
pub fn convert(
    run: &Trajectory,
    options: &ConvertOptions,
    count: &dyn Fn(&str) -> u64,
) -> Result<Session, EvictionError> {
    let mut converter = Converter {
        options,
        count,
        turns: Vec::new(),
        holders: Holders::default(),
        contents: Contents::new(options.overlap),
        ids: Vec::new(),
    };
    if let Some(task) = run.task.as_deref().filter(|task| !task.trim().is_empty()) {
        converter.begin(Some(task));
        let item = converter.item("system", "instruction", task)?;
        if let Some(item) = converter.added(item) {
            item.pinned = true;
        }
    }
    for step in &run.steps {
        converter.step(step)?;
    }
    if converter.ids.is_empty() {
        return Err(EvictionError::Trace {
            line: 1,
            reason: "no step with text found".into(),
        });
    }
    Ok(Session {
        id: options.session.clone(),
        turns: converter.turns,
    })
}

struct Converter<'a> {
    options: &'a ConvertOptions,
    count: &'a dyn Fn(&str) -> u64,
    turns: Vec<TraceTurn>,
    holders: Holders,
    contents: Contents,
    /// Ids of the items so far, by number.
    ids: Vec<String>,
}

impl Converter<'_> {
    fn begin(&mut self, goal: Option<&str>) {
        self.turns.push(TraceTurn {
            session: self.options.session.clone(),
            turn: self.turns.len() as u64,
            goal: goal.map(str::to_owned),
            ..TraceTurn::default()
        });
    }

    fn step(&mut self, step: &Step) -> Result<(), EvictionError> {
        self.begin(None);
        let known = self.ids.len();
        let mut strict: BTreeSet<usize> = BTreeSet::new();
        let mut written = step.text.clone();
        for call in &step.calls {
            strict.extend(self.holders.used_by(call));
            written.push('\n');
            written.push_str(&call_text(call));
        }
        let broad = self.contents.used_by(&written);
        if !step.text.trim().is_empty() {
            self.item("chronicle", "message", &step.text)?;
        }
        for call in &step.calls {
            let made = self.item("chronicle", "tool_call", &call_text(call))?;
            let answered = match &call.result {
                Some(result) if !result.content.trim().is_empty() => {
                    let reads = classify(call).kind == CallKind::Read && self.holders.names_path(call);
                    let kind = if reads { "file" } else { "tool_result" };
                    let item = self.item("workspace", kind, &result.content)?;
                    self.holders.learn(&result.content, item);
                    Some(item)
                }
                _ => None,
            };
            self.holders.hold(call, made, answered);
        }
        for reply in &step.replies {
            if !reply.text.trim().is_empty() {
                let item = self.item("chronicle", "message", &reply.text)?;
                self.holders.learn(&reply.text, item);
            }
        }
        let name = |items: &BTreeSet<usize>| -> Vec<String> {
            let before = items.iter().filter(|item| **item < known);
            before.map(|item| self.ids[*item].clone()).collect()
        };
        let (uses, broad_uses) = (name(&strict), name(&broad.difference(&strict).copied().collect()));
        if let Some(turn) = self.turns.last_mut() {
            (turn.uses, turn.broad_uses) = (uses, broad_uses);
        }
        Ok(())
    }

    /// Adds an item to the current turn and returns its number.
    fn item(&mut self, zone: &str, kind: &str, text: &str) -> Result<usize, EvictionError> {
        let number = self.ids.len();
        let mut item = ContextItem::new(format!("{kind}-{number}"), zone, (self.count)(text));
        kind.clone_into(&mut item.kind);
        let Some(turn) = self.turns.last_mut() else {
            return Ok(number);
        };
        (item.created_turn, item.last_referenced_turn) = (turn.turn, turn.turn);
        item.content = self.options.content.then(|| text.to_owned());
        item.check()?;
        self.contents.add(text, number);
        self.ids.push(item.ctx_id.clone());
        turn.add.push(item);
        Ok(number)
    }

    fn added(&mut self, number: usize) -> Option<&mut ContextItem> {
        let id = self.ids.get(number)?;
        let added = &mut self.turns.last_mut()?.add;
        added.iter_mut().find(|item| item.ctx_id == *id)
    }
}

/// A call as the model sees it: the tool and its arguments.
fn call_text(call: &Call) -> String {
    match &call.arguments {
        Value::Null => call.tool.clone(),
        Value::String(text) => format!("{} {text}", call.tool),
        arguments => format!("{} {arguments}", call.tool),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
