//! Builds a trajectory from the records of a log: turns, calls, results, replies.

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::classify::{CallKind, classify};
use super::read::react;
use super::step::{Call, CallResult, PlanItem, Reply, Step, Trajectory};

/// Collects records in the order of the log and forms steps from them.
///
/// Call [`turn`](Self::turn) when the agent speaks, then [`text`](Self::text) and [`call`](Self::call) for
/// the content of the turn; [`result`](Self::result) and [`reply`](Self::reply) for what comes back.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the log")]
pub struct Builder {
    trajectory: Trajectory,
    /// Whether a result or reply arrived since the last turn began.
    answered: bool,
    /// Steps at the front that were already taken by [`take_complete`](Self::take_complete).
    taken: usize,
    /// Whether the log has calls of its own, so that commands in texts are quotations.
    has_calls: bool,
    /// Whether steps without content stay.
    keeps_empty: bool,
    /// Whether the context was compacted since the last turn began.
    compacted: bool,
    /// Index of the step that text and calls go to; the last one if absent.
    resumed: Option<usize>,
    /// Step and position of each call with an id: of the first in the latest step that uses the id.
    calls: FxHashMap<String, (usize, usize)>,
}

/// Whether a record of an agent begins a new step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStart {
    /// Always: the record is a complete turn, such as an assistant message.
    New,
    /// Only after a result or reply, or if the agent changed: the log splits one turn into several records.
    AfterAnswer,
    /// Never, unless there is no step or the last one was already taken: the record continues the last one.
    Continue,
}

