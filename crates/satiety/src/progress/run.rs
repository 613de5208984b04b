//! A run that is judged while it is reported.

use std::sync::Arc;

use serde_json::Value;

use super::judge::Progress;
use super::profile::ProgressProfile;
use super::report::{LogKind, ProgressSignal, StepVerdict};
use crate::trajectory::{Feed, Skipped, Step};

/// Discussions with more records than this are not judged by what is said again after each record.
const MAX_DISCUSSION: usize = 2000;

/// Reads the records of one run as they arrive and judges the steps that they complete.
///
/// Taking and judging steps are apart, so that a caller can embed the texts of several steps at once.
#[derive(Debug)]
pub struct RunJudge {
    feed: Feed,
    progress: Progress,
    working_steps: usize,
    first_nudge_step: Option<usize>,
    first_stop_step: Option<usize>,
    last: Option<StepVerdict>,
    at_end: Option<StepVerdict>,
}

impl RunJudge {
    /// Creates a judge that detects the format of the records.
    pub fn new(profile: Arc<ProgressProfile>) -> Self {
        Self {
            feed: Feed::new(),
            progress: Progress::new(profile),
            working_steps: 0,
            first_nudge_step: None,
            first_stop_step: None,
            last: None,
            at_end: None,
        }
    }

    /// Adds a record and returns the steps that it completes. Each of them is to be passed to
    /// [`observe`](Self::observe).
    pub fn push(&mut self, record: &Value) -> &[Step] {
        self.at_end = None;
        self.feed.push(record);
        self.feed.take_steps()
    }

    /// Judges the next step; `vector` is the embedding of [`texts_to_embed`](super::texts_to_embed).
    pub fn observe(&mut self, step: &Step, vector: Option<&[f32]>) -> StepVerdict {
        self.at_end = self.judge_as_answer(step, vector);
        let verdict = self.progress.observe_with(step, vector);
        self.working_steps += usize::from(step.has_calls());
        if verdict.signal == ProgressSignal::Nudge {
            self.first_nudge_step.get_or_insert(verdict.step);
        }
        if verdict.signal.stops() {
            self.first_stop_step.get_or_insert(verdict.step);
        }
        self.last = Some(verdict.clone());
        verdict
    }

    /// Verdict about text without calls as the final answer of the agent, on a copy, because it may go on.
    fn judge_as_answer(&self, step: &Step, vector: Option<&[f32]>) -> Option<StepVerdict> {
        if self.working_steps == 0 || step.has_calls() || !step.replies.is_empty() {
            return None;
        }
        let answer = Step {
            finish: true,
            ..step.clone()
        };
        Some(self.progress.clone().observe_with(&answer, vector))
    }

    /// What the run shows so far.
    pub fn kind(&self) -> LogKind {
        LogKind::from_counts(self.working_steps, self.progress.steps())
    }

    /// Whether what is said decides: nobody has called a tool, the run does not repeat itself, and it is
    /// short enough to be judged as a whole after each record.
    pub fn is_open_discussion(&self) -> bool {
        let stops = self.last.as_ref().is_some_and(|last| last.signal.stops());
        self.kind() == LogKind::Deliberation && !stops && self.records() <= MAX_DISCUSSION
    }

    /// Verdict after the last step.
    pub fn last(&self) -> Option<&StepVerdict> {
        self.last.as_ref()
    }

    /// Verdict if the run has ended: text without calls is then the answer of the agent.
    pub fn at_end(&self) -> Option<&StepVerdict> {
        self.at_end.as_ref().or(self.last.as_ref())
    }

    /// First step (from 1) with NUDGE.
    pub fn first_nudge_step(&self) -> Option<usize> {
        self.first_nudge_step
    }

    /// First step (from 1) with STOP or ESCALATE.
    pub fn first_stop_step(&self) -> Option<usize> {
        self.first_stop_step
    }

    /// Number of records so far.
    pub fn records(&self) -> usize {
        self.feed.records()
    }

    /// Number of judged steps.
    pub fn steps(&self) -> usize {
        self.progress.steps()
    }

    /// Number of steps that brought nothing new.
    pub fn wasted_steps(&self) -> usize {
        self.progress.wasted_steps()
    }

    /// Records that were not understood.
    pub fn skipped(&self) -> &Skipped {
        self.feed.skipped()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observe(judge: &mut RunJudge, records: &[Value]) {
        for record in records {
            for step in judge.push(record).to_vec() {
                judge.observe(&step, None);
            }
        }
    }

    #[test]
    fn text_after_work_is_an_answer_only_if_the_run_has_ended() {
        let mut judge = RunJudge::new(ProgressProfile::built_in());
        let call = json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]});
        let result = json!({"role": "tool", "tool_call_id": "1", "content": "a b c"});
        observe(
            &mut judge,
            &[
                call,
                result,
                json!({"role": "assistant", "content": "It is done."}),
            ],
        );
        assert_eq!(judge.last().unwrap().signal, ProgressSignal::Continue);
        assert_eq!(judge.at_end().unwrap().signal, ProgressSignal::Ship);
        assert_eq!(
            (judge.kind(), judge.steps(), judge.records()),
            (LogKind::Work, 2, 3)
        );
        assert!(!judge.is_open_discussion());
    }

    #[test]
    fn a_discussion_is_open_until_it_repeats_itself() {
        let mut judge = RunJudge::new(ProgressProfile::built_in());
        let text = json!({"role": "assistant", "content": "The cache hides the slow query of the report."});
        observe(&mut judge, std::slice::from_ref(&text));
        assert!(judge.is_open_discussion());
        observe(&mut judge, &vec![text; 8]);
        assert!(!judge.is_open_discussion() && judge.first_stop_step().is_some());
    }
}
