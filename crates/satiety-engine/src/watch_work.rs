//! Follows the log of an agent that is still at work. Only what is appended to the file is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use satiety::dialogue::input::{self, InputFormat};
use satiety::progress::{Progress, ProgressProfile, ProgressSignal, StepVerdict, texts_to_embed};
use satiety::trajectory::{Feed, Skipped, Step};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::EngineError;
use crate::embedding_cache::EmbeddingCache;
use crate::handles::ProgressOperations;
use crate::judge_choice::Judge;
use crate::watch::WatchError;

/// Number of bytes that are read at once, so that a long log is not held in memory.
const CHUNK: u64 = 1 << 20;

/// Number of bytes at the beginning of a file that are looked at to choose its judge.
const BEGINNING: u64 = 1 << 20;

/// Request to follow the log of an agent.
#[derive(Debug, Clone)]
pub struct WatchWorkRequest {
    /// Log as JSON Lines.
    pub path: PathBuf,
    /// Path of a profile file; the built-in profile if `None`.
    pub profile: Option<PathBuf>,
    /// Continue after the first SHIP, STOP or ESCALATE.
    pub keep_going: bool,
    /// Stop when the file has not grown for this long.
    pub idle_limit: Option<Duration>,
    /// Polling interval.
    pub interval: Duration,
}

/// Result of following a log.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedWork {
    /// Last signal; `None` if the log has no step.
    pub signal: Option<ProgressSignal>,
    /// Whether following ended because the file stopped growing.
    pub idle: bool,
    /// Records that were not understood.
    pub skipped: Skipped,
}

impl ProgressOperations<'_> {
    /// Follows a log and calls `tell` with each step and its verdict, until the agent should end or the file
    /// stops growing. When the file stops growing, a last turn without calls is the agent's answer.
    pub async fn watch<E>(
        self,
        request: &WatchWorkRequest,
        mut tell: impl FnMut(&Step, &StepVerdict) -> Result<(), E>,
    ) -> Result<WatchedWork, WatchError<E>> {
        let profile = self.profile(request.profile.as_deref())?;
        let embeddings = self.engine.embedder().await?.map(EmbeddingCache::new);
        let mut tail = Tail::new(&request.path);
        let mut run = LiveRun::new(profile, embeddings);
        let mut quiet = Duration::ZERO;
        loop {
            let appended = tail.read().await?;
            if appended.restarted {
                run.restart();
            }
            if appended.bytes == 0 {
                if request.idle_limit.is_some_and(|limit| quiet >= limit) {
                    if let Some((step, verdict)) = run.answer().await? {
                        tell(&step, &verdict).map_err(WatchError::Listener)?;
                    }
                    return Ok(run.result(true));
                }
                tokio::time::sleep(request.interval).await;
                quiet += request.interval;
                continue;
            }
            quiet = Duration::ZERO;
            for line in appended.lines {
                run.push_line(&line);
                for step in run.take_steps() {
                    let verdict = run.observe(&step).await?;
                    tell(&step, &verdict).map_err(WatchError::Listener)?;
                    if ends(verdict.signal) && !request.keep_going {
                        return Ok(run.result(false));
                    }
                }
            }
        }
    }

    /// Chooses the judge of a growing file by what it begins with: the progress judge for JSON Lines in which
    /// the first turn of an agent calls a tool. Waits until the file has a turn, at most for `idle_limit`.
    pub async fn choose_judge_of_growing_file(
        self,
        path: &Path,
        idle_limit: Option<Duration>,
        interval: Duration,
    ) -> Result<Judge, EngineError> {
        let mut seen = None;
        let mut quiet = Duration::ZERO;
        loop {
            let beginning = read_beginning(path).await?;
            if let Some(judge) = judge_by_beginning(&beginning) {
                return Ok(judge);
            }
            let grown = seen.replace(beginning.len()) != Some(beginning.len());
            quiet = if grown { Duration::ZERO } else { quiet + interval };
            if idle_limit.is_some_and(|limit| quiet >= limit) {
                return Ok(Judge::Dialogue);
            }
            tokio::time::sleep(interval).await;
        }
    }
}

