//! Chooses the judge of a file: conversations are judged by what is said, logs of agents by what is done.

use std::path::PathBuf;

use satiety::dialogue::ConversationError;
use satiety::dialogue::input::{self, InputFormat};
use satiety::progress::{LogKind, ProgressSignal};
use satiety::trajectory::{Log, LogFormat, ReadOptions, Trajectory};
use serde_json::{Value, json};

use crate::EngineError;
use crate::dialogue::{ScoreRequest, ScoreResponse};
use crate::handles::ProgressOperations;
use crate::progress::JudgedLog;

/// Judge of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Judge {
    /// By the content of the file.
    #[default]
    Auto,
    /// What is said: novelty of claims and readiness to act.
    Dialogue,
    /// What is done: tool calls and their results.
    Progress,
}

/// Request to score a file with one of the judges.
#[derive(Debug, Clone)]
pub struct ScoreFileRequest {
    /// The file, and how a conversation in it is scored.
    pub score: ScoreRequest,
    pub judge: Judge,
    /// Path of a profile file for the progress judge; the built-in profile if `None`.
    pub progress_profile: Option<PathBuf>,
}

/// Judgement of a file.
#[derive(Debug, Clone)]
pub enum ScoredFile {
    /// A conversation.
    Dialogue(ScoreResponse),
    /// The log of an agent at work.
    Progress(JudgedLog),
    /// A conversation in which some turns call tools. The log has one run.
    Both(ScoreResponse, JudgedLog),
}

/// The judge that decides about a file that both have judged: the progress judge if it stops the agent, because
/// what is said may have converged only because the same call was tried again and again.
pub fn deciding_judge(progress: ProgressSignal) -> Judge {
    if progress.stops() {
        Judge::Progress
    } else {
        Judge::Dialogue
    }
}

impl ProgressOperations<'_> {
    /// Scores a file with the given judge, or with the one that its content asks for.
    pub async fn score_file(self, request: ScoreFileRequest) -> Result<ScoredFile, EngineError> {
        let ScoreFileRequest {
            mut score,
            judge,
            progress_profile,
        } = request;
        let is_transcript = matches!(score.format, Some(InputFormat::Transcript | InputFormat::Trace));
        if judge == Judge::Dialogue || (judge == Judge::Auto && is_transcript) {
            return Ok(ScoredFile::Dialogue(
                Box::pin(self.engine.dialogue().score(score)).await?,
            ));
        }
        let options = ReadOptions {
            format: score
                .format
                .filter(|format| *format == InputFormat::Chat)
                .map(|_| LogFormat::Chat),
        };
        let name = score.name.clone();
        let (log, bytes) = self
            .read_log(&name, std::mem::take(&mut score.bytes), options)
            .await?;
        score.bytes = bytes;
        if judge == Judge::Progress {
            let log = log.map_err(|problem| EngineError::Log {
                name: name.clone(),
                problem,
            })?;
            let profile = self.profile(progress_profile.as_deref())?;
            return Ok(ScoredFile::Progress(
                Box::pin(self.judge_runs(&name, log, profile)).await?,
            ));
        }
        let Ok(log) = log else {
            return Ok(ScoredFile::Dialogue(
                Box::pin(self.engine.dialogue().score(score)).await?,
            ));
        };
        let kind = kind_of(&log, &score.bytes);
        if kind == LogKind::Work || (kind == LogKind::Mixed && log.trajectories.len() > 1) {
            let profile = self.profile(progress_profile.as_deref())?;
            return Ok(ScoredFile::Progress(
                Box::pin(self.judge_runs(&name, log, profile)).await?,
            ));
        }
        if let [run] = log.trajectories.as_slice()
            && score.format.is_none()
            && input::detect_format(&score.bytes).is_err()
        {
            score.bytes = chat_of(run);
            score.format = Some(InputFormat::Chat);
        }
        let scored = self.engine.dialogue().score(score).await;
        let no_rounds = matches!(
            scored,
            Err(EngineError::Conversation(ConversationError::NoRounds))
        );
        if kind != LogKind::Mixed && !(no_rounds && log.trajectories.is_empty()) {
            return Ok(ScoredFile::Dialogue(scored?));
        }
        // The given profile is one for conversations.
        let judged = self.judge_runs(&name, log, self.profile(None)?).await?;
        match scored {
            Err(EngineError::Input { .. }) => Ok(ScoredFile::Progress(judged)),
            Err(_) if no_rounds => Ok(ScoredFile::Progress(judged)),
            scored => Ok(ScoredFile::Both(scored?, judged)),
        }
    }
}

/// What a file shows. Transcripts and traces with rounds are conversations, even if they have other keys.
fn kind_of(log: &Log, bytes: &[u8]) -> LogKind {
    let kinds = || log.trajectories.iter().map(LogKind::of);
    if kinds().all(|kind| kind == LogKind::Deliberation) {
        return LogKind::Deliberation;
    }
    if matches!(
        input::detect_format(bytes),
        Ok(InputFormat::Transcript | InputFormat::Trace)
    ) {
        return LogKind::Deliberation;
    }
    if kinds().any(|kind| kind == LogKind::Work) {
        LogKind::Work
    } else {
        LogKind::Mixed
    }
}

/// The texts of a run as chat messages, for formats that only the readers of agent logs know.
fn chat_of(run: &Trajectory) -> Vec<u8> {
    let message = |role: &str, name: Option<&str>, text: &str| {
        let mut message = json!({"role": role, "content": text});
        if let (Some(name), Value::Object(message)) = (name, &mut message) {
            message.insert("name".into(), name.into());
        }
        message
    };
    let mut messages: Vec<Value> = run.task.iter().map(|task| message("user", None, task)).collect();
    for step in &run.steps {
        if !step.text.is_empty() {
            messages.push(message("assistant", step.agent.as_deref(), &step.text));
        }
        let replies = step.replies.iter();
        messages.extend(replies.map(|reply| message("user", reply.from.as_deref(), &reply.text)));
    }
    json!({"conversation_id": run.id, "messages": messages})
        .to_string()
        .into_bytes()
}
