//! What can be typed after `satiety serve` and `satiety token`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety serve                                     on loopback, nobody needs a token
  satiety serve --root ~/agents --require-token     suites below a folder may be run; tokens are asked for
  satiety serve --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --host-name satiety.example.org
  curl http://127.0.0.1:8787/v1/health
  curl http://127.0.0.1:8787/v1/score -H 'Content-Type: application/json' -d \"{\\\"conversation\\\": $(cat chat.json)}\"

The API is described at /docs and /openapi.json; figures for Prometheus are at /metrics.

On any other address than loopback a token must exist (`satiety token create`), and there must be a certificate unless
--without-tls says that something before this server encrypts. Ends on Ctrl-C or SIGTERM, after what is under way.")]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:8787] [env: `SATIETY_SERVER_LISTEN`]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// The folder below which requests may name suites and notes; none without it [env: `SATIETY_SERVER_ROOT`]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// What requests may have searched: NAME=SOURCE with commas between, as in notes=local:notes,arxiv; nothing without it
    /// [env: `SATIETY_SERVER_RESEARCH_SOURCES`]
    #[arg(long, value_name = "SOURCES")]
    pub(crate) research_sources: Option<String>,
    /// Ask for a token on loopback, too: needed behind a proxy, and where others use this machine
    #[arg(long)]
    pub(crate) require_token: bool,
    /// The certificate with its chain, as PEM [env: `SATIETY_SERVER_TLS_CERT`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, as PEM [env: `SATIETY_SERVER_TLS_KEY`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen beyond loopback without encryption, because something before this server does it
    #[arg(long)]
    pub(crate) without_tls: bool,
    /// A name that this server answers to, beside numbers and localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host_name: Vec<String>,
    /// Requests a second of one caller; 0 for no limit [default: 100 where tokens are asked for, else 0]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// Requests of one caller that may come at once
    #[arg(long, value_name = "N", default_value = "200")]
    pub(crate) burst: NonZeroU32,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 20)]
    pub(crate) max_body: usize,
    /// Seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) timeout: u64,
    /// Seconds that headers, and a body, may take to arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) header_timeout: u64,
    /// Seconds that the end waits for what is under way
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) shutdown_timeout: u64,
    /// Requests that are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) concurrency: usize,
    /// Jobs at a time: runs of suites, of the corpus, and research
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) jobs: usize,
    /// The project of requests that name none: a directory or a name [default: the repository around here]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// The sentence model [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Commands about tokens.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety token create ci --scope write --days 90
  satiety token list
  satiety token revoke ci
  satiety token audit")]
pub(crate) enum Token {
    /// Make a token; it is shown once, and only its hash is kept
    #[command(after_help = "Example:
  satiety token create ci --scope write --days 90
  curl -H \"Authorization: Bearer $TOKEN\" https://satiety.example.org/v1/health")]
    Create {
        /// What it is for
        name: String,
        /// What it permits; each permits what the ones before it do
        #[arg(long, value_name = "SCOPE", default_value = "read")]
        scope: TokenScope,
        /// After how many days it ends; never without this
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: Option<u32>,
    },
    /// All tokens, without their secrets
    #[command(after_help = "Example:\n  satiety token list")]
    List,
    /// Take a token back; servers heed it within five seconds
    #[command(after_help = "Example:\n  satiety token revoke ci")]
    Revoke {
        /// Its id, or its name where no other has it
        token: String,
    },
    /// Who wrote what through a server, the latest first
    #[command(after_help = "Example:\n  satiety token audit --limit 20 --format json")]
    Audit {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
}

/// What a token permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenScope {
    /// To look, and to have things computed that nobody keeps.
    Read,
    /// To keep things: conversations, memories, answers to proposals.
    Write,
    /// To run suites, to put a scorer into force, to record a cycle.
    Admin,
}
