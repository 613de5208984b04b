//! What can be typed after `satiety harness`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::BenchHowArgs;

/// Commands about the eval harness.
#[derive(Debug, Subcommand)]
pub(crate) enum Harness {
    /// Where the harness stands: saturation, trend, thresholds, and what to do next
    Status(HarnessStatusArgs),
    /// Record a cycle from the runs in the store, or from a file of metrics
    Record(HarnessRecordArgs),
    /// Check that a harness is at least as rigorous as its base; needs no store
    Check(HarnessCheckArgs),
    /// Write `harness.lock`, which covers every byte that decides
    Lock(HarnessLockArgs),
    /// Sign a step to a harness that asks less, from the base to the tree as it is
    Transition(HarnessTransitionArgs),
    /// Print the harness as one value, whose hash is its version
    Manifest(HarnessManifestArgs),
    /// Propose an expansion by rule, and by a model where one is named
    Expand(HarnessExpandArgs),
    /// Propose an expansion from a file, or the retirement of a broken case
    Propose(HarnessProposeArgs),
    /// Sign a proposal: shows what it does to the harness's rigor, and asks
    Approve(HarnessApproveArgs),
    /// Say no to a proposal
    Reject(HarnessEndArgs),
    /// Apply an approved expansion step by step, or go on with one that was interrupted
    Apply(HarnessApplyArgs),
    /// Bring the archived version back while an expansion is being applied
    Rollback(HarnessEndArgs),
    /// What happened to the harness, from its chained log
    History(HarnessHistoryArgs),
    /// Has anybody tampered with the log, the store or the suites?
    Verify(HarnessVerifyArgs),
    /// Make a key for approvals, under a passphrase
    Keygen(HarnessKeygenArgs),
    /// Who may approve; accept a change of that with a key that counted before
    Keys(HarnessKeysArgs),
    /// Verdicts of auditors about cycles
    #[command(subcommand)]
    Audit(HarnessAudit),
}

/// Which harness.
#[derive(Debug, Args)]
pub(crate) struct HarnessFolder {
    /// The folder with the suites and `harness.toml` [env: `SATIETY_HARNESS_FOLDER`]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) harness: Option<PathBuf>,
}

/// Which expansion.
#[derive(Debug, Args)]
pub(crate) struct WhichExpansion {
    /// The expansion [default: the open one]
    #[arg(long, value_name = "ID")]
    pub(crate) expansion: Option<String>,
}

/// Options of `harness status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness status --harness suites
  satiety harness status --format json | jq .action
  satiety harness status --prompt > research-task.md

SATURATED means too easy: make it harder. UNDERPOWERED means too few cases: add more of the same kind.")]
pub(crate) struct HarnessStatusArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Print what research for the open expansion is told, and nothing else
    #[arg(long)]
    pub(crate) prompt: bool,
}

/// Options of `harness record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench run --all suites && satiety harness record --harness suites
  satiety harness record --metrics cycle.json

A file of metrics is {\"metrics\": {\"benchmark_ceiling_rate\": 0.82, \"regression_pass_rate\": 1.0, \"improvement_delta\": 0.03,
\"proposal_pass_rate\": 0.88, \"auditor_unanimous_rate\": 0.92}}, with `cycle_id` and `timestamp` where you have them.

With `harness.record = true` in satiety.toml, `bench run --gate` records a cycle by itself.
Exit 1: the suites on disk are weaker than the recorded harness, or a threshold is missed.")]
pub(crate) struct HarnessRecordArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Metrics in a file, instead of what the store's runs say
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// The cycle's name; the same one twice is recorded once
    #[arg(long, value_name = "ID")]
    pub(crate) cycle: Option<String>,
    /// Begin a branch of the history in a store that does not have it, with the version that the anchor names
    #[arg(long, requires = "why")]
    pub(crate) new_history: bool,
    /// Why a new history begins; it is kept
    #[arg(long, value_name = "TEXT", requires = "new_history")]
    pub(crate) why: Option<String>,
    /// Who begins it [default: you]
    #[arg(long, value_name = "NAME", requires = "new_history")]
    pub(crate) by: Option<String>,
}

/// Options of `harness check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness check git:origin/main suites
  satiety harness check git:v1.2.0:evals/suites suites --format markdown
  satiety harness check released.lock suites

