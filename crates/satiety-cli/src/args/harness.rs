//! Arguments of `satiety harness`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::BenchHowArgs;

/// Subcommands of `harness`.
#[derive(Debug, Subcommand)]
pub(crate) enum Harness {
    /// Show saturation, trend, thresholds and the next step
    Status(HarnessStatusArgs),
    /// Record a cycle from the runs in the store, or from a metrics file
    Record(HarnessRecordArgs),
    /// Check that a harness is at least as rigorous as its base; needs no store
    Check(HarnessCheckArgs),
    /// Write `harness.lock`, which covers every byte that affects a result
    Lock(HarnessLockArgs),
    /// Sign a weakening of the harness, from the base to the current tree
    Transition(HarnessTransitionArgs),
    /// Print the harness as one value, whose hash is its version
    Manifest(HarnessManifestArgs),
    /// Propose an expansion by rules, and optionally with a model
    Expand(HarnessExpandArgs),
    /// Propose an expansion from a file, or the retirement of a broken case
    Propose(HarnessProposeArgs),
    /// Review how a proposal changes the harness's rigor, and sign it
    Approve(HarnessApproveArgs),
    /// Reject a proposal
    Reject(HarnessEndArgs),
    /// Apply an approved expansion step by step, or resume an interrupted one
    Apply(HarnessApplyArgs),
    /// Restore the archived version while an expansion is being applied
    Rollback(HarnessEndArgs),
    /// Show the harness's events from its hash-chained log
    History(HarnessHistoryArgs),
    /// Check the log, the store and the suites for tampering
    Verify(HarnessVerifyArgs),
    /// Create a signing key for approvals, protected by a passphrase
    Keygen(HarnessKeygenArgs),
    /// Show who may approve; accept a key change with a previously trusted key
    Keys(HarnessKeysArgs),
    /// Record and list auditor verdicts on cycles
    #[command(subcommand)]
    Audit(HarnessAudit),
}

/// Location of the harness.
#[derive(Debug, Args)]
pub(crate) struct HarnessFolder {
    /// Directory with the suites and `harness.toml` [env: `SATIETY_HARNESS_FOLDER`]
    #[arg(long, value_name = "DIR")]
    pub(crate) harness: Option<PathBuf>,
}

/// Selection of an expansion.
#[derive(Debug, Args)]
pub(crate) struct WhichExpansion {
    /// Id of the expansion [default: the open one]
    #[arg(long, value_name = "ID")]
    pub(crate) expansion: Option<String>,
}

/// Options of `harness status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness status --harness suites
  satiety harness status --format json | jq .action
  satiety harness status --prompt > research-task.md

SATURATED means too easy: make it harder. UNDERPOWERED means too few cases: add similar ones.")]
pub(crate) struct HarnessStatusArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Print only the research prompt of the open expansion
    #[arg(long)]
    pub(crate) prompt: bool,
}

/// Options of `harness record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety bench run --all suites && satiety harness record --harness suites
  satiety harness record --metrics cycle.json

A file of metrics is {\"metrics\": {\"benchmark_ceiling_rate\": 0.82, \"regression_pass_rate\": 1.0, \"improvement_delta\": 0.03,
\"proposal_pass_rate\": 0.88, \"auditor_unanimous_rate\": 0.92}}, and optionally `cycle_id` and `timestamp`.

With `harness.record = true` in satiety.toml, `bench run --gate` records a cycle automatically.
Exit 1: the suites on disk are weaker than the recorded harness, or a threshold is missed.")]
pub(crate) struct HarnessRecordArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// File with metrics, used instead of the runs in the store
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Id of the cycle; recording the same id twice has no effect
    #[arg(long, value_name = "ID")]
    pub(crate) cycle: Option<String>,
    /// Start a new history in a store without one, at the version named by the anchor
    #[arg(long, requires = "why")]
    pub(crate) new_history: bool,
    /// Reason recorded for the new history
    #[arg(long, value_name = "TEXT", requires = "new_history")]
    pub(crate) why: Option<String>,
    /// Name recorded for the new history [default: $USER]
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
Only the keys in OLD are trusted. Exit 0: at least as rigorous, or an approver signed exactly this step. Exit 1: refused, with each reason.")]
pub(crate) struct HarnessCheckArgs {
    /// Base to compare with
    pub(crate) old: String,
    /// Changed harness
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
descriptions, trusted keys and the sandbox requirement. Exit 1: the tree is weaker than the lock file or, with --check, the lock is stale.")]
pub(crate) struct HarnessLockArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Compare only: exit with 1 when the lock file does not match the tree
    #[arg(long)]
    pub(crate) check: bool,
}

/// Options of `harness transition`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness transition --base git:origin/main --key ~/.config/satiety/anna.key --reason \"case 12 contradicts the spec\"

Make the change in the working tree first. Shows every weakening and each case before and after, asks for the first letters of the
hash and for the passphrase on the terminal, and writes `.harness/transitions/ID.json`: commit it with the change. It is valid
for exactly this step, once, until it expires. `satiety harness check` accepts it when the key is one of the base's.")]
pub(crate) struct HarnessTransitionArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Base, as in `harness check`
    #[arg(long, value_name = "OLD", default_value = "git:HEAD")]
    pub(crate) base: String,
    /// Your key file, from `satiety harness keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Reason for weakening the harness
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Days until the signature expires, at most 30
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

Rules raise thresholds that the last five results clear, and add harder variants of cases that every version passes: the next
rung of the ladder in a case's metadata (`harder`), or a tighter bound. With --model, a model also gets the brief; its proposals are
validated item by item. Nothing is applied before a person signs it.")]
pub(crate) struct HarnessExpandArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Also ask a chat model: ollama:MODEL, openai:MODEL or anthropic:MODEL
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Print the proposals without storing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the proposals as YAML, in the format that `propose` reads
    #[arg(long)]
    pub(crate) yaml: bool,
    /// Name recorded as the requester [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `harness propose`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness propose proposals.yaml
  satiety harness propose retire-flaky-date.yaml --by anna

The file has `expansion_proposals` with threshold_increases, new_benchmarks, new_edge_cases and retirements; docs/guides/harness.md
shows an example. A proposal that would weaken the harness is refused with exit 1.")]
pub(crate) struct HarnessProposeArgs {
    /// Proposal file: YAML, JSON or TOML
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Name recorded as the proposer [default: $USER]
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
a script cannot answer. The signature is valid for this proposal only, once, and for a limited time.")]
pub(crate) struct HarnessApproveArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Your key file, from `satiety harness keygen`
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "signed",
        conflicts_with = "signed"
    )]
    pub(crate) key: Option<PathBuf>,
    /// Sign and write the approval to this file instead of using it here
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) only_sign: Option<PathBuf>,
    /// Use an approval that was signed elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) signed: Option<PathBuf>,
    /// Days until the approval expires, at most 30
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub(crate) valid_for: u8,
}