/// Whether a signal ends the run.
fn ends(signal: ProgressSignal) -> bool {
    signal.stops() || signal == ProgressSignal::Ship
}

/// The run of a log that is followed.
struct LiveRun<'e> {
    profile: Arc<ProgressProfile>,
    embeddings: Option<EmbeddingCache<'e>>,
    feed: Feed,
    progress: Progress,
    invalid: Skipped,
    lines: usize,
    /// A last turn without calls, which is the answer if nothing follows.
    held_back: Option<Step>,
    has_calls: bool,
    signal: Option<ProgressSignal>,
}

impl<'e> LiveRun<'e> {
    fn new(profile: Arc<ProgressProfile>, embeddings: Option<EmbeddingCache<'e>>) -> Self {
        Self {
            progress: Progress::new(Arc::clone(&profile)),
            profile,
            embeddings,
            feed: Feed::new(),
            invalid: Skipped::default(),
            lines: 0,
            held_back: None,
            has_calls: false,
            signal: None,
        }
    }

    /// Begins again, for a file that was truncated or replaced.
    fn restart(&mut self) {
        *self = Self::new(Arc::clone(&self.profile), self.embeddings.take());
    }

    fn push_line(&mut self, line: &[u8]) {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => self.feed.push(&value),
            Err(error) => {
                self.invalid.count += 1;
                if self.invalid.first.is_empty() {
                    let reason = format!("invalid JSON: {error}");
                    let line = self.lines;
                    self.invalid
                        .first
                        .push(satiety::trajectory::SkippedRecord { line, reason });
                }
            }
        }
    }

    /// Steps that can be judged now.
    fn take_steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for step in self.feed.take_steps() {
            steps.extend(self.held_back.take());
            if step.has_calls() {
                self.has_calls = true;
                steps.push(step.clone());
            } else {
                self.held_back = Some(step.clone());
            }
        }
        steps
    }

    async fn observe(&mut self, step: &Step) -> Result<StepVerdict, EngineError> {
        let mut vector = None;
        if let (Some(embeddings), Some(text)) = (&mut self.embeddings, texts_to_embed(step)) {
            embeddings.embed_texts(std::slice::from_ref(&text)).await?;
            vector = embeddings.vector(&text).map(<[f32]>::to_vec);
        }
        let verdict = self.progress.observe_with(step, vector.as_deref());
        self.signal = Some(verdict.signal);
        Ok(verdict)
    }

    /// Judges the last turn as the answer of an agent that has called tools.
    async fn answer(&mut self) -> Result<Option<(Step, StepVerdict)>, EngineError> {
        let Some(mut step) = self.held_back.take() else {
            return Ok(None);
        };
        step.finish |= self.has_calls;
        let verdict = self.observe(&step).await?;
        Ok(Some((step, verdict)))
    }

    fn result(&self, idle: bool) -> WatchedWork {
        let mut skipped = self.invalid.clone();
        let feed = self.feed.skipped();
        skipped.count += feed.count;
        skipped.first.extend(feed.first.iter().cloned());
        WatchedWork {
            signal: self.signal,
            idle,
            skipped,
        }
    }
}

/// Reads what is appended to a file.
struct Tail<'a> {
    path: &'a Path,
    offset: u64,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

/// What was appended to a file.
struct Appended {
    bytes: usize,
    /// Complete lines, without the line ends.
    lines: Vec<Vec<u8>>,
    /// Whether the file was truncated or replaced by a shorter one, and is read from its beginning again.
    restarted: bool,
}

impl<'a> Tail<'a> {
    fn new(path: &'a Path) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
        }
    }

    async fn read(&mut self) -> Result<Appended, EngineError> {
        let failed = |cause| EngineError::file("read", self.path, cause);
        let mut file = fs_err::tokio::File::open(self.path).await.map_err(failed)?;
        let length = file.metadata().await.map_err(failed)?.len();
        let restarted = length < self.offset;
        if restarted {
            self.offset = 0;
            self.partial.clear();
        }
        file.seek(std::io::SeekFrom::Start(self.offset))
            .await
            .map_err(failed)?;
        let known = self.partial.len();
        let bytes = file
            .take(CHUNK)
            .read_to_end(&mut self.partial)
            .await
            .map_err(failed)?;
        self.offset += bytes as u64;
        let mut lines = Vec::new();
        let mut begin = 0;
        for (index, byte) in self.partial.iter().enumerate().skip(known) {
            if *byte == b'\n' {
                lines.push(self.partial[begin..index].to_vec());
                begin = index + 1;
            }
        }
        self.partial.drain(..begin);
        Ok(Appended {
            bytes,
            lines,
            restarted,
        })
    }
}

