//! Following a conversation that is still being written.

use crate::handles::DialogueOperations;
use std::path::{Path, PathBuf};
use std::time::Duration;

use satiety::dialogue::input::{self, InputError, InputFormat, ReadOptions};
use satiety::dialogue::{Report, Signal, Verdict};

use crate::EngineError;
use crate::dialogue::Follower;

/// A file to follow.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// The file.
    pub path: PathBuf,
    /// Its shape; found out when absent.
    pub format: Option<InputFormat>,
    /// A built-in profile or a file.
    pub profile: String,
    /// Go on after the first signal that is not CONTINUE.
    pub keep_going: bool,
    /// Give up when the file has not grown for so long.
    pub idle_limit: Option<Duration>,
    /// How often to look.
    pub interval: Duration,
}

/// Why following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// The conversation should end.
    Signal(Signal),
    /// The file did not grow any more.
    Idle,
}

/// Why following failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError<E> {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Whoever was told did not want to hear more.
    #[error("the listener gave up")]
    Listener(E),
}

impl DialogueOperations<'_> {
    /// Follows a file and calls `tell` with the verdict after each new round, until the conversation should end or the
    /// file stops growing. Returns why it ended, and the report if there was a round at all.
    pub async fn watch<E>(
        self,
        request: &WatchRequest,
        mut tell: impl FnMut(&Verdict) -> Result<(), E>,
    ) -> Result<(WatchEnd, Option<Report>), WatchError<E>> {
        let mut follower = self.follow(self.profile(&request.profile)?).await?;
        let mut seen = None;
        let mut quiet = Duration::ZERO;
        let mut told = 0;
        loop {
            let state = fingerprint(&request.path).await?;
            if Some(state) == seen {
                if request.idle_limit.is_some_and(|limit| quiet >= limit) {
                    let report = if follower.rounds() > 0 {
                        Some(follower.report()?)
                    } else {
                        None
                    };
                    return Ok((WatchEnd::Idle, report));
                }
                tokio::time::sleep(request.interval).await;
                quiet += request.interval;
                continue;
            }
            (seen, quiet) = (Some(state), Duration::ZERO);
            let verdicts = new_verdicts(&mut follower, request).await?;
            let first = follower.rounds() - verdicts.len();
            for (position, verdict) in (first + 1..).zip(verdicts) {
                // A round that was still being written is told again when it has grown, those before it are not.
                if position < told {
                    continue;
                }
                told = position;
                tell(&verdict).map_err(WatchError::Listener)?;
                if verdict.signal != Signal::Continue && !request.keep_going {
                    return Ok((WatchEnd::Signal(verdict.signal), Some(follower.report()?)));
                }
            }
        }
    }
}

async fn new_verdicts(
    follower: &mut Follower<'_>,
    request: &WatchRequest,
) -> Result<Vec<Verdict>, EngineError> {
    let path = &request.path;
    let bytes = fs_err::tokio::read(path)
        .await
        .map_err(|cause| EngineError::file("read", path, cause))?;
    let options = ReadOptions {
        format: request.format,
        growing: true,
    };
    match input::parse(&bytes, options) {
        Ok(read) => follower.observe_all(&read.content.rounds).await,
        // Nothing has been written yet, or only a part of the first line.
        Err(InputError::Empty) => Ok(Vec::new()),
        Err(InputError::Syntax { .. }) if !bytes.ends_with(b"\n") => Ok(Vec::new()),
        Err(problem) => Err(EngineError::Input {
            name: path.display().to_string(),
            problem,
        }),
    }
}

/// Size and time of the last change: what tells that a file was written to.
async fn fingerprint(path: &Path) -> Result<(u64, Option<std::time::SystemTime>), EngineError> {
    let metadata = fs_err::tokio::metadata(path)
        .await
        .map_err(|cause| EngineError::file("read", path, cause))?;
    Ok((metadata.len(), metadata.modified().ok()))
}
