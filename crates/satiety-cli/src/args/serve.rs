//! Arguments of `satiety serve` and `satiety token`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety serve                                     # on loopback, without tokens
  satiety serve --root ~/agents --require-token     # allow running suites below ~/agents; require tokens
  satiety serve --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --host-name satiety.example.org
  curl http://127.0.0.1:8787/v1/health
  curl http://127.0.0.1:8787/v1/score -H 'Content-Type: application/json' -d \"{\\\"conversation\\\": $(cat chat.json)}\"

The API is described at /docs and /openapi.json; Prometheus metrics are at /metrics.

On any address other than loopback a token must exist (`satiety token create`), and a TLS certificate is required unless
--without-tls declares that a proxy terminates TLS. Shuts down gracefully on Ctrl-C or SIGTERM.")]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:8787] [env:
    /// `SATIETY_SERVER_LISTEN`]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Directory that paths in requests are confined to [default: no file access] [env:
    /// `SATIETY_SERVER_ROOT`]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Sources that requests may search, such as notes=local:notes,arxiv [default: none]
    /// [env: `SATIETY_SERVER_RESEARCH_SOURCES`]
    #[arg(long, value_name = "SOURCES")]
    pub(crate) research_sources: Option<String>,
    /// Require a token on loopback too: needed behind a proxy and on shared machines
    #[arg(long)]
    pub(crate) require_token: bool,
    /// TLS certificate chain, PEM [env: `SATIETY_SERVER_TLS_CERT`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS private key, PEM [env: `SATIETY_SERVER_TLS_KEY`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen beyond loopback without TLS because a proxy terminates it
    #[arg(long)]
    pub(crate) without_tls: bool,
    /// Host name that this server accepts, besides IP addresses and localhost; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) host_name: Vec<String>,
    /// Requests per second and client; 0 for no limit [default: 100 with required tokens, else 0]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// Burst size of the rate limit, in requests per client
    #[arg(long, value_name = "N", default_value = "200")]
    pub(crate) burst: NonZeroU32,
    /// Maximum size of a request body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 20)]
    pub(crate) max_body: usize,
    /// Request timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) timeout: u64,
    /// Timeout for receiving headers, and for receiving a body, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) header_timeout: u64,
    /// Graceful-shutdown timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) shutdown_timeout: u64,
    /// Maximum concurrent requests
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) concurrency: usize,
    /// Maximum concurrent jobs: suite runs, corpus runs and research
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) jobs: usize,
    /// Project of requests that do not name one: a directory or a name [default: the current repository]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Sentence model [env: `SATIETY_MODELS_EMBEDDER`]
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,
}

/// Subcommands of `token`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  satiety token create ci --scope write --days 90
  satiety token list
  satiety token revoke ci
  satiety token audit")]
pub(crate) enum Token {
    /// Create a token; it is shown once and only its hash is stored
    #[command(after_help = "Example:
  satiety token create ci --scope write --days 90
  curl -H \"Authorization: Bearer $TOKEN\" https://satiety.example.org/v1/health")]
    Create {
        /// Name of the token
        name: String,
        /// Scope of the token; each scope includes the previous ones
        #[arg(long, value_name = "SCOPE", default_value = "read")]
        scope: TokenScope,
        /// Days until the token expires [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: Option<u32>,
    },
    /// List all tokens, without their secrets
    #[command(after_help = "Example:\n  satiety token list")]
    List,
    /// Revoke a token; takes effect within five seconds
    #[command(after_help = "Example:\n  satiety token revoke ci")]
    Revoke {
        /// Id of the token, or its name if unique
        token: String,
    },
    /// Show the audit log of changes made through the server, newest first
    #[command(after_help = "Example:\n  satiety token audit --limit 20 --format json")]
    Audit {
        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
}

/// Scope of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenScope {
    /// Read, and compute without storing.
    Read,
    /// Store conversations, memories and answers to proposals.
    Write,
    /// Run suites, activate a scorer, record a cycle.
    Admin,
}
