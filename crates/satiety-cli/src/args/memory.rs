//! Arguments of `satiety memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use satiety::memory::TimePoint;

/// Arguments of `memory`.
#[derive(Debug, Args)]
#[command(
    after_help = "Memories belong to the project they were saved in: the repository of the working directory, or \
that directory. Searches see the project's memories and the global ones."
)]
pub(crate) struct MemoryArgs {
    /// Subcommand to run
    #[command(subcommand)]
    pub(crate) command: Memory,
    /// Project: a directory such as ./shop, a name, or an id [default: the current repository]
    #[arg(long, global = true, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Search the memories of all projects
    #[arg(long, global = true, conflicts_with = "project")]
    pub(crate) all_projects: bool,
}

/// Subcommands of `memory`.
#[derive(Debug, Subcommand)]
pub(crate) enum Memory {
    /// Save a memory
    Save(MemorySaveArgs),
    /// Search by words, meaning, trigger phrases and causal links
    Search(MemorySearchArgs),
    /// Search within the remaining token budget, skipping results already sent
    Context(MemorySearchArgs),
    /// Find memories whose trigger phrases occur in a text
    Match(MemoryMatchArgs),
    /// List memories, or show one in full
    List(MemoryListArgs),
    /// Show one memory in full with its links; --session records the read
    Get(MemoryGetArgs),
    /// Update the given fields of a memory
    Update(MemoryUpdateArgs),
    /// Delete memories
    #[command(after_help = "Example:\n  satiety memory delete mem-019a8000000070008000000000000001")]
    Delete {
        /// Ids of the memories
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Record whether a memory was useful
    Validate(MemoryValidateArgs),
    /// Link one memory to another: caused, enabled, supersedes, contradicts, supports
    Link(MemoryLinkArgs),
    /// Start a task: show related memories and record the initial knowledge
    Preflight(MemoryPreflightArgs),
    /// Close a task: record outcome, useful memories and lessons
    Postflight(MemoryPostflightArgs),
    /// List sessions and their tasks, or show one in full
    Sessions(MemorySessionsArgs),
    /// Synchronize memories with a directory of Markdown files
    Index(MemoryIndexArgs),
    /// Import memories from files, chat exports, other memory servers or another database
    Import(MemoryImportArgs),
    /// Make vectors for all memories that have none of the configured model
    #[command(after_help = "Example:\n  satiety memory embed\n\nIf interrupted, the same command continues.")]
    Embed,
    /// Show counts, vectors and unavailable search channels
    #[command(
        after_help = "Example:\n  satiety memory health\n\nExits with 3 when a search channel is unavailable."
    )]
    Health,
}

/// Options of `memory save`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory save \"Use WAL\" \"Readers never wait for the writer.\" --tier important --trigger \"sqlite locked\"
  git log -1 --format=%B | satiety memory save \"Why the cache went\" - --kind decision --folder gateway")]
