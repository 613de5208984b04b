//! What can be typed after `satiety memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What is typed after `satiety memory`.
#[derive(Debug, Args)]
#[command(
    after_help = "Memories belong to the project that they were kept in: the repository around the working directory, or \
that directory. Searches see the project's memories and the global ones."
)]
pub(crate) struct MemoryArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Memory,
    /// The project: a directory such as ./shop, a name, or an id [default: the repository around here]
    #[arg(long, global = true, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Look at the memories of all projects
    #[arg(long, global = true, conflicts_with = "project")]
    pub(crate) all_projects: bool,
}

/// Commands about an agent's memory.
#[derive(Debug, Subcommand)]
pub(crate) enum Memory {
    /// Keep a memory
    Save(MemorySaveArgs),
    /// Search by words, meaning, trigger phrases and causal links
    Search(MemorySearchArgs),
    /// What an agent should know now: a search that fits the room that is left and repeats nothing
    Context(MemorySearchArgs),
    /// Which memories' trigger phrases are said in a text
    Match(MemoryMatchArgs),
    /// Show memories, or one of them whole
    List(MemoryListArgs),
    /// Show one memory whole, with its links; with --session the read is remembered
    Get(MemoryGetArgs),
    /// Change a memory; what is not named stays
    Update(MemoryUpdateArgs),
    /// Forget memories
    #[command(after_help = "Example:\n  satiety memory delete mem-019a8000000070008000000000000001")]
    Delete {
        /// Which
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Say whether a memory was useful
    Validate(MemoryValidateArgs),
    /// Link one memory to another: caused, enabled, supersedes, contradicts, supports
    Link(MemoryLinkArgs),
    /// Begin a task: what the memory knows about it, and how much the agent knows before
    Preflight(MemoryPreflightArgs),
    /// Close a task: how it went, what helped, what was learnt
    Postflight(MemoryPostflightArgs),
    /// Sessions and their tasks, or one of them whole
    Sessions(MemorySessionsArgs),
    /// Bring memories up to date with a folder of Markdown files
    Index(MemoryIndexArgs),
    /// How the memory is: counts, vectors, what cannot be searched
    #[command(
        after_help = "Example:\n  satiety memory health\n\nExits with 3 when a channel cannot be used."
    )]
    Health,
}

/// Options of `memory save`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory save \"Use WAL\" \"Readers never wait for the writer.\" --tier important --trigger \"sqlite locked\"
  git log -1 --format=%B | satiety memory save \"Why the cache went\" - --kind decision --folder gateway")]
pub(crate) struct MemorySaveArgs {
    /// What it is called
    pub(crate) title: String,
    /// What it says, or `-` for standard input
    pub(crate) content: String,
    /// temporary, normal, important, critical or constitutional (always among the first results; a person confirms it)
    #[arg(long, default_value = "normal")]
    pub(crate) tier: String,
    /// A phrase that brings it back; may be given more than once
    #[arg(long = "trigger", value_name = "PHRASE")]
    pub(crate) triggers: Vec<String>,
    /// Where it belongs, such as `store/sqlite`
    #[arg(long, default_value = "")]
    pub(crate) folder: String,
    /// What kind of thing it is
    #[arg(long, default_value = "note")]
    pub(crate) kind: String,
    /// Forget it after so many days; temporary ones go after 7
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires: Option<i64>,
    /// Keep it for all projects; a person confirms that at the terminal
    #[arg(long)]
    pub(crate) global: bool,
    /// The agent's session: memories that the text quotes are remembered as used
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
    /// The question
    pub(crate) query: String,
    /// How deep; auto chooses by the question and by --usage
    #[arg(long, default_value = "auto")]
    pub(crate) mode: MemoryMode,
    /// Results at most
    #[arg(long)]
    pub(crate) limit: Option<usize>,
    /// Tokens of all results
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// How full the agent's context is, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) usage: Option<f64>,
    /// Only this folder and below
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// The agent's session: what it used is raised, and `context` sends nothing twice
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// How channels become one list
    #[arg(long, default_value = "score")]
    pub(crate) fusion: MemoryFusion,
    /// The k of reciprocal-rank fusion
    #[arg(long, default_value_t = 60, value_name = "K")]
    pub(crate) rrf_k: u32,
}

/// How deep a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryMode {
    /// By the question and by the room that is left.
    Auto,
    /// Words and triggers, 5 results.
    Quick,
    /// All channels, 10 results.
    Focused,
    /// All channels, expanded, links followed twice, 20 results.
    Deep,
}

/// How channels become one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryFusion {
    /// The weighted mean of scores.
    Score,
    /// Reciprocal ranks.
    Rrf,
}

