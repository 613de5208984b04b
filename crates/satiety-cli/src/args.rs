//! What can be typed. Only definitions and help texts: what it means is found out in `settings` and `commands`.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Tells AI agents, and the people who build them, whether the next round still buys anything.
#[derive(Debug, Parser)]
#[command(name = "satiety", version, styles = STYLES, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Start with `satiety demo`. Every command has examples in its `--help`.")]
#[command(after_long_help = "Examples:
  satiety demo                          everything that works so far, on bundled examples
  satiety db status                     what is in the store
  satiety doctor                        is everything there that the commands need?
  satiety config show                   every setting, and where its value comes from

Exit codes:
   0  done, and the answer is fine
   1  done, and the gate says no
   2  wrong usage or bad input
   3  inconclusive
   4  the environment failed: store, network, model or file system
  70  a bug in satiety itself")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store: `sqlite:PATH` or `postgres://user:password@host/database` [env: `SATIETY_STORE_URL`]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// The configuration file, instead of the nearest `satiety.toml` upwards from here [env: `SATIETY_CONFIG`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How answers are printed [default: human] [env: `SATIETY_OUTPUT_FORMAT`]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) format: Option<crate::settings::Format>,
    /// Print no answer for people, and no notes; errors and `--format json` are still printed
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Log more to stderr; twice for still more [env: `SATIETY_LOG_LEVEL`]
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colours; `NO_COLOR` is respected [default: auto] [env: `SATIETY_OUTPUT_COLOR`]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// When the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look after the store: status, migrations, retention, export, import, backup
    #[command(subcommand)]
    Db(Db),
    /// Show the settings and where they come from
    #[command(subcommand)]
    Config(Config),
    /// Check that everything is there that the commands need, and say what to do where it is not
    #[command(after_help = "Example:\n  satiety doctor\n\nExits with 4 when something does not work.")]
    Doctor,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  satiety completions bash > ~/.local/share/bash-completion/completions/satiety"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the reference pages and man pages into a folder (what `cargo xtask gen` calls)
    #[command(hide = true)]
    Reference {
        /// The folder
        folder: PathBuf,
    },
}

/// Commands about the store.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety db status
  satiety db export store.jsonl
  satiety --db postgres://me@localhost/satiety db import store.jsonl
  satiety db retain --set journal=90d:archive --dry-run")]
pub(crate) enum Db {
    /// What is in the store; changes nothing
    #[command(after_help = "Example:\n  satiety db status --check")]
    Status {
        /// Also read it whole and look for damage
        #[arg(long)]
        check: bool,
    },
    /// Create the store, or bring its schema up to date (other commands do this by themselves)
    #[command(after_help = "Example:\n  satiety --db sqlite:team.db db migrate")]
    Migrate,
    /// Carry out the retention rules: delete or archive what is past its time
    #[command(after_help = "Examples:
  satiety db retain --dry-run
  satiety db retain --set journal=90d:archive
  satiety db retain --set conversations=keep

A rule is SUBJECT=DAYSd:ACTION or SUBJECT=keep. A subject is a table, or a table and a prefix of its keys
(`records:cache/`). Archives are JSONL files in `store.archive_folder`.")]
    Retain {
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
        /// Set a rule first; may be repeated
        #[arg(long, value_name = "RULE")]
        set: Vec<String>,
        /// List the rules and do nothing else
        #[arg(long, conflicts_with = "dry_run")]
        list: bool,
    },
    /// Write the whole store as JSON Lines
    #[command(
        after_help = "Example:\n  satiety db export store.jsonl\n  satiety db export - | gzip > store.jsonl.gz"
    )]
    Export {
        /// The file, or `-` for stdout
        file: PathBuf,
    },
    /// Read an export into a new store: all of it, or nothing
    #[command(after_help = "Example:\n  satiety --db postgres://me@localhost/satiety db import store.jsonl")]
    Import {
        /// The file, or `-` for stdin
        file: PathBuf,
    },
    /// Make a backup while the store stays in use: a copy of a SQLite file, an export of a PostgreSQL database
    #[command(after_help = "Example:\n  satiety db backup satiety-backup.db")]
    Backup {
        /// The file to write, which must not exist yet
        file: PathBuf,
    },
}

/// Commands about the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with its value and where that comes from
    #[command(after_help = "Examples:
  satiety config show
  satiety config show --default > satiety.toml

Strength, from weak to strong: built-in default, satiety.toml, environment (SATIETY_*), flags.")]
    Show {
        /// Print the commented default file instead
        #[arg(long)]
        default: bool,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Every argument has a help text, every command that does something an example.
    #[test]
    fn everything_is_explained() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some() || argument.get_id() == "help",
                    "{}: {} has no help",
                    command.get_name(),
                    argument.get_id()
                );
            }
            for subcommand in command
                .get_subcommands()
                .filter(|subcommand| !subcommand.is_hide_set())
            {
                assert!(
                    subcommand.get_about().is_some(),
                    "{} has no description",
                    subcommand.get_name()
                );
                if subcommand.get_subcommands().next().is_none() {
                    let after = subcommand
                        .get_after_help()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    assert!(
                        after.contains("xample"),
                        "{} has no example",
                        subcommand.get_name()
                    );
                }
                check(subcommand);
            }
        }
        let command = super::Cli::command();
        command.clone().debug_assert();
        check(&command);
    }
}
