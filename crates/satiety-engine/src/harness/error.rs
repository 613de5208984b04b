//! Errors of harness operations, with hints.

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
    /// The expansion is in the wrong phase for the operation.
    #[error("expansion {id} {state}")]
    Phase {
        id: String,
        /// Predicate that completes "expansion ID …".
        state: String,
        hint: String,
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
    pub(crate) fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::NoSuites { .. } => "`satiety bench init DIR` creates one; pass the directory with --harness, or set `harness.folder`",
                Self::Weaker { .. } => "restore the files (git), or retire a broken case with a replacement: `satiety harness propose`, signed by a person",
                Self::WeakerThanLock { .. } => "restore the files (git), or let an approver sign the step: `satiety harness transition`",
                Self::LockedOptions { .. } => "remove them, or run without --gate",
                Self::OutsideRepository { .. } => "pass a directory in the repository, or run the command inside it",
                Self::Link { .. } => "replace them by regular files, or move them out of the harness",
                Self::BadLock { .. } => "restore it from version control, or write it again: `satiety harness lock`",
                Self::SameTree { .. } => "pass the base as git:REVISION, such as git:origin/main",
                Self::NothingToSign => "`satiety harness check` accepts the change as it is",
                Self::Tampered { .. } | Self::Archive(_) => "restore the database from a backup, and find out who has write access",
                Self::Identity { .. } => "restore both files from version control",
                Self::HistoryMissing { .. } => "use the database with the history, or start a branch of it in this one: `satiety harness record --new-history --why TEXT`",
                Self::AnchorMissing { .. } => "restore it from version control; it is written with every version and must be committed",
                Self::Stale { .. } => "reject it and propose again; the signature is for another version",
                Self::LinkedFile { .. } => "replace it by a regular file or directory",
                Self::Changed { .. } => "`satiety harness status` shows the differences, `satiety harness rollback` restores the archive",
                Self::Conflict => "run it again",
                Self::Unknown => "`satiety harness record` registers the harness with its first cycle",
                Self::NothingNew { .. } | Self::NoEvidence { .. } => "run the suites first: `satiety bench run --all DIR`; runs of selected cases, of another target or without the sandbox do not count",
                Self::RegressionTier { .. } => "repair the target and run the suite again; nothing was recorded",
                Self::UnverifiedVersion => "run the suites and record a cycle: `satiety bench run --all DIR && satiety harness record`",
                Self::Selection { .. } => "remove them; the whole harness is verified, as it describes itself",
                Self::NoExpansion => "an expansion is opened when cycles stay HIGH, or by `satiety harness propose FILE`",
                Self::NoSuchExpansion(_) => "`satiety harness history` lists them",
                Self::Phase { hint, .. } => return Some(hint.clone()),
                Self::NothingToPropose => "add a `harder` ladder to the metadata of cases, set thresholds in harness.toml, use a model with --model, or write proposals yourself: `satiety harness propose FILE`",
                Self::Undecided { .. } => "fix the target and run `satiety harness apply` again; it resumes with this case",
                Self::NoApprovers { .. } => "a person must run `satiety harness keygen --name NAME` and add the printed public key",
                Self::KeysChanged { .. } => "a previous approver must sign the change: `satiety harness keys accept --key FILE`",
                Self::Expansion(ExpansionError::Version { .. }) => "the suites were edited; `satiety harness status` shows the differences, `satiety harness rollback` restores the archive",
                _ => return None,
            }
            .to_owned(),
        )
    }
}