/// Options of `memory match`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety memory match \"SQLite locked again\"")]
pub(crate) struct MemoryMatchArgs {
    /// The text, or `-` for standard input
    pub(crate) text: String,
    /// Matches at most
    #[arg(long, default_value_t = 5)]
    pub(crate) limit: usize,
    /// The agent's session: memories that the text quotes are remembered as used
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory list --tier constitutional
  satiety memory list --id mem-019a8000000070008000000000000001")]
pub(crate) struct MemoryListArgs {
    /// One memory, whole
    #[arg(long, conflicts_with_all = ["folder", "tier", "after"])]
    pub(crate) id: Option<String>,
    /// Only this folder and below
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Only this tier
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Memories at most
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Where the page begins: the `next` of the page before
    #[arg(long, default_value_t = 0)]
    pub(crate) after: i64,
}

/// Options of `memory update`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  satiety memory update mem-019a8000000070008000000000000001 --tier critical"
)]
pub(crate) struct MemoryUpdateArgs {
    /// Which memory
    pub(crate) id: String,
    /// Its new title
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Its new text, or `-` for standard input
    #[arg(long)]
    pub(crate) content: Option<String>,
    /// Its new tier
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Its trigger phrases, instead of those that it has; may be given more than once
    #[arg(long = "trigger", value_name = "PHRASE")]
    pub(crate) triggers: Option<Vec<String>>,
    /// Its new folder
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Its new kind
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Take back a phrase that a validation taught it
    #[arg(long, value_name = "PHRASE")]
    pub(crate) unlearn: Option<String>,
    /// Move it to another project: a directory, a name, an id, or `global` (a person confirms that)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) move_to: Option<String>,
    /// The agent's session: memories that the new text quotes are remembered as used
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory validate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory validate mem-019a8000000070008000000000000001 --useful --session s1
  satiety memory validate mem-019a8000000070008000000000000001 --not-useful

Useful raises confidence by 0.10, not useful lowers it by 0.05. From 0.9 and five validations on a memory may be
promoted to a higher tier.")]
pub(crate) struct MemoryValidateArgs {
    /// Which memory
    pub(crate) id: String,
    /// It was useful
    #[arg(long, required_unless_present = "not_useful", conflicts_with = "not_useful")]
    pub(crate) useful: bool,
    /// It was not
    #[arg(long)]
    pub(crate) not_useful: bool,
    /// The session whose search found it
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// Options of `memory link`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  satiety memory link mem-1 supersedes mem-2")]
pub(crate) struct MemoryLinkArgs {
    /// From which memory
    pub(crate) from: String,
    /// caused, enabled, supersedes, contradicts or supports
    pub(crate) kind: String,
    /// To which
    pub(crate) to: String,
    /// Take the link away instead
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Options of `memory index`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory index notes

Front matter may have title, tier (up to important), triggers, folder and kind. Only what changed is read again, and memories whose
files are gone are forgotten. Exits with 1 when a file could not be indexed.")]
pub(crate) struct MemoryIndexArgs {
    /// The folder
    pub(crate) directory: PathBuf,
    /// Keep memories whose files are gone
    #[arg(long)]
    pub(crate) keep_missing: bool,
    /// Keep them for all projects; a person confirms that at the terminal
    #[arg(long)]
    pub(crate) global: bool,
}

/// Options of `memory get`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory get mem-019a8000000070008000000000000001 --session s1")]
pub(crate) struct MemoryGetArgs {
    /// Which memory
    pub(crate) id: String,
    /// The session whose search found it
    #[arg(long)]
    pub(crate) session: Option<String>,
}

/// How much is known about a task.
#[derive(Debug, Args)]
pub(crate) struct TaskScoreArgs {
    /// How much is known about it, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) knowledge: Option<f64>,
    /// How unsure one is, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) uncertainty: Option<f64>,
    /// How much of the needed context is there, from 0 to 100
    #[arg(long, value_name = "SCORE")]
    pub(crate) context: Option<f64>,
}

/// Options of `memory preflight`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety memory preflight \"mend the import\" --session s1 --knowledge 40 --uncertainty 70 --context 50")]
pub(crate) struct MemoryPreflightArgs {
    /// What is to be done
    pub(crate) task: String,
    /// A name for it, instead of a new one
    #[arg(long, value_name = "ID")]
    pub(crate) task_id: Option<String>,
    /// Where it belongs
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// The agent's session, instead of a new one
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) scores: TaskScoreArgs,
    /// Something that is not known yet; may be given more than once
    #[arg(long = "gap", value_name = "WHAT")]
    pub(crate) gaps: Vec<String>,
    /// Tokens that the context may have
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// How full the agent's context is, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) usage: Option<f64>,
}

/// Options of `memory postflight`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory postflight success --session s1 --knowledge 80 --uncertainty 30 --useful mem-1
  git diff | satiety memory postflight partial --task-id task-1 --text -

What the text quotes from results of the session counts as used. After a success, what was used learns the words of
the query that found it.")]
pub(crate) struct MemoryPostflightArgs {
    /// success, partial, failure or abandoned
    pub(crate) outcome: String,
    /// The task, instead of the session's open one
    #[arg(long, value_name = "ID", required_unless_present = "session")]
    pub(crate) task_id: Option<String>,
    /// The agent's session
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) scores: TaskScoreArgs,
    /// Something that is known now; may be given more than once
    #[arg(long = "gap-closed", value_name = "WHAT")]
    pub(crate) gaps_closed: Vec<String>,
    /// Something that turned out to be unknown; may be given more than once
    #[arg(long = "new-gap", value_name = "WHAT")]
    pub(crate) new_gaps: Vec<String>,
    /// What was produced, or `-` for standard input
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// A memory that helped; may be given more than once
    #[arg(long, value_name = "ID")]
    pub(crate) useful: Vec<String>,
    /// A memory that did not; may be given more than once
    #[arg(long, value_name = "ID")]
    pub(crate) not_useful: Vec<String>,
    /// Something to remember, as `TITLE: TEXT`; may be given more than once
    #[arg(long, value_name = "LESSON")]
    pub(crate) learnt: Vec<String>,
}

/// Options of `memory sessions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety memory sessions
  satiety memory sessions s1 --format json")]
pub(crate) struct MemorySessionsArgs {
    /// One session, whole
    pub(crate) session: Option<String>,
    /// Sessions at most
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}
