//! What can be typed after `satiety trust`.

use std::path::PathBuf;

use clap::Args;

/// Options of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety trust --show                 the settings that need trust, and whether the file has it
  satiety trust                        trust the nearest satiety.toml as it is now
  satiety trust ../satiety.toml --revoke
  satiety trust --list

A satiety.toml that is found upwards from the working directory may come with a cloned repository. Until it is trusted,
its settings that name addresses, commands, files or the store, or weaken a protection, are ignored. Trust belongs to one
path and one content: a change needs trust again. Files given with --config or SATIETY_CONFIG need no trust, which is the
way for CI, and neither does your own file, satiety/satiety.toml in your configuration directory.")]
pub(crate) struct TrustArgs {
    /// The file, or its directory [default: the nearest satiety.toml upwards from here]
    pub(crate) file: Option<PathBuf>,
    /// Show the settings that need trust and change nothing
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) show: bool,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["revoke", "file"])]
    pub(crate) list: bool,
    /// Trust the file no longer
    #[arg(long)]
    pub(crate) revoke: bool,
}
