//! Arguments of `satiety trust`.

use std::path::PathBuf;

use clap::Args;

/// Options of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety trust --show                 # the settings that need trust, and whether the file is trusted
  satiety trust                        # trust the nearest satiety.toml as it is now
  satiety trust ../satiety.toml --revoke
  satiety trust --list

A satiety.toml in the working directory or above may come from a cloned repository. Until it is trusted,
settings that name addresses, commands, files or the store, or weaken a protection, are ignored. Trust applies to one
path and content: a changed file must be trusted again. Files given with --config or SATIETY_CONFIG need no trust (use this
in CI), and neither does satiety/satiety.toml in your configuration directory.")]
pub(crate) struct TrustArgs {
    /// File or its directory [default: the nearest satiety.toml]
    pub(crate) file: Option<PathBuf>,
    /// Show the settings that need trust and change nothing
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) show: bool,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["revoke", "file"])]
    pub(crate) list: bool,
    /// Revoke trust in the file
    #[arg(long)]
    pub(crate) revoke: bool,
}