pub(crate) struct MemorySaveArgs {
    /// Title of the memory
    pub(crate) title: String,
    /// Text of the memory, or `-` for standard input
    pub(crate) content: String,
    /// Tier: temporary, normal, important, critical or constitutional (always ranked first; asks for
    /// confirmation)
    #[arg(long, default_value = "normal")]
    pub(crate) tier: String,
    /// Trigger phrase that recalls the memory; repeatable
    #[arg(long = "trigger", value_name = "PHRASE")]
    pub(crate) triggers: Vec<String>,
    /// Folder the memory belongs to, such as `store/sqlite`
    #[arg(long, default_value = "")]
    pub(crate) folder: String,
    /// Kind of memory, such as note or decision
    #[arg(long, default_value = "note")]
    pub(crate) kind: String,
    /// Days until the memory expires [default: 7 for temporary memories, otherwise never]
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires: Option<i64>,
    /// Tag for filters; repeatable
    #[arg(long = "tag", value_name = "TAG", help_heading = "Provenance")]
    pub(crate) tags: Vec<String>,
    /// Who said or wrote it [default: agent]
    #[arg(long, value_name = "NAME", help_heading = "Provenance")]
    pub(crate) author: Option<String>,
    /// When it was said or seen, in RFC 3339 or as a date [default: now]
    #[arg(long, value_name = "TIME", help_heading = "Provenance")]
    pub(crate) observed_at: Option<TimePoint>,
    /// Start of its validity, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME", help_heading = "Provenance")]
    pub(crate) valid_from: Option<TimePoint>,
    /// End of its validity, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME", help_heading = "Provenance")]
    pub(crate) valid_until: Option<TimePoint>,
    /// If a memory says the same: keep both, update it, merge into it, or reject
    #[arg(long, value_name = "ACTION", default_value = "keep")]
    pub(crate) on_duplicate: MemoryOnDuplicate,
    /// Make it visible to all projects; asks for confirmation on the terminal
    #[arg(long)]
    pub(crate) global: bool,
    /// Agent session; memories quoted in the text count as used
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory search` and `memory context`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory search \"why did we choose SQLite\"
  satiety memory search \"database locked\" --folder store --limit 3 --format json
  satiety memory context \"fix the failing import\" --session s1 --usage 0.7

Every search is logged in the store with its results, channels and times.")]
pub(crate) struct MemorySearchArgs {
    /// Query text
    pub(crate) query: String,
    /// Search depth; auto chooses by query and --usage
    #[arg(long, default_value = "auto")]
    pub(crate) mode: MemoryMode,
    /// Maximum number of results
    #[arg(long)]
    pub(crate) limit: Option<usize>,
    /// Maximum tokens of all results
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Share of the agent's context that is in use, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) usage: Option<f64>,
    /// Search only this folder and its subfolders
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Agent session; raises memories it used, and `context` sends nothing twice
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Results that hold at this time, in RFC 3339 or as a date [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<TimePoint>,
    #[command(flatten)]
    pub(crate) filter: MemoryFilterArgs,
    /// Also print results if none is relevant
    #[arg(long)]
    pub(crate) below_floor: bool,
    /// Method of combining the channels' rankings
    #[arg(long, default_value = "z-score")]
    pub(crate) fusion: MemoryFusion,
    /// Constant k of reciprocal-rank fusion
    #[arg(long, default_value_t = 60, value_name = "K")]
    pub(crate) rrf_k: u32,
}

/// Conditions that all results satisfy.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct MemoryFilterArgs {
    /// Only this kind; repeatable, any of them
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<String>,
    /// Only with this tag; repeatable, all of them
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only by this author; repeatable, any of them
    #[arg(long = "author", value_name = "NAME")]
    pub(crate) authors: Vec<String>,
    /// Only this tier; repeatable, any of them
    #[arg(long = "tier", value_name = "TIER")]
    pub(crate) tiers: Vec<String>,
    /// Recorded at this time or later, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME")]
    pub(crate) recorded_from: Option<TimePoint>,
    /// Recorded before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) recorded_until: Option<TimePoint>,
    /// Observed at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) observed_from: Option<TimePoint>,
    /// Observed before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) observed_until: Option<TimePoint>,
}

/// What saving does if a memory says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryOnDuplicate {
    /// Save it as another memory.
    Keep,
    /// Replace the text of the existing memory.
    Update,
    /// Add what is new to the existing memory.
    Merge,
    /// Save nothing and fail.
    Reject,
}

/// Search depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryMode {
    /// Chosen by the query and the remaining context.
    Auto,
    /// Words and triggers, 5 results.
    Quick,
    /// All channels, 10 results.
    Focused,
    /// All channels, query expansion, links followed twice, 20 results.
    Deep,
}

/// Method of combining the channels' rankings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryFusion {
    /// Weighted mean of standard scores.
    ZScore,
    /// Weighted mean of scores.
    Score,
    /// Reciprocal-rank fusion.
    Rrf,
}

/// Options of `memory match`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety memory match \"SQLite locked again\"")]
pub(crate) struct MemoryMatchArgs {
    /// Text to search for trigger phrases, or `-` for standard input
    pub(crate) text: String,
    /// Maximum number of matches
    #[arg(long, default_value_t = 5)]
    pub(crate) limit: usize,
    /// Agent session; memories quoted in the text count as used
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory list --tier constitutional
  satiety memory list --id mem-019a8000000070008000000000000001")]
pub(crate) struct MemoryListArgs {
    /// Show this memory in full
    #[arg(long, conflicts_with_all = ["folder", "tier", "after"])]
    pub(crate) id: Option<String>,
    /// List only this folder and its subfolders
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// List only this tier
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// List only this kind
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// List only memories with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// List only memories of this author
    #[arg(long, value_name = "NAME")]
    pub(crate) author: Option<String>,
    /// Recorded at this time or later, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME")]
    pub(crate) recorded_from: Option<TimePoint>,
    /// Recorded before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) recorded_until: Option<TimePoint>,
    /// Observed at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) observed_from: Option<TimePoint>,
    /// Observed before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) observed_until: Option<TimePoint>,
    /// Maximum number of memories
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Start of the page: the `next` value of the previous page
    #[arg(long, default_value_t = 0)]
    pub(crate) after: i64,
}

/// Options of `memory update`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  satiety memory update mem-019a8000000070008000000000000001 --tier critical"
)]
pub(crate) struct MemoryUpdateArgs {
    /// Id of the memory
    pub(crate) id: String,
    /// New title of the memory
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// New text, or `-` for standard input
    #[arg(long)]
    pub(crate) content: Option<String>,
    /// New tier of the memory
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// New trigger phrases, replacing the existing ones; repeatable
    #[arg(long = "trigger", value_name = "PHRASE")]
    pub(crate) triggers: Option<Vec<String>>,
    /// New folder of the memory
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// New kind of memory
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// New tags, replacing the existing ones; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Option<Vec<String>>,
    /// When it was said or seen, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME")]
    pub(crate) observed_at: Option<TimePoint>,
    /// Start of its validity, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME")]
    pub(crate) valid_from: Option<TimePoint>,
    /// End of its validity, in RFC 3339 or as a date
    #[arg(long, value_name = "TIME")]
    pub(crate) valid_until: Option<TimePoint>,
    /// Remove a trigger phrase that was learned from a validation
    #[arg(long, value_name = "PHRASE")]
    pub(crate) unlearn: Option<String>,
    /// Move it to another project: a directory, a name, an id, or `global` (asks for confirmation)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) move_to: Option<String>,
    /// Agent session; memories quoted in the new text count as used
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory validate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory validate mem-019a8000000070008000000000000001 --useful --session s1
  satiety memory validate mem-019a8000000070008000000000000001 --not-useful

Useful raises confidence by 0.10, not useful lowers it by 0.05. With confidence 0.9 and five validations a memory may be
promoted to a higher tier.")]
pub(crate) struct MemoryValidateArgs {
    /// Id of the memory
    pub(crate) id: String,
    /// Record that it was useful
    #[arg(long, required_unless_present = "not_useful", conflicts_with = "not_useful")]
    pub(crate) useful: bool,
    /// Record that it was not useful
    #[arg(long)]
    pub(crate) not_useful: bool,
    /// Session whose search found it
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory link`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety memory link mem-1 supersedes mem-2")]
pub(crate) struct MemoryLinkArgs {
    /// Id of the memory the link starts from
    pub(crate) from: String,
    /// Link type: caused, enabled, supersedes, contradicts or supports
    pub(crate) kind: String,
    /// Id of the memory the link points to
    pub(crate) to: String,
    /// Remove the link instead
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Options of `memory index`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory index notes

Front matter may have title, tier (up to important), triggers, folder and kind. Only changed files are read, and memories whose
files are gone are deleted. Exits with 1 when a file could not be indexed.")]
pub(crate) struct MemoryIndexArgs {
    /// Directory of Markdown files
    pub(crate) directory: PathBuf,
    /// Keep memories whose files are gone
    #[arg(long)]
    pub(crate) keep_missing: bool,
    /// Make them visible to all projects; asks for confirmation on the terminal
    #[arg(long)]
    pub(crate) global: bool,
}

/// Options of `memory import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory import notes.jsonl
  satiety memory import conversations.json --dry-run
  satiety memory import memory.json --from server-memory --folder people
  satiety memory import sqlite:old.db --all-projects

Formats: jsonl, csv, chatgpt, claude, messages, server-memory, mem0, markdown (a directory), satiety (another database). Records that
cannot be imported are skipped, counted and listed with file and line. If interrupted, the same command continues, and nothing is
stored twice. Texts are searchable by words at once; vectors are made at the end, or by a running server with --no-embed.
Exits with 1 when a record was skipped.")]
pub(crate) struct MemoryImportArgs {
    /// File, directory, or database URL (sqlite:PATH or postgres://…)
    pub(crate) source: String,
    /// Format of the source [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<satiety::memory::ImportFormat>,
    /// Folder to put the memories into
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Name of the source, by which a later import finds its memories again [default: its path]
    #[arg(long, value_name = "NAME")]
    pub(crate) source_name: Option<String>,
    /// Read and check everything, store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave the vectors to a running server or to `memory embed`
    #[arg(long)]
    pub(crate) no_embed: bool,
    /// Make them visible to all projects; asks for confirmation on the terminal
    #[arg(long)]
    pub(crate) global: bool,
}

/// Options of `memory get`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory get mem-019a8000000070008000000000000001 --session s1")]
pub(crate) struct MemoryGetArgs {
    /// Id of the memory
    pub(crate) id: String,
    /// Session whose search found it
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Self-assessment of a task.
#[derive(Debug, Args)]
pub(crate) struct TaskScoreArgs {
    /// Knowledge about the task, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) knowledge: Option<f64>,
    /// Uncertainty about the task, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) uncertainty: Option<f64>,
    /// Completeness of the needed context, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) context: Option<f64>,
}

/// Options of `memory preflight`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory preflight \"mend the import\" --session s1 --knowledge 40 --uncertainty 70 --context 50")]
pub(crate) struct MemoryPreflightArgs {
    /// Description of the task
    pub(crate) task: String,
    /// Task id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) task_id: Option<String>,
    /// Folder the task belongs to
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Agent session [default: a new one]
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) scores: TaskScoreArgs,
    /// Open question about the task; repeatable
    #[arg(long = "gap", value_name = "WHAT")]
    pub(crate) gaps: Vec<String>,
    /// Maximum tokens of the returned context
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Share of the agent's context that is in use, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) usage: Option<f64>,
}

/// Options of `memory postflight`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory postflight success --session s1 --knowledge 80 --uncertainty 30 --useful mem-1
  git diff | satiety memory postflight partial --task-id task-1 --text -

Session results quoted in the text count as used. After a success, used memories learn the words of
the query that found it.")]
pub(crate) struct MemoryPostflightArgs {
    /// Outcome: success, partial, failure or abandoned
    pub(crate) outcome: String,
    /// Task id [default: the session's open task]
    #[arg(long, value_name = "ID", required_unless_present = "session")]
    pub(crate) task_id: Option<String>,
    /// Agent session of the task
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) scores: TaskScoreArgs,
    /// Open question that is now answered; repeatable
    #[arg(long = "gap-closed", value_name = "WHAT")]
    pub(crate) gaps_closed: Vec<String>,
    /// Question that turned out to be open; repeatable
    #[arg(long = "new-gap", value_name = "WHAT")]
    pub(crate) new_gaps: Vec<String>,
    /// Text the task produced, or `-` for standard input
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Id of a memory that helped; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) useful: Vec<String>,
    /// Id of a memory that did not help; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) not_useful: Vec<String>,
    /// Lesson to save, as `TITLE: TEXT`; repeatable
    #[arg(long, value_name = "LESSON")]
    pub(crate) learnt: Vec<String>,
}

/// Options of `memory sessions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory sessions
  satiety memory sessions s1 --format json")]
pub(crate) struct MemorySessionsArgs {
    /// Show this session in full
    pub(crate) session: Option<String>,
    /// Maximum number of sessions
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}
