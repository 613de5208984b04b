//! Follows a conversation file that is still being written.

use crate::handles::DialogueOperations;
use std::path::{Path, PathBuf};
use std::time::Duration;

use satiety::dialogue::input::{self, InputError, InputFormat, ReadOptions};
use satiety::dialogue::{Report, Signal, Verdict};

use crate::EngineError;
use crate::dialogue::Follower;

/// Request to follow a file.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    pub path: PathBuf,
    /// Input format; detected if `None`.
    pub format: Option<InputFormat>,
    /// Name of a built-in profile, or path of a profile file.
    pub profile: String,
    /// Continue after the first signal other than CONTINUE.
    pub keep_going: bool,
    /// Stop when the file has not grown for this long.
    pub idle_limit: Option<Duration>,
    /// Polling interval.
    pub interval: Duration,
}

/// Reason why following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// The profile recommends ending the conversation.
    Signal(Signal),
    /// The file stopped growing.
    Idle,
}

/// Error while following a file.
#[derive(Debug, thiserror::Error)]
pub enum WatchError<E> {
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The listener returned an error.
    #[error("the listener failed")]
    Listener(E),
}

impl DialogueOperations<'_> {
    /// Follows a file and calls `tell` with the verdict after each new round, until the conversation should
    /// end or the file stops growing. Returns why it ended, and the report if there was at least one round.
    pub async fn watch<E>(
        self,
        request: &WatchRequest,
        mut tell: impl FnMut(&Verdict) -> Result<(), E>,
    ) -> Result<(WatchEnd, Option<Report>), WatchError<E>> {
        let mut follower = self.follow(self.profile(&request.profile)?).await?;
        let mut seen = None;
        let mut quiet = Duration::ZERO;
        let mut reported = 0;
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
                // A round that was still being written is reported again once it has grown; earlier rounds
                // are not.
                if position < reported {
                    continue;
                }
                reported = position;
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
        // The file is empty, or holds only a part of the first line.
        Err(InputError::Empty) => Ok(Vec::new()),
        Err(InputError::Syntax { .. }) if !bytes.ends_with(b"\n") => Ok(Vec::new()),
        Err(problem) => Err(EngineError::Input {
            name: path.display().to_string(),
            problem,
        }),
    }
}

/// Size and modification time, to detect that a file was written to.
async fn fingerprint(path: &Path) -> Result<(u64, Option<std::time::SystemTime>), EngineError> {
    let metadata = fs_err::tokio::metadata(path)
        .await
        .map_err(|cause| EngineError::file("read", path, cause))?;
    Ok((metadata.len(), metadata.modified().ok()))
}
