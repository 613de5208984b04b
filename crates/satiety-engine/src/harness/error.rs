//! Errors of harness operations, with hints.

use satiety::Hint;
use satiety::harness::{
    AmendError, BrokenAt, CycleError, ExpansionError, LockError, ManifestError, ProposalError, SignalError,
};
use thiserror::Error;

/// Error of a harness operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    #[error("directory not found: {path}")]
    NoFolder {
        /// Path as given by the user.
        path: String,
    },
    /// The directory contains no suites.
    #[error("no suite found below {path}")]
    NoSuites {
        /// Path as given by the user.
        path: String,
    },
    /// A file that cannot be parsed.
    #[error("{file}: {reason}")]
    BadFile {
        /// Path as given by the user.
        file: String,
        reason: String,
    },
    #[error("cannot read the harness at git revision `{revision}`: {reason}")]
    Git {
        revision: String,
        /// Message of git.
        reason: String,
    },
    #[error("{path} is outside the repository {top}")]
    OutsideRepository {
        /// Path as given by the user.
        path: String,
        /// Top directory of the repository.
        top: String,
    },
    /// A symbolic link, a submodule or a special file in a harness.
    #[error("cannot read {path}: symbolic links, submodules and special files are not allowed in a harness")]
    Link { path: String },
    /// A lock file that was not written by this program.
    #[error("cannot use {file}: {error}")]
    BadLock { file: String, error: LockError },
    #[error("cannot compare {path} with itself")]
    SameTree {
        /// Path as given by the user.
        path: String,
    },
    /// A transition that requires no signature.
    #[error("nothing to sign: the change is at least as rigorous as the base")]
    NothingToSign,
    #[error("the suites on disk are weaker than the recorded harness:\n  {}", objections.join("\n  "))]
    Weaker {
        /// One entry per weakening.
        objections: Vec<String>,
    },
    #[error("the suites are weaker than {file}:\n  {}", objections.join("\n  "))]
    WeakerThanLock {
        file: String,
        /// One entry per weakening.
        objections: Vec<String>,
    },
    /// Options of a gated run that are weaker than the lock file.
    #[error("cannot accept run {run}: suite {suite} belongs to a locked harness")]
    LockedBaseline { run: String, suite: String },
    #[error("cannot gate a locked harness with weaker options ({file}):\n  {}", flags.join("\n  "))]
    LockedOptions {
        file: String,
        /// The options, with the values that the harness requires.
        flags: Vec<String>,
    },
    #[error("the files differ from the recorded version; they are {words}")]
    OtherFiles {
        /// Description of the differences.
        words: String,
    },
    /// The hash chain of the log is broken.
    #[error(transparent)]
    Broken(#[from] BrokenAt),
    /// Stored data that does not match the log.
    #[error("the database was modified outside the log: {what}")]
    Tampered { what: String },
    /// Concurrent modification.
    #[error("the harness was changed concurrently")]
    Conflict,
    /// The lock file and the anchor belong to different harnesses.
    #[error("harness.lock belongs to harness {lock}, but .harness/anchor.json to {anchor}")]
    Identity {
        /// Id in the lock file.
        lock: String,
        /// Id in the anchor file.
        anchor: String,
    },
    /// This database lacks log entries that the repository refers to.
    #[error(
        "the repository refers to {known} entries of this harness's history, but this database has {found}"
    )]
    HistoryMissing {
        /// Number of entries up to the anchor.
        known: u64,
        /// Number of entries in this database.
        found: usize,
    },
    /// The anchor file is missing in the repository.
    #[error(".harness/anchor.json is missing, but this database has the harness as {harness_id}")]
    AnchorMissing {
        /// Id in the database.
        harness_id: String,
    },
    /// A branch of the history cannot be started.
    #[error("cannot start a new history: {why}")]
    NewHistory { why: String },
    /// The harness changed after the expansion was opened.
    #[error("expansion {id} starts from version {from}, but the active version is {in_force}")]
    Stale {
        id: String,
        /// Version that the expansion starts from.
        from: String,
        /// Active version.
        in_force: String,
    },
    /// A path that is a symbolic link or leads through one.
    #[error("cannot {what} the harness: {path} is a symbolic link or leads through one")]
    LinkedFile {
        /// Verb that completes "cannot … the harness".
        what: &'static str,
        path: String,
    },
    /// The files changed after they were signed.
    #[error("the files differ from the signed version: {what}")]
    Changed {
        /// Description of the differences.
        what: String,
    },
    /// An archive that cannot be restored.
    #[error(transparent)]
    Archive(#[from] satiety::harness::archive::ArchiveError),
    #[error("no harness is recorded in this database yet")]
    Unknown,
    /// Regression-tier cases fail.
    #[error("cases of the regression tier fail: {}", cases.join(", "))]
    RegressionTier {
        /// `suite/case` of each.
        cases: Vec<String>,
    },
    /// Metrics from a file cannot start a new window.
    #[error("cannot start the window of a changed harness with metrics from a file")]
    UnverifiedVersion,
    /// Options that select what is verified, or how strictly.
    #[error("`satiety harness apply` does not accept selection flags: {}", flags.join(", "))]
    Selection {
        /// The given flags.
        flags: Vec<String>,
    },
    /// Neither runs nor metrics with evidence.
    #[error("nothing to record: {why}")]
    NoEvidence { why: String },
    /// No new runs since the last cycle.
    #[error("nothing to record: no suite was run since cycle {cycle_id}")]
    NothingNew {
        /// The newest cycle.
        cycle_id: String,
    },
    #[error("no expansion is open")]
    NoExpansion,
    #[error("expansion `{0}` not found")]
    NoSuchExpansion(String),
    #[error("cycle `{0}` not found")]
    NoSuchCycle(String),
    /// The expansion is in the wrong phase for the operation.
    #[error("expansion {id} {state}")]
    Phase {
        id: String,
        /// Predicate that completes "expansion ID …".
        state: String,
        hint: Hint,
    },
    /// No data supports a proposal by rule.
    #[error("no proposal: nothing can be tightened by rule, and no model was given")]
    NothingToPropose,
    /// A model response without a usable proposal.
    #[error("no usable proposal from {model}: {reason}")]
    BadProposal { model: String, reason: String },
    /// A suite that a proposal cannot be written to.
    #[error("{suite}: {reason}")]
    NotWritable { suite: String, reason: String },
    /// A new case without any decided result.
    #[error("{case} was run without a decided result: {reason}")]
    Undecided { case: String, reason: String },
    /// No approver is configured.
    #[error("no approver configured in {place}")]
    NoApprovers {
        /// Path of the settings file.
        place: String,
    },
    /// The set of approvers changed without a signature.
    #[error("the approvers in {place} differ from those in the log: {difference}")]
    KeysChanged {
        /// Path of the settings file.
        place: String,
        /// Description of the difference.
        difference: String,
    },
    /// A key that cannot be created, opened or used.
    #[error("{0}")]
    Key(String),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// A proposal that cannot be applied.
    #[error(transparent)]
    Amend(#[from] AmendError),
    /// A step that does not fit the phase of an expansion.
    #[error(transparent)]
    Expansion(#[from] ExpansionError),
    #[error(transparent)]
    Cycle(#[from] CycleError),
    #[error(transparent)]
    Signal(#[from] SignalError),
}

impl HarnessError {
    pub(crate) fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoSuites { .. } => Hint::with_command(
                "create a suite, or pass the directory of one (`harness.folder`)",
                "satiety bench init DIR",
            ),
            Self::Weaker { .. } => Hint::with_command(
                "restore the files (git), or retire a broken case with a replacement, signed by a person",
                "satiety harness propose",
            ),
            Self::WeakerThanLock { .. } => Hint::with_command(
                "restore the files (git), or let an approver sign the step",
                "satiety harness transition",
            ),
            Self::LockedOptions { .. } => Hint::new("remove them, or run without the gate"),
            Self::LockedBaseline { .. } => Hint::with_command(
                "accept it in a checkout of the harness, and sign the change",
                "satiety bench baseline RUN --suite SUITE --reason TEXT",
            ),
            Self::OutsideRepository { .. } => {
                Hint::new("pass a directory in the repository, or run the command inside it")
            }
            Self::Link { .. } => Hint::new("replace them by regular files, or move them out of the harness"),
            Self::BadLock { .. } => Hint::with_command(
                "restore it from version control, or write it again",
                "satiety harness lock",
            ),
            Self::SameTree { .. } => Hint::new("pass the base as git:REVISION, such as git:origin/main"),
            Self::NothingToSign => {
                Hint::with_command("the check accepts the change as it is", "satiety harness check")
            }
            Self::Tampered { .. } | Self::Archive(_) => {
                Hint::new("restore the database from a backup, and find out who has write access")
            }
            Self::Identity { .. } => Hint::new("restore both files from version control"),
            Self::HistoryMissing { .. } => Hint::with_command(
                "use the database with the history, or start a branch of it in this one",
                "satiety harness record --new-history --why TEXT",
            ),
            Self::AnchorMissing { .. } => Hint::new(
                "restore it from version control; it is written with every version and must be committed",
            ),
            Self::Stale { .. } => {
                Hint::new("reject it and propose again; the signature is for another version")
            }
            Self::LinkedFile { .. } => Hint::new("replace it by a regular file or directory"),
            Self::Changed { .. } => Hint::with_command(
                "compare the files with the archive, or restore it",
                "satiety harness rollback",
            ),
            Self::Conflict => Hint::new("run it again"),
            Self::Unknown => Hint::with_command(
                "register the harness with its first cycle",
                "satiety harness record",
            ),
            Self::NothingNew { .. } | Self::NoEvidence { .. } => Hint::with_command(
                "run the suites first; runs of selected cases, of another target or without the sandbox do not count",
                "satiety bench run --all DIR",
            ),
            Self::RegressionTier { .. } => {
                Hint::new("repair the target and run the suite again; nothing was recorded")
            }
            Self::UnverifiedVersion => Hint::with_command(
                "run the suites and record a cycle",
                "satiety bench run --all DIR && satiety harness record",
            ),
            Self::Selection { .. } => {
                Hint::new("remove them; the whole harness is verified, as it describes itself")
            }
            Self::NoExpansion => Hint::with_command(
                "an expansion is opened when cycles stay HIGH, or by a proposal",
                "satiety harness propose FILE",
            ),
            Self::NoSuchExpansion(_) => Hint::with_command("list the expansions", "satiety harness history"),
            Self::NoSuchCycle(_) => Hint::with_command("list the cycles", "satiety harness history"),
            Self::Phase { hint, .. } => hint.clone(),
            Self::NothingToPropose => Hint::with_command(
                "add a `harder` ladder to the metadata of cases, set thresholds in harness.toml, use a model, or write proposals yourself",
                "satiety harness propose FILE",
            ),
            Self::Undecided { .. } => Hint::with_command(
                "fix the target and apply the expansion again; it resumes with this case",
                "satiety harness apply",
            ),
            Self::NoApprovers { .. } => Hint::with_command(
                "a person must create a key and add the printed public key",
                "satiety harness keygen --name NAME",
            ),
            Self::KeysChanged { .. } => Hint::with_command(
                "a previous approver must sign the change",
                "satiety harness keys --key FILE",
            ),
            Self::Expansion(ExpansionError::Version { .. }) => Hint::with_command(
                "the suites were edited; compare them with the archive, or restore it",
                "satiety harness rollback",
            ),
            _ => return None,
        })
    }
}
