//! State of a session between two calls, and the decision about each event. No I/O: the caller
//! loads the state, searches the memory and passes the time.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use satiety::progress::{OpenEnd, OpenEndKind, Progress, ProgressSignal, StepVerdict, describe_call};
use satiety::trajectory::{Builder, Call, CallKind, PlanItem, Step, TurnStart, classify};
use serde::{Deserialize, Serialize};

use super::codec::takes_context;
use super::compaction::{Pins, WorkingSet};
use super::event::{
    Decision, Event, FinishReaction, FinishedCall, HookPolicy, Judgement, MARK, Notification,
    ProgressReaction,
};

/// Number of call ids that are remembered, so that a call that two hooks report is judged once.
const MAX_CALL_IDS: usize = 64;
/// Maximum number of tasks that are followed.
const MAX_TASKS: usize = 200;
/// Maximum number of recorded compactions.
const MAX_COMPACTIONS: usize = 10;
/// Maximum length of the remembered goal and of the text of a task, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// A session of an agent.
#[derive(Debug, Clone, Default)]
pub struct Session {
    pub state: SessionState,
    pub judge: Progress,
}

/// State of a session next to its judge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionState {
    /// Ids of the latest calls.
    call_ids: VecDeque<String>,
    /// Tasks that the agent manages one by one, by id.
    tasks: BTreeMap<String, PlanItem>,
    /// Beginning of the latest prompt of a person.
    pub(super) goal: String,
    /// Whether the agent was kept working since the latest prompt.
    kept_working: bool,
    /// What was open when the person was last informed.
    reported: Vec<OpenEnd>,
    work: WorkingSet,
    /// What to restore after a compaction.
    pins: Option<Pins>,
    /// Number of compactions so far.
    pub(super) compaction_count: usize,
    /// Latest compactions, oldest first.
    pub compactions: VecDeque<CompactionRecord>,
}

/// What a compaction dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CompactionRecord {
    /// Time when the compaction began.
    pub at: Timestamp,
    /// Who asked for the compaction: `manual` or `auto`.
    pub trigger: String,
    /// Number of judged steps before it.
    pub steps: usize,
    /// Estimated tokens of the files that the agent had in its context.
    pub tokens: u64,
    /// Files that were proposed to be kept, the most valuable first.
    pub kept: Vec<String>,
    /// Files that the summary does not mention, or that were not proposed if the host passes no summary.
    pub dropped: Vec<String>,
}

impl Session {
    /// Decides about an event. `memory` is text from the memory for events that begin a turn.
    pub fn decide(
        &mut self,
        notification: &Notification,
        policy: &HookPolicy,
        memory: Option<String>,
        now: Timestamp,
    ) -> Judgement {
        let takes_context = takes_context(notification.host, notification.kind);
        match &notification.event {
            Event::Tools(calls) => {
                let judgement = self.judge_calls(calls, policy, now);
                let restored = takes_context.then(|| self.restore(policy)).flatten();
                with_context(judgement, restored)
            }
            Event::Prompt { text, by_person } => {
                if *by_person {
                    self.judge.begin_series();
                    self.state.kept_working = false;
                    self.state.goal = shorten(text);
                }
                let restored = takes_context.then(|| self.restore(policy)).flatten();
                with_context(about_memory(memory), restored)
            }
            Event::SessionStarted { source, .. } => {
                if source == "clear" {
                    *self = Self::default();
                }
                let restored = (takes_context && source == "compact")
                    .then(|| self.restore(policy))
                    .flatten();
                with_context(about_memory(memory), restored)
            }
            Event::Stopping {
                message,
                kept_working,
                waits,
            } => self.judge_stop(message.as_deref(), *kept_working, *waits, policy, now),
            Event::CompactionStarting { trigger } if policy.compaction => self.begin_compaction(trigger, now),
            Event::CompactionFinished { summary } if policy.compaction => {
                self.end_compaction(summary.as_deref())
            }
            Event::CompactionStarting { .. } | Event::CompactionFinished { .. } => Judgement::pass(),
            Event::SessionEnded => {
                // A resumed session is judged from its next step.
                self.judge = Progress::default();
                Judgement::pass()
            }
        }
    }