impl Builder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id of the run, unless it is already known.
    pub fn id(&mut self, id: Option<&str>) {
        if self.trajectory.id.is_none() {
            self.trajectory.id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        }
    }

    /// Sets the task, unless it is already known.
    pub fn task(&mut self, task: &str) {
        if self.trajectory.task.is_none() && !task.trim().is_empty() {
            self.trajectory.task = Some(task.to_owned());
        }
    }

    /// Keeps steps without content, for logs whose records are complete turns: positions count them.
    pub fn keep_empty_steps(&mut self) {
        self.keeps_empty = true;
    }

    /// Begins or continues a turn of `agent` and returns its step.
    pub fn turn(&mut self, agent: Option<&str>, start: TurnStart) -> &mut Step {
        self.resumed = None;
        let taken = self.taken >= self.trajectory.steps.len();
        let begins = match (start, self.trajectory.steps.last()) {
            _ if taken => true,
            (_, None) | (TurnStart::New, _) => true,
            (TurnStart::AfterAnswer, Some(last)) => self.answered || last.agent.as_deref() != agent,
            (TurnStart::Continue, Some(_)) => false,
        };
        if begins {
            self.answered = false;
            self.trajectory.steps.push(Step {
                agent: agent.filter(|name| !name.is_empty()).map(str::to_owned),
                compacted: std::mem::take(&mut self.compacted),
                ..Step::default()
            });
        }
        self.last_step()
    }

    /// Returns to the turn at `index`, for logs in which the records of parallel agents alternate. Returns
    /// `None` if the step does not exist or was already taken.
    pub fn resume(&mut self, index: usize) -> Option<&mut Step> {
        if index < self.taken || index >= self.trajectory.steps.len() {
            return None;
        }
        self.resumed = Some(index);
        Some(self.last_step())
    }

    /// Index of the step that text and calls go to.
    pub fn position(&self) -> usize {
        self.resumed
            .unwrap_or_else(|| self.trajectory.steps.len().saturating_sub(1))
    }

    /// Marks that the context was compacted: the current turn ends, and the next one begins with a summary of the
    /// earlier ones.
    pub fn compacted(&mut self) {
        self.compacted = true;
        self.end_turn();
    }

    /// Ends the current turn: the next record of an agent begins a new one.
    pub fn end_turn(&mut self) {
        self.answered = true;
    }

    /// Removes everything after the first `steps` steps and the first `replies` replies to the last of them,
    /// for logs in which a user goes back to an earlier message.
    pub fn rewind(&mut self, steps: usize, replies: usize) {
        self.trajectory.steps.truncate(steps);
        if let Some(last) = self.trajectory.steps.last_mut() {
            last.replies.truncate(replies);
        }
        self.taken = self.taken.min(steps);
        self.resumed = None;
        self.answered = true;
    }

    /// Adds text to the current turn.
    pub fn text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let step = self.last_step();
        if !step.text.is_empty() {
            step.text.push_str("\n\n");
        }
        step.text.push_str(text);
    }

    /// Adds a call to the current turn. Arguments that are JSON in a string are parsed; plans, edits and
    /// finish calls are recognized by tool and arguments.
    pub fn call(&mut self, id: Option<&str>, tool: &str, arguments: Value) {
        let arguments = match arguments {
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }
            other => other,
        };
        self.has_calls = true;
        let mut call = Call::new(tool, arguments);
        call.id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        let class = classify(&call);
        call.edits = class.edits;
        let position = self.position();
        if let Some(id) = &call.id
            && self.place(id).is_none_or(|(step, _)| step != position)
        {
            let place = (position, self.last_step().calls.len());
            self.calls.insert(id.clone(), place);
        }
        let step = self.last_step();
        if let Some(plan) = class.plan {
            step.plan = Some(plan);
        }
        step.finish |= class.kind == CallKind::Finish;
        step.calls.push(call);
    }

    /// Attaches a result to the call with `id`, or to the first call of the latest step without a result. Returns whether there
    /// was such a call.
    pub fn result(&mut self, id: Option<&str>, result: CallResult) -> bool {
        self.answered = true;
        let id = id.filter(|id| !id.is_empty());
        let steps = &mut self.trajectory.steps;
        let call = match id.and_then(|id| self.calls.get(id)) {
            // Calls of one step may share an id; their results arrive in the same order.
            Some(&(step, index)) => steps
                .get_mut(step)
                .into_iter()
                .flat_map(|step| step.calls.iter_mut().skip(index))
                .take(CALL_WINDOW)
                .find(|call| call.id.as_deref() == id && call.result.is_none()),
            // Results arrive soon after their calls; far older calls are not searched, so that a log with
            // many unknown ids stays linear.
            None => steps
                .iter_mut()
                .rev()
                .take(RESULT_WINDOW)
                .flat_map(|step| &mut step.calls)
                .take(CALL_WINDOW)
                .find(|call| call.result.is_none() && (id.is_none() || call.id.is_none())),
        };
        match call {
            Some(call) => {
                call.result = Some(result);
                true
            }
            None => false,
        }
    }

    /// The call with `id`: the first in the latest step that uses the id.
    pub fn find_call(&mut self, id: &str) -> Option<&mut Call> {
        let (step, index) = self.place(id)?;
        self.trajectory.steps.get_mut(step)?.calls.get_mut(index)
    }

    /// Step and position of the call with `id`, if it is still there.
    fn place(&self, id: &str) -> Option<(usize, usize)> {
        let (step, index) = self.calls.get(id).copied()?;
        let call = self.trajectory.steps.get(step)?.calls.get(index)?;
        (call.id.as_deref() == Some(id)).then_some((step, index))
    }

    /// Whether the latest step has a call without a result.
    pub fn awaits_result(&self) -> bool {
        self.trajectory
            .steps
            .last()
            .is_some_and(|step| !step.is_complete())
    }

    /// Adds a message of a user or program. Before the first turn it is the task.
    pub fn reply(&mut self, from: Option<&str>, text: &str) {
        self.answered = true;
        if text.trim().is_empty() {
            return;
        }
        match self.trajectory.steps.last_mut() {
            Some(step) => step.replies.push(Reply {
                from: from.filter(|name| !name.is_empty()).map(str::to_owned),
                text: text.to_owned(),
            }),
            None => self.task(text),
        }
    }

    /// Sets the plan of the current turn.
    pub fn plan(&mut self, plan: Vec<PlanItem>) {
        self.last_step().plan = Some(plan);
    }

    /// Steps that cannot change any more, except by late results: all before the last, and the last one if it
    /// is complete. If the log splits turns into several records (`split_turns`), the last step also needs a
    /// result or reply, because more records of the turn may follow; so does a turn that ends with a command
    /// in its text. Each step is returned once.
    pub fn take_complete(&mut self, split_turns: bool) -> &[Step] {
        let mut end = self.trajectory.steps.len().saturating_sub(1);
        if self.last_is_complete(split_turns) {
            end = self.trajectory.steps.len();
        }
        self.convert_commands();
        let begin = self.taken.min(end);
        self.taken = self.taken.max(end);
        &self.trajectory.steps[begin..end]
    }

    /// The first step, if its calls have results and no more records of its turn can follow.
    pub(super) fn first_turn(&mut self, split_turns: bool) -> Option<&Step> {
        let ended = self.trajectory.steps.len() > 1 || self.last_is_complete(split_turns);
        self.convert_commands();
        self.trajectory
            .steps
            .first()
            .filter(|step| step.is_complete() && ended)
    }

    fn last_is_complete(&self, split_turns: bool) -> bool {
        let Some(last) = self.trajectory.steps.last() else {
            return false;
        };
        let may_continue = split_turns || (!self.has_calls && react::ends_with_command(last));
        last.is_complete() && (self.answered || !may_continue)
    }

    /// Turns commands in texts that were answered into calls with results.
    fn convert_commands(&mut self) {
        if !self.has_calls {
            for step in self.trajectory.steps.iter_mut().skip(self.taken) {
                react::convert_answered_command(step);
            }
        }
    }

    /// Whether any step has been recorded.
    pub fn is_empty(&self) -> bool {
        self.trajectory.steps.is_empty()
    }

    /// The trajectory under construction, for fields that the builder does not set.
    pub fn trajectory_mut(&mut self) -> &mut Trajectory {
        &mut self.trajectory
    }

    /// Finishes the trajectory. Steps without text, calls and plan are removed, unless
    /// [`keep_empty_steps`](Self::keep_empty_steps) was called.
    pub fn finish(mut self) -> Trajectory {
        if !self.keeps_empty {
            self.trajectory
                .steps
                .retain(|step| !step.text.is_empty() || step.has_calls() || step.plan.is_some());
        }
        self.trajectory
    }

    fn last_step(&mut self) -> &mut Step {
        if self.trajectory.steps.is_empty() {
            self.trajectory.steps.push(Step::default());
        }
        let last = self.trajectory.steps.len() - 1;
        let index = self.resumed.map_or(last, |index| index.min(last));
        &mut self.trajectory.steps[index]
    }
}

/// Number of steps, counted from the end, among which the call of a result without a known id is searched.
const RESULT_WINDOW: usize = 64;

/// Number of calls that are looked at in such a search.
const CALL_WINDOW: usize = 1024;
