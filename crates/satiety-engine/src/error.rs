//! Why a use case could not be carried out, and what to do about it.

use satiety::dialogue::input::InputError;
use satiety::dialogue::{ConversationError, ProfileError, VectorError};
use satiety::retrieval::RetrievalError;
use satiety::stats::StatsError;
use satiety_models::EmbedError;
use satiety_models::chat::{ChatError, Provider};
use satiety_models::http::with_causes;
use satiety_store::StoreError;

use crate::bench::target::OpenError;

/// A use case that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The eval harness.
    #[error(transparent)]
    Harness(#[from] crate::harness::HarnessError),
    /// The memory.
    #[error(transparent)]
    Memory(#[from] crate::memory::MemoryError),
    /// Golden data, or a replay of it.
    #[error(transparent)]
    Golden(#[from] crate::retrieval::GoldenError),
    /// A call of an operation that cannot be carried out as it was made.
    #[error(transparent)]
    Call(#[from] crate::operations::CallError),
    /// Features of the memory's search.
    #[error(transparent)]
    Ab(#[from] crate::experiment::ExperimentError),
    /// A sentence model.
    #[error(transparent)]
    Model(EmbedError),
    /// A chat model was needed and none is chosen.
    #[error("sorting messages with a model needs a chat model, and `models.chat` is not set")]
    NoChatModel,
    /// A chat model that cannot be opened.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// A round that the chat model did not sort.
    #[error("the model could not sort round {round} ({agent}): {}", with_causes(cause))]
    Sorting {
        /// The round's number.
        round: u32,
        /// Who spoke.
        agent: String,
        /// What went wrong.
        cause: ChatError,
    },
    /// A round that the chat model sorted in a way that cannot be believed.
    #[error("{model} sorted round {round} ({agent}) in a way that cannot be used: {reason}")]
    BadSorting {
        /// The round's number.
        round: u32,
        /// Who spoke.
        agent: String,
        /// Which model.
        model: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A file named in the request.
    #[error("cannot {action} {path}: {cause}")]
    File {
        /// What was being done: "read".
        action: &'static str,
        /// The file as the user named it.
        path: String,
        /// The system's words.
        cause: std::io::Error,
    },
    /// An input that cannot be read as what it should be.
    #[error("{name}: {problem}")]
    Input {
        /// The file as the user named it.
        name: String,
        /// What is wrong, and where.
        problem: InputError,
    },
    /// A line of a file of pairs.
    #[error("{name}:{line}: {reason}")]
    Pairs {
        /// The file as the user named it.
        name: String,
        /// Which line.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// No profile of that name.
    #[error("there is no profile `{name}`, built in or as a file")]
    NoProfile {
        /// What was asked for.
        name: String,
    },
    /// A profile file that cannot be used.
    #[error("{path}: {problem}")]
    ProfileFile {
        /// The file as the user named it.
        path: String,
        /// What is wrong with it.
        problem: ProfileError,
    },
    /// A built-in profile that cannot be used: a bug.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A conversation that cannot be scored.
    #[error(transparent)]
    Conversation(ConversationError),
    /// Vectors that do not fit.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// Judgments or a run that cannot be used.
    #[error("{name}: {problem}")]
    Ranking {
        /// The file as the user named it.
        name: String,
        /// What is wrong, and where.
        problem: RetrievalError,
    },
    /// A compressed file that is damaged or was cut off.
    #[error("{path} cannot be decompressed: {cause}")]
    Packed {
        /// The file as the user named it.
        path: String,
        /// What the decoder says.
        cause: std::io::Error,
    },
    /// A folder that does not say which judgments are meant.
    #[error("{folder} has no test.tsv and {count} other tables")]
    WhichJudgments {
        /// The folder of judgments.
        folder: String,
        /// How many tables there are.
        count: usize,
    },
    /// A field that no query has.
    #[error("none of the {queries} queries that are known has a field `{field}`")]
    NoField {
        /// The field.
        field: String,
        /// How many queries are known.
        queries: usize,
    },
    /// Runs whose differences do not vary, so that nothing can be foretold from them.
    #[error(
        "the two runs find the first relevant document at the same ranks, so their differences tell nothing"
    )]
    NoSpread,
    /// A pool that should be written as something that cannot be judged.
    #[error("a pool cannot be written as {path}")]
    PoolFormat {
        /// The file as the user named it.
        path: String,
    },
    /// Queries that cannot be checked with the settings given.
    #[error("cannot check the corpus: {0}")]
    Corpus(#[from] satiety::retrieval::CorpusError),
    /// Figures that cannot be computed with the settings given.
    #[error("cannot compute this: {0}")]
    Figures(StatsError),
    /// A comparison of fewer than two runs.
    #[error("a comparison needs two runs")]
    NothingToCompare,
    /// Too little to calculate with.
    #[error("cannot fit a threshold: {0}")]
    Statistics(#[from] StatsError),
    /// A folder in which nothing has a label.
    #[error("no file in {folder} has a label")]
    NoLabels {
        /// The folder as the user named it.
        folder: String,
    },
    /// Something that needs a sentence model, asked for without one.
    #[error("{what} needs a sentence model, and `models.embedder` is `none`")]
    NeedsEmbedder {
        /// What was asked for.
        what: &'static str,
    },
    /// A place without a suite.
    #[error("there is no suite at {path}")]
    NoSuite {
        /// The place as the user named it.
        path: String,
    },
    /// A suite that cannot be used.
    #[error(transparent)]
    Suite(#[from] satiety::bench::SuiteError),
    /// A description of a target that cannot be read.
    #[error("{place}: {reason}")]
    TargetText {
        /// The file, or what was typed.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A target that cannot be opened as it is described.
    #[error(transparent)]
    Target(#[from] OpenError),
    /// The request cannot be carried out; the message says why.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// The request does not fit the current state; the message says why.
    #[error("{message}")]
    Conflict {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A request about a context that cannot be met.
    #[error(transparent)]
    Eviction(#[from] satiety::eviction::EvictionError),
    /// A version of the scorer that may not go into force.
    #[error("`{version}` may not be put into force: {}", reasons.join("; "))]
    EvictRefused {
        /// The version.
        version: String,
        /// Why not.
        reasons: Vec<String>,
    },
    /// A source that cannot be searched as it is named.
    #[error(transparent)]
    Search(#[from] crate::research::sources::SearchError),
    /// Settings of a research that cannot be right.
    #[error("{0}")]
    ResearchSettings(#[from] satiety::research::SettingsError),
    /// A line of recorded rounds.
    #[error("{name}:{line}: {reason}")]
    GateLine {
        /// The file as the user named it.
        name: String,
        /// Which line.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// No run to take up again.
    #[error("there is no unfinished research `{run}`")]
    NoResearch {
        /// What was asked for.
        run: String,
    },
    /// A run that has ended.
    #[error("research {run} has ended already")]
    ResearchEnded {
        /// Which one.
        run: String,
    },
    /// A model's judgment was asked for and there is no model.
    #[error("the assessor `model` needs a chat model, and `models.chat` is not set")]
    ResearchNeedsModel,
    /// Web pages cannot be read.
    #[error("pages cannot be read: {0}")]
    Fetch(#[from] crate::research::fetch::FetchError),
    /// Something that was asked for by its name is not there.
    #[error("there is no {what}")]
    NotThere {
        /// What.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// Something of that name is there already.
    #[error("there is {what} already")]
    AlreadyThere {
        /// What.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// Something that is too much, or not of the right form.
    #[error("cannot take {what}")]
    Unacceptable {
        /// What.
        what: String,
        /// What could be taken.
        hint: String,
    },
    /// A request that would cost more than one request may; nothing was computed.
    #[error(
        "{what} would cost about {estimated} units, and one request may cost {limit} (a unit is about 1 ms of one processor)"
    )]
    TooCostly {
        /// What would cost it.
        what: &'static str,
        /// The estimate.
        estimated: u64,
        /// What one request may cost.
        limit: u64,
    },
    /// A caller that has spent its budget; nothing was computed.
    #[error("this would cost about {estimated} units, and this caller has {left} left for now")]
    BudgetSpent {
        /// The estimate.
        estimated: u64,
        /// What the caller has left.
        left: u64,
        /// Seconds until it can be paid for.
        retry_after: u64,
    },
    /// As many requests wait for a processor or the sentence model as may.
    #[error("too many requests wait for a processor or the sentence model")]
    Overloaded,
    /// The time of the request was over before there was an answer.
    #[error("the request was cancelled before there was an answer; nothing was changed")]
    Cancelled,
    /// Others change it all the time.
    #[error("{what} is being changed by others all the time; nothing was changed")]
    Busy {
        /// What.
        what: String,
    },
    /// A value that JSON cannot hold: a bug.
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
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Harness(error) => error.hint(),
            Self::Memory(error) => error.hint(),
            Self::Golden(error) => error.hint(),
            Self::Ab(error) => error.hint(),
            Self::Call(error) => error.hint(),
            Self::Model(error) => Some(match error {
                EmbedError::BadSpec { .. } => "`satiety models list` shows what can be chosen".into(),
                EmbedError::NotThere { .. } => return None,
                _ => "check it with `satiety models verify`; `--embedder none` scores by words alone".into(),
            }),
            Self::NoChatModel => Some(
                "set `models.chat`, for instance with SATIETY_MODELS_CHAT=ollama:llama3.2; or sort with `--extract rules`"
                    .into(),
            ),
            Self::Chat(cause) | Self::Sorting { cause, .. } => chat_hint(cause),
            Self::BadSorting { .. } => Some(WITHOUT_MODEL.into()),
            Self::Input { problem, .. } => Some(match problem {
                InputError::Empty => "give a transcript, a trace, a chat log or an agent's session log".into(),
                _ => "`satiety score --help` shows the shapes that are understood; nothing was recorded".into(),
            }),
            Self::NoProfile { .. } => Some("use `default`, `spec`, or the path of a TOML file".into()),
            Self::ProfileFile { .. } => {
                Some("docs/dialogue.md lists every key of a profile; a file may set only some of them".into())
            }
            Self::NoLabels { .. } => Some(
                "a label is the key `_expected` in a transcript, such as {\"stop_recommendation\": \"SHIP\", \"stop_round\": 4}"
                    .into(),
            ),
            Self::NeedsEmbedder { .. } => Some("choose one with `--embedder builtin`".into()),
            Self::Ranking { problem, .. } => Some(match problem {
                RetrievalError::Duplicate { .. } => {
                    "`--dedup first` keeps the first of each document; a document counted twice would raise every measure".into()
                }
                RetrievalError::NeedsFacts { .. } => {
                    "name a file of documents (tier, folder, class) with --corpus, or of queries (causalChain) with --queries".into()
                }
                RetrievalError::NoSharedQueries => {
                    "see whether judgments and run name their queries in the same way".into()
                }
                RetrievalError::Line { reason, .. } if !reason.contains("field") => {
                    "docs/retrieval.md describes the files that are understood".into()
                }
                _ => "judgments are `query 0 document grade`, runs `query Q0 document rank score tag`, one a line".into(),
            }),
            Self::NoSuite { .. } => Some(
                "a suite is a folder with suite.json, .yaml or .toml, or a skill with benchmarks/ or evals/evals.json; `satiety bench init` makes one"
                    .into(),
            ),
            Self::Suite(_) => Some("`satiety bench check` shows every problem at once".into()),
            Self::TargetText { .. } => Some(
                "a target is a file (type = \"exec\", command = \"…\"), or echo, exec:COMMAND, worker:COMMAND, chat:MODEL, http://…"
                    .into(),
            ),
            Self::Target(error) => error.hint().map(Into::into),
            Self::Invalid { hint, .. }
            | Self::Conflict { hint, .. }
            | Self::NotThere { hint, .. }
            | Self::AlreadyThere { hint, .. }
            | Self::Unacceptable { hint, .. } => Some(hint.clone()),
            Self::Busy { .. } | Self::Overloaded => Some("try again in a moment".into()),
            Self::TooCostly { .. } => Some(
                "send less at once: fewer or shorter claims, or a growing conversation round by round".into(),
            ),
            Self::BudgetSpent { retry_after, .. } => Some(format!("try again in {retry_after} seconds")),
            Self::Cancelled => Some("send less at once".into()),
            Self::Eviction(error) => Some(error.hint().into()),
            Self::EvictRefused { version, .. } => Some(format!(
                "`satiety evict variants {version} --out FOLDER` writes what an ablation needs, and says how to run it"
            )),
            Self::NoSpread => Some("give two runs that differ, or the spread itself with --sigma".into()),
            Self::PoolFormat { .. } => Some("name a file that ends in .csv or .jsonl".into()),
            Self::NoField { .. } => Some(
                "name a file of queries that has it with --queries: JSON Lines, or a table with a header".into(),
            ),
            Self::WhichJudgments { .. } => Some("name the file of judgments itself".into()),
            Self::Packed { .. } => Some("the file seems damaged or cut off; fetch it again".into()),
            Self::NothingToCompare => Some("give --run twice: first the control, then the treatment".into()),
            Self::Statistics(_) => {
                Some("give at least one pair that says the same and one that does not".into())
            }
            Self::Pairs { .. } => {
                Some("a line is {\"a\": \"…\", \"b\": \"…\", \"same\": true}; nothing was written".into())
            }
            Self::Search(error) => error.hint(),
            Self::GateLine { .. } => Some(
                "a line is {\"query\": \"…\", \"results\": [{\"title\": \"…\", \"url\": \"…\", \"snippet\": \"…\"}], \"state\": \"…\"}; docs/research.md has every key"
                    .into(),
            ),
            Self::NoResearch { .. } => Some("`--resume last` takes up the newest run that was interrupted".into()),
            Self::ResearchEnded { .. } => Some("start a new one; searches of the last day cost nothing".into()),
            Self::ResearchNeedsModel => {
                Some("set `models.chat`, for instance with SATIETY_MODELS_CHAT=ollama:llama3.2; or use `--novelty claims`".into())
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

    /// [`hint`](Self::hint) for callers that have no command line: alternatives that name a flag are left out.
    pub fn hint_without_flags(&self) -> Option<String> {
        without_flags(&self.hint()?)
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

/// Leaves out the alternatives of a hint (`…, or …`, `…; …`) that name a command-line flag.
fn without_flags(hint: &str) -> Option<String> {
    let clauses = hint.split("; ").filter_map(|clause| {
        let kept: Vec<&str> = clause
            .split(", or ")
            .filter(|part| !part.contains("--"))
            .collect();
        (!kept.is_empty()).then(|| kept.join(", or "))
    });
    let text = clauses.collect::<Vec<_>>().join("; ");
    let text = text.strip_prefix("or ").unwrap_or(&text);
    (!text.is_empty()).then(|| text.to_owned())
}

const WITHOUT_MODEL: &str = "try another `models.chat`, one that supports structured output; `--extract rules` needs no model. Nothing was recorded";

fn chat_hint(cause: &ChatError) -> Option<String> {
    Some(match cause {
        ChatError::BadSpec { .. } => {
            "set `models.chat` to ollama:MODEL, openai:MODEL or anthropic:MODEL, with @URL for another address".into()
        }
        // Its message says what to do.
        ChatError::NotThere { .. } => return None,
        ChatError::NoAccess { provider: Provider::Anthropic, .. } => "set ANTHROPIC_API_KEY to a valid key".into(),
        ChatError::NoAccess { provider: Provider::OpenAi, .. } => "set OPENAI_API_KEY to a valid key".into(),
        ChatError::Transport(_) => {
            "see whether the endpoint answers; `--extract rules` needs no model. Nothing was recorded".into()
        }
        _ => WITHOUT_MODEL.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_without_flags_keep_what_every_caller_can_do() {
        for (hint, kept) in [
            ("run it again", Some("run it again")),
            ("choose one with `--embedder builtin`", None),
            (
                "set `models.chat`; or use `--novelty claims`",
                Some("set `models.chat`"),
            ),
            (
                "make it writable, or name another store with `--db`",
                Some("make it writable"),
            ),
            ("name it with --run; or give the path", Some("give the path")),
        ] {
            assert_eq!(without_flags(hint).as_deref(), kept, "{hint}");
        }
    }
}
