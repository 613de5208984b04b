//! Errors of the engine, each with a hint on how to resolve it.

use satiety::Hint;
use satiety::dialogue::input::InputError;
use satiety::dialogue::{ConversationError, ProfileError, VectorError};
use satiety::retrieval::RetrievalError;
use satiety::stats::StatsError;
use satiety_models::EmbedError;
use satiety_models::chat::{ChatError, Provider};
use satiety_models::http::with_causes;
use satiety_store::StoreError;

use crate::bench::target::OpenError;

/// Error of an engine operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Harness(#[from] crate::harness::HarnessError),
    #[error(transparent)]
    Memory(#[from] crate::memory::MemoryError),
    /// Golden data or its replay.
    #[error(transparent)]
    Golden(#[from] crate::retrieval::GoldenError),
    /// Invalid call of an operation.
    #[error(transparent)]
    Call(#[from] crate::operations::CallError),
    /// Experiments with features of the memory search.
    #[error(transparent)]
    Ab(#[from] crate::experiment::ExperimentError),
    #[error(transparent)]
    Model(EmbedError),
    /// A chat model is required but none is configured.
    #[error("cannot extract claims with a model: `models.chat` is not set")]
    NoChatModel,
    /// A chat model that cannot be opened or called.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The chat model failed to extract the claims of a round.
    #[error("cannot extract claims of round {round} ({agent}): {}", with_causes(cause))]
    Sorting {
        round: u32,
        agent: String,
        cause: ChatError,
    },
    /// The chat model returned an unusable extraction.
    #[error("unusable extraction of round {round} ({agent}) by {model}: {reason}")]
    BadExtraction {
        round: u32,
        agent: String,
        model: String,
        reason: String,
    },
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}: {cause}")]
    File {
        /// Verb that completes "cannot …", such as "read".
        action: &'static str,
        /// Path as given by the user.
        path: String,
        cause: std::io::Error,
    },
    /// Input that cannot be parsed.
    #[error("{name}: {problem}")]
    Input {
        /// Path as given by the user.
        name: String,
        problem: InputError,
    },
    /// Log of an agent that cannot be read.
    #[error("{name}: {problem}")]
    Log {
        /// Path as given by the user.
        name: String,
        problem: satiety::trajectory::ReadError,
    },
    /// Invalid file with thresholds of the progress judge.
    #[error("{path}: {problem}")]
    ProgressProfile {
        path: String,
        problem: satiety::progress::ProgressProfileError,
    },
    /// Invalid line in a file of pairs.
    #[error("{name}:{line}: {reason}")]
    Pairs {
        /// Path as given by the user.
        name: String,
        /// Line number, counted from 1.
        line: usize,
        reason: String,
    },
    /// Unknown profile name.
    #[error("profile `{name}` not found, neither built in nor as a file")]
    NoProfile { name: String },
    /// Invalid profile file.
    #[error("{path}: {problem}")]
    ProfileFile {
        /// Path as given by the user.
        path: String,
        problem: ProfileError,
    },
    /// Invalid built-in profile; this is a bug.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Conversation(ConversationError),
    /// Vectors of the wrong count or dimension.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// Unusable judgments or ranking run.
    #[error("{name}: {problem}")]
    Ranking {
        /// Path as given by the user.
        name: String,
        problem: RetrievalError,
    },
    /// A compressed file that is damaged or truncated.
    #[error("cannot decompress {path}: {cause}")]
    Packed {
        /// Path as given by the user.
        path: String,
        cause: std::io::Error,
    },
    /// A directory with several candidate judgment files.
    #[error("cannot choose judgments in {folder}: no test.tsv, and {count} other tables")]
    WhichJudgments {
        folder: String,
        /// Number of tables found.
        count: usize,
    },
    /// A field that no query has.
    #[error("none of the {queries} known queries has a field `{field}`")]
    NoField {
        field: String,
        /// Number of known queries.
        queries: usize,
    },
    /// Runs whose differences have no variance, so that no sample size can be computed.
    #[error(
        "the two runs find the first relevant document at the same ranks, so their differences have no variance"
    )]
    NoVariance,
    /// Unsupported output format of a judgment pool.
    #[error("cannot write a pool to {path}: unsupported format")]
    PoolFormat {
        /// Path as given by the user.
        path: String,
    },
    /// Corpus check with invalid settings.
    #[error("cannot check the corpus: {0}")]
    Corpus(#[from] satiety::retrieval::CorpusError),
    /// Statistics that cannot be computed with the given settings.
    #[error("cannot compute statistics: {0}")]
    Figures(StatsError),
    #[error("cannot compare: at least two runs are required")]
    NothingToCompare,
    /// Too few pairs to fit a threshold.
    #[error("cannot fit a threshold: {0}")]
    Statistics(#[from] StatsError),
    /// A directory without labelled transcripts.
    #[error("no labelled file in {folder}")]
    NoLabels {
        /// Directory as given by the user.
        folder: String,
    },
    /// An operation that requires a sentence model while it is disabled.
    #[error("{what} requires a sentence model, but `models.embedder` is `none`")]
    NeedsEmbedder {
        /// The operation.
        what: &'static str,
    },
    #[error("no suite found at {path}")]
    NoSuite {
        /// Path as given by the user.
        path: String,
    },
    #[error(transparent)]
    Suite(#[from] satiety::bench::SuiteError),
    /// Invalid target description.
    #[error("{place}: {reason}")]
    TargetText {
        /// Path of the file, or the description itself.
        place: String,
        reason: String,
    },
    #[error(transparent)]
    Target(#[from] OpenError),
    /// Invalid request; the message gives the reason.
    #[error("{message}")]
    Invalid { message: String, hint: Hint },
    /// Request that conflicts with the current state; the message gives the reason.
    #[error("{message}")]
    Conflict { message: String, hint: Hint },
    #[error(transparent)]
    Eviction(#[from] satiety::eviction::EvictionError),
    /// Scorer version that does not meet the activation conditions.
    #[error("cannot activate `{version}`: {}", reasons.join("; "))]
    EvictRefused { version: String, reasons: Vec<String> },
    /// Invalid search source.
    #[error(transparent)]
    Search(#[from] crate::research::sources::SearchError),
    /// Invalid settings of a research run.
    #[error("{0}")]
    ResearchSettings(#[from] satiety::research::SettingsError),
    /// Invalid line in a file of recorded rounds.
    #[error("{name}:{line}: {reason}")]
    GateLine {
        /// Path as given by the user.
        name: String,
        /// Line number, counted from 1.
        line: usize,
        reason: String,
    },
    /// No interrupted research run to resume.
    #[error("no unfinished research `{run}`")]
    NoResearch {
        /// The run id, or `last`.
        run: String,
    },
    #[error("research {run} has already ended")]
    ResearchEnded { run: String },
    /// The model assessor was requested but no chat model is configured.
    #[error("the assessor `model` needs a chat model, but `models.chat` is not set")]
    ResearchNeedsModel,
    #[error("cannot read web pages: {0}")]
    Fetch(#[from] crate::research::fetch::FetchError),
    /// A named object that does not exist.
    #[error("{what} not found")]
    NotFound {
        /// Kind and name, such as "run `x`".
        what: String,
        hint: Hint,
    },
    /// An object of that name already exists.
    #[error("{what} already exists")]
    AlreadyExists {
        /// Kind and name, such as "a conversation `x`".
        what: String,
        hint: Hint,
    },
    /// A value that is too large or malformed.
    #[error("cannot accept {what}")]
    Unacceptable {
        /// The rejected value.
        what: String,
        /// Description of an acceptable value.
        hint: Hint,
    },
    /// A request above the cost limit of a single request; nothing was computed.
    #[error(
        "{what} would cost about {estimated} units, above the limit of {limit} per request (a unit is about 1 ms of CPU time)"
    )]
    TooCostly {
        /// The operation, as the subject of the message.
        what: &'static str,
        /// Estimated cost in units of about 1 ms of CPU time.
        estimated: u64,
        /// Cost limit of a single request, in units.
        limit: u64,
    },
    /// A caller without enough remaining budget; nothing was computed.
    #[error("the request would cost about {estimated} units, but the caller has only {left} left")]
    BudgetSpent {
        /// Estimated cost in units of about 1 ms of CPU time.
        estimated: u64,
        /// Remaining budget of the caller, in units.
        left: u64,
        /// Seconds until the budget covers the estimate.
        retry_after: u64,
    },
    /// A tenant that has used up a quota; nothing was computed or stored.
    #[error("{}", quota_message(tenant, exceeded))]
    QuotaExceeded {
        tenant: String,
        exceeded: satiety::quota::Exceeded,
    },
    /// An action on the registry, requested by a tenant.
    #[error("cannot {what}: the caller belongs to a tenant")]
    OnlyMain { what: &'static str },
    /// An action that an agent may not take, on the registry of tenants or on tokens.
    #[error("cannot {what}: this needs an admin token")]
    NeedsAdminToken { what: &'static str },
    /// The queue for a CPU or for the sentence model is full.
    #[error("too many requests are waiting for a CPU or the sentence model")]
    Overloaded,
    /// The request was cancelled or timed out before it was answered.
    #[error("the request was cancelled before it was answered; nothing was changed")]
    Cancelled,
    /// Concurrent changes exhausted the retries.
    #[error("cannot update {what}: too many concurrent changes; nothing was changed")]
    Busy {
        /// The contended object.
        what: String,
    },
    /// A value that cannot be written as JSON; this is a bug.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<EmbedError> for EngineError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Busy { .. } => Self::Overloaded,
            EmbedError::Refused(cause) => match cause.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Model(EmbedError::Refused(other)),
            },
            other => Self::Model(other),
        }
    }
}

impl From<ConversationError> for EngineError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Cancelled(_) => Self::Cancelled,
            other => Self::Conversation(other),
        }
    }
}

impl From<satiety::cancel::Cancelled> for EngineError {
    fn from(_: satiety::cancel::Cancelled) -> Self {
        Self::Cancelled
    }
}

impl EngineError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Harness(error) => error.hint(),
            Self::Memory(error) => error.hint(),
            Self::Golden(error) => error.hint(),
            Self::Ab(error) => error.hint(),
            Self::Call(error) => error.hint(),
            Self::Model(error) => Some(match error {
                EmbedError::BadSpec { .. } => Hint::with_command("list the available models", "satiety models list"),
                EmbedError::NotFound { .. } => return None,
                _ => Hint::with_command("without a model, the embedder `none` scores by words alone; to check the model", "satiety models verify"),
            }),
            Self::NoChatModel => Some(
                Hint::with_command("set `models.chat`, for instance with SATIETY_MODELS_CHAT=ollama:llama3.2, or extract by rules", "--extract rules"),
            ),
            Self::Chat(cause) | Self::Sorting { cause, .. } => chat_hint(cause),
            Self::BadExtraction { .. } => Some(without_model()),
            Self::Input { problem, .. } => Some(match problem {
                InputError::Empty => "give a transcript, a trace, a chat log or an agent's session log".into(),
                _ => Hint::with_command("nothing was recorded; see the supported formats", "satiety score --help"),
            }),
            Self::Log { .. } => Some(Hint::with_command(
                "give a log of an agent in one of the supported formats",
                "satiety progress --help",
            )),
            Self::ProgressProfile { .. } => {
                Some("docs/concepts/progress.md explains the keys of a profile; a file may set only some of them".into())
            }
            Self::NoProfile { .. } => Some("use `default`, `spec`, or the path of a TOML file".into()),
            Self::ProfileFile { .. } => {
                Some("docs/guides/score.md explains the keys of a profile; a file may set only some of them".into())
            }
            Self::NoLabels { .. } => Some(
                "a label is the key `_expected` in a transcript, such as {\"stop_recommendation\": \"SHIP\", \"stop_round\": 4}"
                    .into(),
            ),
            Self::NeedsEmbedder { .. } => Some(Hint::with_command("choose a sentence model, such as `builtin`", "--embedder builtin")),
            Self::Ranking { problem, .. } => Some(match problem {
                RetrievalError::Duplicate { .. } => {
                    Hint::with_command("duplicates would raise every measure; keep the first of each document", "--dedup first")
                }
                RetrievalError::NeedsFacts { .. } => {
                    Hint::with_command("give a file of documents (tier, folder, class) or of queries (causalChain)", "--corpus FILE")
                }
                RetrievalError::NoSharedQueries => {
                    "check that the judgments and the run use the same query ids".into()
                }
                RetrievalError::Line { reason, .. } if !reason.contains("field") => {
                    "docs/guides/retrieval.md describes the supported file formats".into()
                }
                _ => "judgments are `query 0 document grade`, runs `query Q0 document rank score tag`, one per line".into(),
            }),
            Self::NoSuite { .. } => Some(
                Hint::with_command("a suite is a directory with suite.json, .yaml or .toml, a skill with benchmarks/ or evals/evals.json, or the file of a promptfoo configuration; create one", "satiety bench init"),
            ),
            Self::Suite(_) => Some(Hint::with_command("list all problems of the suite", "satiety bench check")),
            Self::TargetText { .. } => Some(
                "a target is a file (type = \"exec\", command = \"…\"), or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…"
                    .into(),
            ),
            Self::Target(error) => error.hint(),
            Self::Invalid { hint, .. }
            | Self::Conflict { hint, .. }
            | Self::NotFound { hint, .. }
            | Self::AlreadyExists { hint, .. }
            | Self::Unacceptable { hint, .. } => Some(hint.clone()),
            Self::Busy { .. } | Self::Overloaded => Some("try again in a moment".into()),
            Self::TooCostly { .. } => Some(
                "send less at once: fewer or shorter claims, or a growing conversation round by round".into(),
            ),
            Self::BudgetSpent { retry_after, .. } => Some(format!("try again in {retry_after} seconds").into()),
            Self::QuotaExceeded { exceeded, .. } => Some(match exceeded.retry_after {
                Some(seconds) => format!("try again in {seconds} seconds, or ask the operator for a larger quota").into(),
                None => "delete what is no longer needed, or ask the operator for a larger quota".into(),
            }),
            Self::OnlyMain { .. } => Some("the operator of the server administers tenants".into()),
            Self::NeedsAdminToken { .. } => Some(Hint::with_command(
                "send an admin token of the main store, or use the command line",
                "satiety tenant --help",
            )),
            Self::Cancelled => Some("send less at once".into()),
            Self::Eviction(error) => Some(error.hint()),
            Self::EvictRefused { version, .. } => Some(Hint::with_command(
                "run an ablation of this version",
                format!("satiety evict variants {version} --out DIR"),
            )),
            Self::NoVariance => Some(Hint::with_command("give two runs that differ, or the standard deviation", "--sigma VALUE")),
            Self::PoolFormat { .. } => Some("use a file name that ends in .csv or .jsonl".into()),
            Self::NoField { .. } => Some(
                Hint::with_command("give a file of queries with this field, as JSON Lines or a table with a header", "--queries FILE"),
            ),
            Self::WhichJudgments { .. } => Some("pass the path of the judgments file".into()),
            Self::Packed { .. } => Some("the file seems damaged or truncated; download it again".into()),
            Self::NothingToCompare => Some(Hint::with_command("give two runs, first the control, then the treatment", "--run CONTROL --run TREATMENT")),
            Self::Statistics(_) => {
                Some("provide at least one pair with the same meaning and one without".into())
            }
            Self::Pairs { .. } => {
                Some("a line is {\"a\": \"…\", \"b\": \"…\", \"same\": true}; nothing was written".into())
            }
            Self::Search(error) => error.hint(),
            Self::GateLine { .. } => Some(
                "a line is {\"query\": \"…\", \"results\": [{\"title\": \"…\", \"url\": \"…\", \"snippet\": \"…\"}], \"state\": \"…\"}; docs/guides/research.md lists every key"
                    .into(),
            ),
            Self::NoResearch { .. } => Some(Hint::with_command("resume the newest interrupted run", "--resume last")),
            Self::ResearchEnded { .. } => Some("start a new one; searches of the last day cost nothing".into()),
            Self::ResearchNeedsModel => {
                Some(Hint::with_command("set `models.chat`, for instance with SATIETY_MODELS_CHAT=ollama:llama3.2, or assess novelty by claims", "--novelty claims"))
            }
            Self::ResearchSettings(_)
            | Self::Fetch(_)
            | Self::File { .. }
            | Self::Figures(_)
            | Self::Corpus(_)
            | Self::Profile(_)
            | Self::Conversation(_)
            | Self::Vectors(_)
            | Self::Json(_) => None,
        }
    }

    /// Whether a program was refused what a person may do.
    pub fn needs_person(&self) -> bool {
        matches!(
            self,
            Self::Memory(crate::memory::MemoryError::NeedsPerson(_))
                | Self::Store(StoreError::ConstitutionalMemory { .. })
        )
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads well in map_err")]
    pub(crate) fn file(action: &'static str, path: &std::path::Path, cause: std::io::Error) -> Self {
        // Only the kind: the path is in the message already, and fs_err would say it twice.
        Self::File {
            action,
            path: path.display().to_string(),
            cause: cause.kind().into(),
        }
    }
}

