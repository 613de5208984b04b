//! Arguments of `satiety tenant`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

/// Subcommands of `tenant`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety tenant create acme --requests-per-day 100000 --storage 2GiB
  satiety --tenant acme token create ci --scope write
  satiety tenant show acme
  satiety --tenant acme memory list              # any command works on the tenant's store
  satiety tenant disable acme                    # its tokens are refused within five seconds

A tenant has a database of its own: no query, search, export or page shows the rows of another. On SQLite it is a file
next to the main one, on PostgreSQL a database on the same server, unless --store-url names another.")]
pub(crate) enum TenantCommand {
    /// Create a tenant and its store
    #[command(after_help = "Examples:
  satiety tenant create acme
  satiety tenant create acme --requests-per-minute 600 --model-tokens-per-day 2000000 --storage 5GiB
  satiety tenant create acme --store-url postgres://satiety@db2.example.org/acme    # password from the password file
  satiety tenant create acme --existing          # register a store again that was kept or restored")]
    Create {
        /// Name: 1 to 40 lower-case letters, digits and hyphens
        name: String,
        #[command(flatten)]
        quotas: QuotaArgs,
        /// Store of the tenant, without a password [default: a database next to the main one]
        #[arg(long, value_name = "URL")]
        store_url: Option<String>,
        /// Directory that paths in its requests are confined to [default: no file access]
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Take over a store that exists already, with everything in it
        #[arg(long)]
        existing: bool,
    },
    /// List the tenants with today's usage
    #[command(after_help = "Example:\n  satiety tenant list --format json")]
    List,
    /// Show quotas, tokens and the usage of the last 30 days
    #[command(after_help = "Example:\n  satiety tenant show acme")]
    Show {
        /// Name of the tenant
        name: String,
    },
    /// Change quotas, directory or location, or enable a tenant again
    #[command(after_help = "Examples:
  satiety tenant set acme --requests-per-day none --storage 10GiB
  satiety tenant set acme --enable
  satiety tenant set acme --store-url postgres://satiety@db2.example.org/acme    # after moving the database")]
    Set {
        /// Name of the tenant
        name: String,
        #[command(flatten)]
        quotas: QuotaArgs,
        /// Store of the tenant after it was moved, without a password
        #[arg(long, value_name = "URL")]
        store_url: Option<String>,
        /// Directory that paths in its requests are confined to; an empty one removes it
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Accept its tokens again
        #[arg(long)]
        enable: bool,
    },
    /// Refuse the tokens of a tenant; its data stays
    #[command(after_help = "Example:\n  satiety tenant disable acme")]
    Disable {
        /// Name of the tenant
        name: String,
    },
    /// Remove a tenant and its tokens; its store is kept unless --delete-store is given
    #[command(after_help = "Examples:
  satiety tenant delete acme                              # asks, keeps the store
  satiety tenant delete acme --export acme.jsonl --delete-store --yes")]
    Delete {
        /// Name of the tenant
        name: String,
        /// Export its store to this file first, as JSON Lines
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        /// Delete its database, or its file, permanently
        #[arg(long)]
        delete_store: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// Quotas of a tenant.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct QuotaArgs {
    /// Requests in any 60 seconds, or `none` [default: none]
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_minute: Option<Limit>,
    /// Requests per day (UTC), or `none` [default: none]
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_day: Option<Limit>,
    /// Tokens that models process per day (UTC), or `none` [default: none]
    #[arg(long, value_name = "N")]
    pub(crate) model_tokens_per_day: Option<Limit>,
    /// Size of the store, such as 500MB or 2GiB, or `none` [default: none]
    #[arg(long, value_name = "SIZE")]
    pub(crate) storage: Option<Size>,
}

/// A number, or `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = text.parse().map_err(|_| "expected a number or `none`")?;
        Ok(Self(Some(number)))
    }
}

/// A size in bytes, or `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) Option<u64>);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, u64); 9] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
            ("B", 1),
        ];
        if text == "none" {
            return Ok(Self(None));
        }
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
            .unwrap_or((text, 1));
        number
            .trim()
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
            .map(|bytes| Self(Some(bytes)))
            .ok_or_else(|| "expected a size such as 500MB or 2GiB, or `none`".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("12", Some(12)),
            ("12 B", Some(12)),
            ("500MB", Some(500_000_000)),
            ("2GiB", Some(2 << 30)),
            ("none", None),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "GiB", "-1", "1.5GiB", "99999999999TiB", "2 G"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