    fn judge_calls(&mut self, calls: &[FinishedCall], policy: &HookPolicy, now: Timestamp) -> Judgement {
        if policy.progress == ProgressReaction::Off {
            return Judgement::pass();
        }
        let mut judgement = Judgement::pass();
        let mut duplicates = 0;
        for call in calls {
            if !self.remember_id(call.id.as_deref()) {
                duplicates += 1;
                continue;
            }
            let step = self.step(call, now);
            let verdict = self.judge.observe(&step);
            self.state.work.observe(&step, self.judge.steps());
            if verdict.signal.stops() {
                self.judge.begin_series();
            }
            // Of several calls, the first one that needs a reaction counts.
            if judgement.label == "pass" {
                judgement = react(&verdict, &step, policy.progress);
            }
        }
        if !calls.is_empty() && duplicates == calls.len() {
            judgement.label = "duplicate";
        }
        judgement
    }

    /// Returns false if the call was seen before.
    fn remember_id(&mut self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        let ids = &mut self.state.call_ids;
        if ids.iter().any(|known| known == id) {
            return false;
        }
        ids.push_back(id.to_owned());
        if ids.len() > MAX_CALL_IDS {
            ids.pop_front();
        }
        true
    }

    fn step(&mut self, call: &FinishedCall, now: Timestamp) -> Step {
        let mut builder = Builder::new();
        builder.turn(None, TurnStart::New).time = Some(now);
        builder.call(None, &call.tool, call.arguments.clone());
        builder.result(None, call.result.clone());
        let mut step = builder.finish().steps.pop().unwrap_or_default();
        if self.follow_task(call) {
            step.plan = Some(self.state.tasks.values().cloned().collect());
        }
        step
    }

    /// Follows tasks that are created and updated one by one. Returns whether the call changed one.
    fn follow_task(&mut self, call: &FinishedCall) -> bool {
        let text = |key: &str| call.arguments.get(key).and_then(serde_json::Value::as_str);
        let tasks = &mut self.state.tasks;
        match call.tool.as_str() {
            "TaskCreate" => {
                let (Some(id), Some(subject)) = (created_task(&call.result.content), text("subject")) else {
                    return false;
                };
                if tasks.len() < MAX_TASKS {
                    let item = PlanItem {
                        text: shorten(subject),
                        done: false,
                    };
                    tasks.insert(id, item);
                }
                true
            }
            "TaskUpdate" => {
                let Some(id) = text("taskId") else { return false };
                match text("status") {
                    Some("deleted") => tasks.remove(id).is_some(),
                    Some(status) => tasks.get_mut(id).is_some_and(|task| {
                        task.done = status == "completed";
                        true
                    }),
                    None => false,
                }
            }
            _ => false,
        }
    }

    fn judge_stop(
        &mut self,
        message: Option<&str>,
        kept_working: bool,
        waits: bool,
        policy: &HookPolicy,
        now: Timestamp,
    ) -> Judgement {
        let step = Step {
            text: message.unwrap_or_default().to_owned(),
            finish: true,
            time: Some(now),
            ..Step::default()
        };
        let verdict = self.judge.observe(&step);
        let open = &verdict.open_ends;
        // An agent that asks a person something has a reason to stop, and so has one that is woken later.
        let asks = open.iter().any(|open| open.kind == OpenEndKind::Question);
        if policy.finish == FinishReaction::Off || kept_working || waits || asks || open.is_empty() {
            return Judgement::pass();
        }
        let sentence = verdict.nudge.clone().unwrap_or_else(|| verdict.reason.clone());
        let reason = format!("{} open when the agent stopped", count(open.len(), "item"));
        match policy.finish {
            FinishReaction::Block if !self.state.kept_working => {
                self.state.kept_working = true;
                Judgement::new(
                    Decision::KeepWorking(format!("{MARK} {sentence}")),
                    "keep_working",
                    reason,
                )
            }
            FinishReaction::Report if self.state.reported != *open => {
                self.state.reported.clone_from(open);
                Judgement::new(
                    Decision::Notify(format!("satiety: {}", verdict.reason)),
                    "report_open",
                    reason,
                )
            }
            _ => Judgement::pass(),
        }
    }

    fn begin_compaction(&mut self, trigger: &str, now: Timestamp) -> Judgement {
        let state = &mut self.state;
        let ranked = state.work.rank(self.judge.steps(), &state.goal);
        let tokens = state.work.tokens();
        let pins = Pins::new(ranked.kept.clone(), &self.judge.open_ends());
        let record = CompactionRecord {
            at: now,
            trigger: trigger.to_owned(),
            steps: self.judge.steps(),
            tokens,
            kept: ranked.kept,
            dropped: ranked.rest,
        };
        let reason = format!(
            "{} kept, {} left out",
            count(record.kept.len(), "file"),
            count(record.dropped.len(), "file")
        );
        state.work.forget_read_files();
        state.compaction_count += 1;
        state.compactions.push_back(record);
        if state.compactions.len() > MAX_COMPACTIONS {
            state.compactions.pop_front();
        }
        if pins.is_empty() {
            return Judgement::new(Decision::Pass, "pass", reason);
        }
        let keep = Decision::Keep(pins.describe("Keep in the summary"));
        state.pins = Some(pins);
        Judgement::new(keep, "keep", reason)
    }