OLD is git:REVISION[:DIRECTORY] (read from git objects; DIRECTORY is relative to the top of the repository), a directory, a
lock file, or a file that `satiety harness manifest` wrote. NEW is a directory, or git:REVISION[:DIRECTORY].
Only keys of OLD count. Exit 0: at least as rigorous, or an approver signed exactly this step. Exit 1: refused, with each reason.")]
pub(crate) struct HarnessCheckArgs {
    /// The base
    pub(crate) old: String,
    /// The change
    pub(crate) new: String,
    /// Accept the first approver keys of a harness that had none
    #[arg(long)]
    pub(crate) accept_first_keys: bool,
}

/// Options of `harness lock`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness lock --harness suites
  satiety harness lock --check

Commit `harness.lock` with the suites. It covers cases, fixtures, thresholds, repeats, timeouts, tiers, judges, baselines, target
descriptions, trusted keys and the sandbox requirement. Exit 1: the tree is weaker than the lock file, or with --check: not current.")]
pub(crate) struct HarnessLockArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Compare only: exit 1 when the lock file does not describe the tree
    #[arg(long)]
    pub(crate) check: bool,
}

/// Options of `harness transition`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness transition --base git:origin/main --key ~/.config/satiety/anna.key --reason \"case 12 contradicts the spec\"

Make the change in the working tree first. Shows every weakening and each case before and after, asks for the first letters of the
hash and for the passphrase on the terminal, and writes `.harness/transitions/ID.json`: commit it with the change. It is good
for exactly this step, once, until it expires. `satiety harness check` accepts it when the key is one of the base's.")]
pub(crate) struct HarnessTransitionArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// The base, as for `harness check`
    #[arg(long, value_name = "OLD", default_value = "git:HEAD")]
    pub(crate) base: String,
    /// Your key, from `satiety harness keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Why the harness must change in this way
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Days until it expires, at most 30
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub(crate) valid_for: u8,
}

/// Options of `harness manifest`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness manifest --harness suites > released.json")]
pub(crate) struct HarnessManifestArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
}

/// Options of `harness expand`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness expand
  satiety harness expand --model anthropic:claude-sonnet-5
  satiety harness expand --dry-run --yaml > proposals.yaml

By rule: thresholds where the last five results leave room, and harder variants of cases that every version passes: the next
rung of the ladder in a case's metadata (`harder`), or a tighter bound. A model is given the brief; what it proposes is
checked item by item, and nothing is applied before a person has signed it.")]
pub(crate) struct HarnessExpandArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Also ask a chat model: ollama:MODEL, openai:MODEL or anthropic:MODEL
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only show what would be proposed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the proposals as YAML, in the form that `propose` reads
    #[arg(long)]
    pub(crate) yaml: bool,
    /// Who asks for it [default: you]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `harness propose`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness propose proposals.yaml
  satiety harness propose retire-flaky-date.yaml --by anna