async fn read_beginning(path: &Path) -> Result<Vec<u8>, EngineError> {
    let failed = |cause| EngineError::file("read", path, cause);
    let file = fs_err::tokio::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(BEGINNING)
        .read_to_end(&mut bytes)
        .await
        .map_err(failed)?;
    Ok(bytes)
}

/// The judge of a file that begins with `bytes`; `None` if it has no turn of an agent yet.
fn judge_by_beginning(bytes: &[u8]) -> Option<Judge> {
    let full = bytes.len() as u64 >= BEGINNING;
    let mut feed = Feed::new();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.clone().find(|line| !line.trim_ascii().is_empty())?;
    if !first.ends_with(b"\n") {
        // One document is read as a whole, each time that it is written again.
        let is_document = full || !first.trim_ascii().starts_with(b"{");
        return is_document.then_some(Judge::Dialogue);
    }
    if !serde_json::from_slice::<Value>(first).is_ok_and(|value| value.is_object())
        || matches!(
            input::detect_format(first),
            Ok(InputFormat::Transcript | InputFormat::Trace)
        )
    {
        return Some(Judge::Dialogue);
    }
    let judge = lines.find_map(|line| {
        if let (true, Ok(value)) = (line.ends_with(b"\n"), serde_json::from_slice::<Value>(line)) {
            feed.push(&value);
        }
        feed.first_turn().map(|turn| {
            if turn.has_calls() {
                Judge::Progress
            } else {
                Judge::Dialogue
            }
        })
    });
    judge.or_else(|| full.then_some(Judge::Dialogue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"bash","arguments":"{\"command\":\"make\"}"}}]}"#;
    const RESULT: &str = r#"{"role":"tool","tool_call_id":"1","content":"error: no rule"}"#;
    const TASK: &str = r#"{"role":"user","content":"build it"}"#;
    const TALK: &str = r#"{"role":"assistant","content":"The build is slow because of the tests."}"#;

    #[test]
    fn the_judge_is_chosen_by_the_first_turn() {
        let judge = |lines: &[&str]| judge_by_beginning((lines.join("\n") + "\n").as_bytes());
        assert_eq!(judge(&[]), None);
        assert_eq!(judge(&[TASK]), None);
        assert_eq!(judge(&[TASK, CALL]), None);
        assert_eq!(judge(&[TASK, CALL, RESULT]), Some(Judge::Progress));
        assert_eq!(judge(&[TASK, TALK]), Some(Judge::Dialogue));
        let round = r#"{"type":"round","round":1,"outputs":{"claims":["a"]}}"#;
        assert_eq!(judge(&[round]), Some(Judge::Dialogue));
        assert_eq!(
            judge_by_beginning(b"[{\"role\": \"user\"}"),
            Some(Judge::Dialogue)
        );
        assert_eq!(judge_by_beginning(b"\xff\xfe\n\n"), Some(Judge::Dialogue));
        assert_eq!(judge_by_beginning(b"{\"role\": \"us"), None);
    }

    #[tokio::test]
    async fn only_appended_lines_are_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let mut tail = Tail::new(&path);
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.read().await.unwrap().lines, [b"one"]);
        assert_eq!(tail.read().await.unwrap().bytes, 0);
        file.write_all(b"o\nthree\n").unwrap();
        let appended = tail.read().await.unwrap();
        assert_eq!(appended.lines, [b"two".to_vec(), b"three".to_vec()]);
        fs_err::write(&path, b"new\n").unwrap();
        let appended = tail.read().await.unwrap();
        assert!(appended.restarted);
        assert_eq!(appended.lines, [b"new"]);
    }
}