/// Options of `harness reject` and `harness rollback`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness reject --reason \"the new cases test the judge, not the agent\"
  satiety harness rollback --reason \"the deployment froze\"

Rejecting closes a pending proposal. Rolling back restores the archive of the expansion being applied. A committed
expansion cannot be rolled back.")]
pub(crate) struct HarnessEndArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    #[command(flatten)]
    pub(crate) which: WhichExpansion,
    /// Reason recorded in the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Name recorded in the history [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `harness apply`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness apply
  satiety harness apply --harness suites -j 8

The whole harness is verified as configured: cases, repeats, timeouts and cached answers cannot be selected. Steps: archive,
raise thresholds, add the new cases disabled, enable and run them one at a time, verify everything at baseline, commit, log.
When more than half of the new cases fail, the archive is restored. After Ctrl-C or a crash, run it again to resume.
Exit 0: applied. Exit 1: rolled back.")]
// Flags that would select what is verified are accepted, so that the error can explain the refusal, but
// hidden.
#[command(
    mut_arg("judge", |arg| arg.help("Chat model that judges answers; repeatable")),
    mut_arg("sandbox", |arg| arg.help("Require a sandbox for the target's processes")),
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
    /// Target for suites that do not define their own
    #[arg(long, short, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) how: BenchHowArgs,
    #[command(flatten)]
    pub(crate) refused: RefusedSelection,
}

/// Options of `bench run` that `harness apply` refuses.
#[derive(Debug, Args)]
pub(crate) struct RefusedSelection {
    /// Refused: every case is verified
    #[arg(long, value_name = "TAG", hide = true)]
    pub(crate) tag: Vec<String>,
    /// Refused: the suites set the number of repeats
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
    /// Maximum number of events, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print the record with this key instead: eval-harness/saturation/aggregate, …/cycles/ID,
    /// …/expansions/ID
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

/// Options of `harness verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness verify --harness suites
  satiety harness verify --anchor 41:9f2c…

Checks the hash chain, everything it covers, and the suites on disk. A log that was truncated, or rewritten
entirely, can be detected only with an anchor: --anchor, or `.harness/anchor.json` next to the suites, which is written with
every version and belongs in version control. Exit 1: tampering detected.")]
pub(crate) struct HarnessVerifyArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Known log entry, as NUMBER:HASH
    #[arg(long, value_name = "ANCHOR")]
    pub(crate) anchor: Option<String>,
}

/// Options of `harness keygen`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  satiety harness keygen --name anna --output ~/.config/satiety/anna.key

Asks for a passphrase on the terminal, writes a key file that only you can read, and prints the lines to add to the repository's
satiety.toml. Protect that file: anyone who can change it unnoticed can add a key.")]
pub(crate) struct HarnessKeygenArgs {
    /// Name of the key's owner
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Key file to write; never overwritten [default: NAME.key]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `harness keys`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety harness keys
  satiety harness keys --accept --key anna.key

The keys are those of the nearest satiety.toml at or above the harness; no flag or environment variable adds one. A change
takes effect once it is signed with a previously trusted key.")]
pub(crate) struct HarnessKeysArgs {
    #[command(flatten)]
    pub(crate) folder: HarnessFolder,
    /// Sign the current keys
    #[arg(long, requires = "key")]
    pub(crate) accept: bool,
    /// Previously trusted key file
    #[arg(long, value_name = "FILE", requires = "accept")]
    pub(crate) key: Option<PathBuf>,
}

/// Subcommands of `harness audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum HarnessAudit {
    /// Record an auditor's verdict on a cycle
    Add(HarnessAuditAddArgs),
    /// List auditor verdicts, newest first
    #[command(after_help = "Example:\n  satiety harness audit list")]
    List {
        /// Maximum number of verdicts
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
    /// Name of the auditor
    #[arg(long, value_name = "NAME")]
    pub(crate) auditor: String,
    /// Record that the auditor accepts the cycle
    #[arg(long, group = "verdict")]
    pub(crate) accept: bool,
    /// Record that the auditor rejects the cycle
    #[arg(long, group = "verdict")]
    pub(crate) reject: bool,
    /// Id of the cycle [default: the newest]
    #[arg(long, value_name = "ID")]
    pub(crate) cycle: Option<String>,
    /// Note recorded with the verdict
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) note: String,
}
