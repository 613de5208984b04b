//! Converts the logs of agents to traces, with the same readers as `satiety score`.

use std::path::Path;

use satiety::eviction::simulation::{Session, read_trace, write_trace};
use satiety::eviction::{ConvertOptions, convert};
use satiety::trajectory::read::{LogFormat, ReadError, ReadOptions, Skipped, read};
use schemars::JsonSchema;
use serde::Serialize;

use super::tokens::count_tokens;
use crate::EngineError;
use crate::handles::EvictionOperations;
use crate::progress::{log_files, unpack};

/// Request to convert a log to a trace.
#[derive(Debug, Clone)]
pub struct ConvertRequest {
    /// Name of the log for error messages, and its content.
    pub log: (String, Vec<u8>),
    /// Format of the log; detected if absent.
    pub format: Option<LogFormat>,
    pub options: ConvertOptions,
}

/// A log as a trace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Converted {
    /// Trace as JSON Lines, one turn per line.
    #[serde(skip)]
    pub trace: String,
    /// Format that was read.
    pub format: LogFormat,
    /// Number of sessions: runs of agents in the log.
    pub sessions: usize,
    /// Number of turns of all sessions.
    pub turns: usize,
    /// Number of context items of all sessions.
    pub items: usize,
    /// Uses by the strict definition: a path or an id is named again.
    pub strict: ConvertedUses,
    /// Uses by the broad definition: strict, or content reappears.
    pub broad: ConvertedUses,
    /// Records of the log that were not understood.
    pub skipped: Skipped,
}

/// How much is used, by one definition of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConvertedUses {
    /// Number of uses.
    pub uses: usize,
    /// Number of items that were used at least once.
    pub items: usize,
}

impl EvictionOperations<'_> {
    /// Converts a log to a trace with both definitions of use.
    pub fn convert(self, request: &ConvertRequest) -> Result<Converted, EngineError> {
        let (name, bytes) = &request.log;
        let bad = |error: &ReadError| EngineError::Invalid {
            message: format!("{name}: {error}"),
            hint: "docs/guides/agents.md lists the formats; `--input` names one".into(),
        };
        let options = ReadOptions {
            format: request.format,
        };
        let bytes = unpack(name, bytes.clone())?;
        let log = read(&bytes, options).map_err(|error| bad(&error))?;
        let many = log.trajectories.len() > 1;
        let mut sessions = Vec::new();
        for (number, run) in log.trajectories.iter().enumerate() {
            let id = run.id.clone().unwrap_or_else(|| (number + 1).to_string());
            let session = if many {
                format!("{}/{id}", request.options.session)
            } else {
                request.options.session.clone()
            };
            let options = ConvertOptions {
                session,
                ..request.options.clone()
            };
            // A run without text adds nothing to a trace.
            if let Ok(session) = convert(run, &options, &count_tokens) {
                sessions.push(session);
            }
        }
        if sessions.is_empty() {
            return Err(EngineError::Invalid {
                message: format!("{name}: no step with text found"),
                hint: "docs/guides/agents.md lists the formats".into(),
            });
        }
        distinct_names(&mut sessions);
        let turns = sessions.iter().flat_map(|session| &session.turns);
        let strict = counted(
            turns
                .clone()
                .map(|turn| (&turn.session, turn.uses.iter().collect())),
        );
        let broad = counted(turns.clone().map(|turn| {
            let all = turn.uses.iter().chain(&turn.broad_uses).collect();
            (&turn.session, all)
        }));
        Ok(Converted {
            format: log.format,
            sessions: sessions.len(),
            turns: turns.clone().count(),
            items: turns.map(|turn| turn.add.len()).sum(),
            strict,
            broad,
            skipped: log.skipped,
            trace: write_trace(&sessions),
        })
    }

    /// Reads the sessions of a file: a trace, or the log of an agent; and those of all files in a directory.
    pub fn sessions_of(self, path: &Path) -> Result<Vec<Session>, EngineError> {
        if path.is_dir() {
            let files = log_files(path)?;
            let mut sessions = Vec::new();
            let mut refused = None;
            for file in &files {
                match self.sessions_of(file) {
                    Ok(more) => sessions.extend(more),
                    Err(error) => refused = Some(error),
                }
            }
            if sessions.is_empty() {
                return Err(refused.unwrap_or_else(|| EngineError::Invalid {
                    message: format!("{}: no log or trace found", path.display()),
                    hint: "give a directory with the logs of an agent, or traces".into(),
                }));
            }
            distinct_names(&mut sessions);
            return Ok(sessions);
        }
        let bytes = fs_err::read(path).map_err(|cause| EngineError::file("read", path, cause))?;
        if let Ok(text) = std::str::from_utf8(&bytes)
            && let Ok(sessions) = read_trace(text)
        {
            return Ok(sessions);
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let converted = self.convert(&ConvertRequest {
            log: (path.display().to_string(), bytes),
            format: None,
            options: ConvertOptions {
                session: name,
                ..ConvertOptions::default()
            },
        })?;
        Ok(read_trace(&converted.trace)?)
    }
}

/// Numbers sessions that have the same name.
fn distinct_names(sessions: &mut [Session]) {
    let mut seen: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for session in sessions {
        let times = seen.entry(session.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            session.id = format!("{}#{times}", session.id);
            for turn in &mut session.turns {
                turn.session.clone_from(&session.id);
            }
        }
    }
}

fn counted<'a>(turns: impl Iterator<Item = (&'a String, Vec<&'a String>)>) -> ConvertedUses {
    let mut uses = 0;
    let mut items = std::collections::BTreeSet::new();
    for (session, ids) in turns {
        uses += ids.len();
        items.extend(ids.into_iter().map(|id| (session, id)));
    }
    ConvertedUses {
        uses,
        items: items.len(),
    }
}