fn without_model() -> Hint {
    Hint::with_command(
        "nothing was recorded; try another `models.chat`, one that supports structured output, or extract by rules",
        "--extract rules",
    )
}

fn chat_hint(cause: &ChatError) -> Option<Hint> {
    Some(match cause {
        ChatError::BadSpec { .. } => {
            "set `models.chat` to ollama:MODEL, openai:MODEL or anthropic:MODEL, with @URL for another address".into()
        }
        // Its message says what to do.
        ChatError::NotFound { .. } => return None,
        ChatError::NotAdmitted(_) => "wait until the quota allows it, or ask the operator for a larger one".into(),
        ChatError::NoAccess { provider: Provider::Anthropic, .. } => "set ANTHROPIC_API_KEY to a valid key".into(),
        ChatError::NoAccess { provider: Provider::OpenAi, .. } => "set OPENAI_API_KEY to a valid key".into(),
        ChatError::Transport(_) => {
            Hint::with_command("nothing was recorded; see whether the endpoint answers, or extract by rules", "--extract rules")
        }
        _ => without_model(),
    })
}

/// What a tenant has used up, with the name of the quota.
fn quota_message(tenant: &str, exceeded: &satiety::quota::Exceeded) -> String {
    let (name, limit, used) = (exceeded.quota.name(), exceeded.limit, exceeded.used);
    format!("tenant `{tenant}` has reached its quota `{name}`: {used} of {limit}")
}