The file has `expansion_proposals` with threshold_increases, new_benchmarks, new_edge_cases and retirements; docs/harness.md
shows one. Whatever would weaken the harness is refused here already, with exit 1.")]
pub(crate) struct HarnessProposeArgs {
    /// YAML, JSON or TOML
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Who proposes [default: you]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `harness approve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness approve --key ~/.config/satiety/anna.key
  satiety harness approve --key anna.key --only-sign approval.json
  satiety harness approve --signed approval.json

Shows the change of rigor, asks for the first letters of the proposal's hash and for the passphrase, both on the terminal:
a script cannot answer. The signature is good for this proposal alone, once, and for a limited time.")]
pub(crate) struct HarnessApproveArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Your key, from `satiety harness keygen`
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "signed",
        conflicts_with = "signed"
    )]
    pub(crate) key: Option<PathBuf>,
    /// Sign and write the approval to a file instead of using it here
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) only_sign: Option<PathBuf>,
    /// Use an approval that was signed elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) signed: Option<PathBuf>,
    /// For how many days it is good, at most 30
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub(crate) valid_for: u8,
}

/// Options of `harness reject` and `harness rollback`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness reject --reason \"the new cases test the judge, not the agent\"
  satiety harness rollback --reason \"the deployment froze\"

Rejecting ends a proposal that waits. Rolling back restores the archive of the expansion that is being applied; what is
committed stays: the ratchet turns one way.")]
pub(crate) struct HarnessEndArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Why; it is kept
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who [default: you]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `harness apply`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness apply
  satiety harness apply --harness suites -j 8

The whole harness is verified, as it describes itself: no cases, repeats, timeouts or cached answers can be chosen. Archive, thresholds, new cases disabled, enabled one at a time and run, everything verified at baseline, committed, logged.
When more than half of the new cases fail at once, the archive is restored. Ctrl-C or a crash loses nothing: run it again.
Exit 0: applied. Exit 1: rolled back.")]
// Options that would choose what is verified are taken, so that the refusal can say why, and not shown.
#[command(
    mut_arg("judge", |arg| arg.help("A chat model that judges; may be repeated")),
    mut_arg("sandbox", |arg| arg.help("Run processes in the sandbox")),
    mut_args(|arg| {
        let refused = ["cases", "timeout", "no_sandbox", "cache", "seed"].contains(&arg.get_id().as_str());
        if refused { arg.hide(true) } else { arg }
    })
)]
pub(crate) struct HarnessApplyArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// What to run where a suite does not describe its target
    #[arg(long, short, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) how: BenchHowArgs,
    #[command(flatten)]
    pub(crate) refused: RefusedSelection,
}

/// Further options of `bench run` that `harness apply` refuses.
#[derive(Debug, Args)]
pub(crate) struct RefusedSelection {
    /// Refused: every case is verified
    #[arg(long, value_name = "TAG", hide = true)]
    pub(crate) tag: Vec<String>,
    /// Refused: the suites say how often a case is run
    #[arg(long, short = 'n', value_name = "N", hide = true)]
    pub(crate) repeats: Option<u32>,
}

/// Options of `harness history`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness history
  satiety harness history --limit 100 --format json
  satiety harness history --key eval-harness/saturation/aggregate")]
pub(crate) struct HarnessHistoryArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// The newest so many events
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print a record by its key instead: eval-harness/saturation/aggregate, …/cycles/ID, …/expansions/ID
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

/// Options of `harness verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness verify --harness suites
  satiety harness verify --anchor 41:9f2c…

Checks the chain, everything that it vouches for, and the suites on disk. A log that was cut off at its end, or written anew
as a whole, shows only against an anchor: one you give, or `.harness/anchor.json` beside the suites, which is written with
every version and belongs under version control. Exit 1: something was tampered with.")]
pub(crate) struct HarnessVerifyArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// A known entry of the log, as NUMBER:HASH
    #[arg(long, value_name = "ANCHOR")]
    pub(crate) anchor: Option<String>,
}

/// Options of `harness keygen`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness keygen --name anna --output ~/.config/satiety/anna.key

Asks for a passphrase on the terminal, writes the key for you alone, and prints what to put into the repository's
satiety.toml. Protect that file: who can change it unseen can add a key.")]
pub(crate) struct HarnessKeygenArgs {
    /// Whose key it is
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Where it is written; nothing is written over [default: NAME.key]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `harness keys`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness keys
  satiety harness keys --accept --key anna.key

The keys are those of the nearest satiety.toml at or above the harness; no flag and no environment variable adds one. A change
counts once somebody whose key was known before has signed it.")]
pub(crate) struct HarnessKeysArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Sign the keys as they are now
    #[arg(long, requires = "key")]
    pub(crate) accept: bool,
    /// A key that counted before
    #[arg(long, value_name = "FILE", requires = "accept")]
    pub(crate) key: Option<PathBuf>,
}

/// Commands about auditors.
#[derive(Debug, Subcommand)]
pub(crate) enum HarnessAudit {
    /// Keep an auditor's verdict about a cycle
    Add(HarnessAuditAddArgs),
    /// What auditors said, newest first
    #[command(after_help = "Example:\n  satiety harness audit list")]
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
}

/// Options of `harness audit add`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness audit add --auditor security --accept
  satiety harness audit add --auditor quality --reject --note \"two cases leak their answers\" --cycle cycle-42")]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct HarnessAuditAddArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Who
    #[arg(long, value_name = "NAME")]
    pub(crate) auditor: String,
    /// The auditor accepts
    #[arg(long, group = "verdict")]
    pub(crate) accept: bool,
    /// The auditor does not
    #[arg(long, group = "verdict")]
    pub(crate) reject: bool,
    /// The cycle [default: the newest]
    #[arg(long, value_name = "ID")]
    pub(crate) cycle: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) note: String,
}
