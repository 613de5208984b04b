//! What can go wrong with a harness, and what to do about it.

use satiety::harness::{
    AmendError, BrokenAt, CycleError, ExpansionError, LockError, ManifestError, ProposalError, SignalError,
};
use thiserror::Error;

/// Why something about the harness was not done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// There is no such folder.
    #[error("there is no folder {path}")]
    NoFolder {
        /// As the user named it.
        path: String,
    },
    /// There are no suites in it.
    #[error("there is no suite below {path}, so there is no harness")]
    NoSuites {
        /// As the user named it.
        path: String,
    },
    /// A file that cannot be read as what it should be.
    #[error("{file}: {reason}")]
    BadFile {
        /// The file as the user named it.
        file: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// A commit that cannot be read.
    #[error("the harness at git revision `{revision}` cannot be read: {reason}")]
    Git {
        /// What was named.
        revision: String,
        /// Git's words.
        reason: String,
    },
    /// A directory that is not in the repository.
    #[error("{path} is not below the top of the repository, {top}")]
    OutsideRepository {
        /// As the user named it.
        path: String,
        /// The top of the repository.
        top: String,
    },
    /// A symbolic link, a submodule or a special file where only files and directories count.
    #[error("cannot read {path}: symbolic links, submodules and special files are not allowed in a harness")]
    Link {
        /// Where it was found.
        path: String,
    },
    /// A lock file that is not what this program wrote.
    #[error("cannot use {file}: {error}")]
    BadLock {
        /// The lock file.
        file: String,
        /// What is wrong with it.
        error: LockError,
    },
    /// Both sides are the same directory.
    #[error("cannot compare {path} with itself")]
    SameTree {
        /// As the user named it.
        path: String,
    },
    /// A step that nobody needs to sign.
    #[error("nothing to sign: the change asks at least as much as the base")]
    NothingToSign,
    /// The files are weaker than the harness that was recorded.
    #[error("the suites on disk are weaker than the recorded harness:\n  {}", objections.join("\n  "))]
    Weaker {
        /// Each weakening.
        objections: Vec<String>,
    },
    /// The files are weaker than their lock file.
    #[error("the suites are weaker than {file}:\n  {}", objections.join("\n  "))]
    WeakerThanLock {
        /// The lock file.
        file: String,
        /// Each weakening.
        objections: Vec<String>,
    },
    /// Options of a gated run that ask less than the lock file.
    #[error("a gate in a locked harness takes no softer options ({file}):\n  {}", flags.join("\n  "))]
    LockedOptions {
        /// The lock file.
        file: String,
        /// The options, with what the harness says.
        flags: Vec<String>,
    },
    /// The files are not those of the recorded version.
    #[error("the files are not those of the recorded version; they are {words}")]
    OtherFiles {
        /// How they differ.
        words: String,
    },
    /// The log is not whole.
    #[error(transparent)]
    Broken(#[from] BrokenAt),
    /// Something in the store is not what the log says it was.
    #[error("the store was changed behind the log's back: {what}")]
    Tampered {
        /// What.
        what: String,
    },
    /// Somebody else was faster.
    #[error("somebody else changed the harness at the same time")]
    Conflict,
    /// The lock file and the anchor are of different harnesses.
    #[error("harness.lock is of harness {lock}, and .harness/anchor.json of {anchor}")]
    Identity {
        /// As the lock file has it.
        lock: String,
        /// As the anchor has it.
        anchor: String,
    },
    /// This store lacks entries that the repository knows.
    #[error("the repository knows {known} entries of this harness's history, and this store has {found}")]
    HistoryMissing {
        /// Up to the anchor.
        known: u64,
        /// In this store.
        found: usize,
    },
    /// The repository lost its anchor.
    #[error(".harness/anchor.json is missing, and this store knows the harness as {harness_id}")]
    AnchorMissing {
        /// As the store knows it.
        harness_id: String,
    },
    /// A branch of the history cannot be begun.
    #[error("cannot begin a new history: {why}")]
    NewHistory {
        /// Why not.
        why: String,
    },
    /// The harness changed since the expansion was opened.
    #[error("expansion {id} starts from version {from}, and the version in force is {in_force}")]
    Stale {
        /// Which.
        id: String,
        /// Where it starts.
        from: String,
        /// What is in force.
        in_force: String,
    },
    /// Files that lead elsewhere.
    #[error("cannot {what} the harness: {path} is a symbolic link or leads through one")]
    LinkedFile {
        /// What was to be done.
        what: &'static str,
        /// Which file.
        path: String,
    },
    /// The files are not those that should be verified.
    #[error("the files are not what was signed: {what}")]
    Changed {
        /// What differs.
        what: String,
    },
    /// An archive that is not restored.
    #[error(transparent)]
    Archive(#[from] satiety::harness::archive::ArchiveError),
    /// Nothing was recorded yet.
    #[error("no harness is recorded in this store yet")]
    Unknown,
    /// Cases that must always pass do not.
    #[error("cases of the regression tier fail: {}", cases.join(", "))]
    RegressionTier {
        /// `suite/case` of each.
        cases: Vec<String>,
    },
    /// Numbers without runs behind them were to begin a new window.
    #[error("metrics from a file cannot begin the window of a changed harness")]
    UnverifiedVersion,
    /// Options that choose what is verified, or how strictly.
    #[error("`satiety harness apply` takes no selection flags: {}", flags.join(", "))]
    Selection {
        /// Each that was given.
        flags: Vec<String>,
    },
    /// Neither runs nor metrics that say anything.
    #[error("there is nothing to record: {why}")]
    NoEvidence {
        /// Why not.
        why: String,
    },
    /// The same runs again.
    #[error("no suite was run since cycle {cycle_id}, so there is nothing new to record")]
    NothingNew {
        /// The newest cycle.
        cycle_id: String,
    },
    /// There is no expansion to work on.
    #[error("no expansion is open")]
    NoExpansion,
    /// There is no expansion of that name.
    #[error("there is no expansion `{0}`")]
    NoSuchExpansion(String),
    /// The expansion is at another point.
    #[error("expansion {id} {state}")]
    Phase {
        /// Which.
        id: String,
        /// Where it stands.
        state: String,
        /// What to do.
        hint: String,
    },
    /// Nothing in the data allows a proposal.
    #[error("nothing can be tightened by rule, and no model was asked")]
    NothingToPropose,
    /// A model's answer that cannot be used.
    #[error("{model} proposed nothing that can be used: {reason}")]
    BadProposal {
        /// Which model.
        model: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A suite that cannot be written to.
    #[error("{suite}: {reason}")]
    NotWritable {
        /// Which.
        suite: String,
        /// Why.
        reason: String,
    },
    /// A new case that nothing could be said about.
    #[error("{case} was run and decided nothing: {reason}")]
    Undecided {
        /// Which.
        case: String,
        /// What happened.
        reason: String,
    },
    /// Nobody may approve.
    #[error("nobody may approve yet: no approver is in {place}")]
    NoApprovers {
        /// The settings file.
        place: String,
    },
    /// The set of approvers changed.
    #[error("the approvers in {place} are not those that the log knows: {difference}")]
    KeysChanged {
        /// The settings file.
        place: String,
        /// In words.
        difference: String,
    },
    /// A key that cannot be made, opened or used.
    #[error("{0}")]
    Key(String),
    /// A manifest that is none.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A proposal that is none.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// A proposal that cannot be carried out.
    #[error(transparent)]
    Amend(#[from] AmendError),
    /// A step that does not fit.
    #[error(transparent)]
    Expansion(#[from] ExpansionError),
    /// A cycle that is none.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// Metrics that are none.
    #[error(transparent)]
    Signal(#[from] SignalError),
}

impl HarnessError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::NoSuites { .. } => "`satiety bench init FOLDER` writes one; name the folder with --harness, or set `harness.folder`",
                Self::Weaker { .. } => "bring the files back (git), or retire a broken case with a replacement: `satiety harness propose`, signed by a person",
                Self::WeakerThanLock { .. } => "bring the files back (git), or an approver signs the step: `satiety harness transition`",
                Self::LockedOptions { .. } => "leave them out, or run without --gate",
                Self::OutsideRepository { .. } => "name a directory of the repository, or run the command inside of it",
                Self::Link { .. } => "put the files themselves there, or move them out of the harness",
                Self::BadLock { .. } => "restore it from version control, or write it again: `satiety harness lock`",
                Self::SameTree { .. } => "name the base as git:REVISION, such as git:origin/main",
                Self::NothingToSign => "`satiety harness check` accepts the change as it is",
                Self::Tampered { .. } | Self::Archive(_) => "restore the store from a backup, and find out who could write to it",
                Self::Identity { .. } => "restore both files from version control",
                Self::HistoryMissing { .. } => "use the store that has the history, or begin a branch of it in this one: `satiety harness record --new-history --why TEXT`",
                Self::AnchorMissing { .. } => "restore it from version control; it is written with every version and belongs there",
                Self::Stale { .. } => "reject it and propose again; what was signed is another harness",
                Self::LinkedFile { .. } => "put a real file or directory in its place",
                Self::Changed { .. } => "`satiety harness status` tells what differs, `satiety harness rollback` brings the archive back",
                Self::Conflict => "run it again",
                Self::Unknown => "`satiety harness record` registers the harness with its first cycle",
                Self::NothingNew { .. } | Self::NoEvidence { .. } => "run the suites first: `satiety bench run --all FOLDER`; runs of chosen cases, of another target or without the sandbox do not count",
                Self::RegressionTier { .. } => "repair the target and run the suite again; nothing was recorded",
                Self::UnverifiedVersion => "run the suites and record that: `satiety bench run --all FOLDER && satiety harness record`",
                Self::Selection { .. } => "what is verified is the whole harness, as it describes itself; leave them out",
                Self::NoExpansion => "one is opened when cycles stay HIGH, or by `satiety harness propose FILE`",
                Self::NoSuchExpansion(_) => "`satiety harness history` lists them",
                Self::Phase { hint, .. } => return Some(hint.clone()),
                Self::NothingToPropose => "give cases a `harder` ladder in their metadata, set thresholds in harness.toml, ask a model with --model, or write proposals yourself: `satiety harness propose FILE`",
                Self::Undecided { .. } => "see to the target and run `satiety harness apply` again; it goes on with this case",
                Self::NoApprovers { .. } => "a person runs `satiety harness keygen --name NAME` and adds the public key it prints",
                Self::KeysChanged { .. } => "whoever could approve before signs the change: `satiety harness keys accept --key FILE`",
                Self::Expansion(ExpansionError::Version { .. }) => "somebody edited the suites; `satiety harness status` tells what differs, `satiety harness rollback` brings the archive back",
                _ => return None,
            }
            .to_owned(),
        )
    }
}