    fn end_compaction(&mut self, summary: Option<&str>) -> Judgement {
        let Some(summary) = summary else {
            return Judgement::pass();
        };
        let state = &mut self.state;
        if let Some(pins) = &mut state.pins {
            pins.retain_missing(summary);
        }
        let Some(record) = state.compactions.back_mut() else {
            return Judgement::pass();
        };
        let files: Vec<String> = record.kept.iter().chain(&record.dropped).cloned().collect();
        record.dropped = files
            .into_iter()
            .filter(|file| !super::compaction::is_mentioned(file, summary))
            .collect();
        let reason = format!(
            "the summary does not mention {}",
            count(record.dropped.len(), "file")
        );
        Judgement::new(Decision::Pass, "record", reason)
    }

    /// Text about what was open before a compaction, once.
    fn restore(&mut self, policy: &HookPolicy) -> Option<String> {
        let pins = self.state.pins.take()?;
        (policy.compaction && !pins.is_empty()).then(|| {
            pins.describe(&format!(
                "{MARK} The context was compacted. Before that, this was open"
            ))
        })
    }
}

/// Reaction to the verdict about a call.
fn react(verdict: &StepVerdict, step: &Step, reaction: ProgressReaction) -> Judgement {
    let nudge = || {
        let sentence = verdict.nudge.as_deref().unwrap_or(&verdict.reason);
        format!("{MARK} {sentence}")
    };
    let judge = |decision, label| Judgement::new(decision, label, &verdict.reason);
    match (verdict.signal, reaction) {
        (ProgressSignal::Continue | ProgressSignal::Ship, _) => Judgement::pass(),
        (ProgressSignal::Nudge, ProgressReaction::Report | ProgressReaction::Off) => {
            judge(Decision::Pass, "report_nudge")
        }
        (_, ProgressReaction::Report | ProgressReaction::Off) => judge(Decision::Pass, "report_stop"),
        (ProgressSignal::Nudge, _) | (_, ProgressReaction::Nudge) => {
            judge(Decision::AddContext(nudge()), "nudge")
        }
        (_, ProgressReaction::Stop) => {
            let call = step.calls.first().map(describe_call).unwrap_or_default();
            let decision = Decision::EndTurn {
                reason: format!("satiety: {} The last call was {call}.", verdict.reason),
                advice: format!("{} Stop here and ask the person how to go on.", nudge()),
            };
            judge(decision, "end_turn")
        }
    }
}

fn about_memory(memory: Option<String>) -> Judgement {
    match memory {
        Some(text) => Judgement::new(Decision::AddContext(text), "memory", ""),
        None => Judgement::pass(),
    }
}

/// Adds text to a judgement that leaves room for it.
fn with_context(judgement: Judgement, text: Option<String>) -> Judgement {
    let Some(text) = text else { return judgement };
    match judgement.decision {
        Decision::Pass => Judgement::new(Decision::AddContext(text), "restore", judgement.reason),
        Decision::AddContext(other) => Judgement {
            decision: Decision::AddContext(format!("{text}\n\n{other}")),
            ..judgement
        },
        _ => judgement,
    }
}

/// Id of a created task in the answer of the tool.
fn created_task(answer: &str) -> Option<String> {
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(answer) {
        return match value.pointer("/task/id")? {
            serde_json::Value::String(id) => Some(id.chars().take(64).collect()),
            serde_json::Value::Number(id) => Some(id.to_string()),
            _ => None,
        };
    }
    let (_, rest) = answer.split_once('#')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).take(18).collect();
    (!digits.is_empty()).then_some(digits)
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The first characters of a text, without line breaks and control characters.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MAX_TEXT_CHARS)
        .collect();
    short.trim().to_owned()
}

/// Path of the file that a call reads.
pub(super) fn read_path(call: &Call) -> Option<&str> {
    if classify(call).kind != CallKind::Read {
        return None;
    }
    ["file_path", "path", "absolute_path", "filePath", "target_file"]
        .iter()
        .find_map(|key| call.arguments.get(*key)?.as_str())
}
