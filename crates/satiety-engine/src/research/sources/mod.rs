//! Search sources behind one trait: directories, search engines, encyclopedias, archives, tools and commands.
//!
//! A source returns results, an empty list, or an error; interpreting it is up to the research loop. Sources
//! know nothing of rounds, novelty or budgets.

mod allow_list;
mod api;
mod arxiv;
mod cassette;
mod engines;
mod local;
mod passage_index;
mod tool;

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use satiety::Hint;
use satiety::research::Hit;

use crate::bench::target::Environment;

pub use allow_list::AllowedSources;
pub use api::search_policy;
pub use cassette::{Recorder, Replay};
pub use local::{IndexOptions, Local};
pub use satiety_models::http::HttpPolicy;

/// Future returned by [`Source::search`].
pub type SearchFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Hit>, SearchError>> + Send + 'a>>;

/// A searchable source.
pub trait Source: fmt::Debug + Send + Sync {
    /// Id for display and as cache key: `brave`, `searxng:https://…`.
    fn id(&self) -> &str;

    /// Searches once; retries are up to the source.
    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a>;

    /// Returns true if searches may be cached for a day. Directories change at any time and are cheap to
    /// search.
    fn is_cacheable(&self) -> bool {
        true
    }

    /// Remarks for the report, such as an index that is not complete.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Stops processes and connections of the source.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

/// Error of a search. Never a sign of saturation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Invalid source specification.
    #[error("invalid source `{spec}`: {reason}")]
    BadSpec { spec: String, reason: String },
    /// The API key is missing.
    #[error("{source_name} needs an API key: {variable} is not set")]
    NoKey {
        source_name: &'static str,
        /// Environment variable of the key.
        variable: &'static str,
    },
    /// A directory or file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable { path: String, reason: String },
    /// The server is unreachable, even after retries.
    #[error("cannot reach {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// Request timeout, even after retries.
    #[error("request to {url} timed out after {limit:?}")]
    Timeout { url: String, limit: Duration },
    /// Error status, after retries if it is transient.
    #[error("{url} returned HTTP status {status}: {message}")]
    Status {
        url: String,
        status: u16,
        /// Start of the response body.
        message: String,
        /// Value of the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// The response violates the protocol.
    #[error("invalid response from {url}: {reason}")]
    BadAnswer {
        /// Endpoint or program.
        url: String,
        reason: String,
    },
    /// A tool or command failed.
    #[error("{name} failed: {reason}")]
    Tool { name: String, reason: String },
    /// The query is not in the recording.
    #[error("query `{query}` not found in recording {file}")]
    NotRecorded { file: String, query: String },
}

impl SearchError {
    /// Suggested action.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::BadSpec { .. } => SPECS.into(),
            Self::NoKey { variable, .. } => Hint::with_command(
                format!("set {variable}, or search a directory, which needs no key"),
                "--in DIRECTORY",
            ),
            Self::Status { url, status: 403, .. } if url.contains("/search") => {
                "SearXNG returns 403 unless its settings.yml lists json under search.formats; other engines: check the API key".into()
            }
            Self::Status { status: 401 | 403 | 422, .. } => "check the API key".into(),
            Self::Status { status: 429, retry_after, .. } => match retry_after {
                Some(pause) => format!("retry after {} seconds, as the server requests; nothing is lost", pause.as_secs()).into(),
                None => "too many searches; retry later, nothing is lost".into(),
            },
            Self::NotRecorded { .. } => Hint::with_command("a recording answers only recorded queries; record it again", "--record FILE"),
            Self::Unreadable { .. } => "give a directory of Markdown, text, HTML or PDF files".into(),
            _ => return None,
        })
    }
}

/// Valid source specifications.
const SPECS: &str = "use a directory, searxng:URL, brave, tavily, wikipedia[:LANGUAGE], arxiv, mcp:FILE, command:PROGRAM or replay:FILE";

/// Settings shared by all sources.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Source of API keys: `BRAVE_API_KEY`, `TAVILY_API_KEY`, and variables named by tool descriptions.
    pub environment: Environment,
    /// Timeouts, retries and pauses.
    pub api: HttpPolicy,
    /// Directory for the working directories of commands.
    pub scratch: PathBuf,
    /// Base URL override for engines with a fixed one: for proxies and tests.
    pub base_url: Option<String>,
}

/// Opens a source by its specification. Reads and indexes a directory, but sends no search.
pub async fn open<'e>(
    spec: &str,
    settings: &SourceSettings,
    index: IndexOptions<'e>,
) -> Result<Box<dyn Source + 'e>, SearchError> {
    let bad = |reason: &str| SearchError::BadSpec {
        spec: spec.to_owned(),
        reason: reason.to_owned(),
    };
    let key = |source_name: &'static str, variable: &'static str| {
        let value = settings
            .environment
            .get(variable)
            .map(str::trim)
            .filter(|key| !key.is_empty());
        value.map(str::to_owned).ok_or(SearchError::NoKey {
            source_name,
            variable,
        })
    };
    let base = |standard: &str| settings.base_url.clone().unwrap_or_else(|| standard.to_owned());
    let api = || api::Api::new(&settings.api);
    let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
    Ok(match kind {
        "local" => Box::new(Local::open(Path::new(rest), index).await?),
        "searxng" => {
            if !(rest.starts_with("http://") || rest.starts_with("https://")) {
                return Err(bad("missing URL, as in searxng:https://search.example.org"));
            }
            Box::new(engines::Engine::searxng(rest, api()?)?)
        }
        "brave" => Box::new(engines::Engine::brave(
            &base("https://api.search.brave.com"),
            &key("Brave", "BRAVE_API_KEY")?,
            api()?,
        )?),
        "tavily" => Box::new(engines::Engine::tavily(
            &base("https://api.tavily.com"),
            &key("Tavily", "TAVILY_API_KEY")?,
            api()?,
        )?),
        "wikipedia" => {
            let language = if rest.is_empty() { "en" } else { rest };
            if !language.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return Err(bad("a language code has letters only, as in wikipedia:de"));
            }
            let standard = format!("https://{language}.wikipedia.org");
            Box::new(engines::Engine::wikipedia(&base(&standard), language, api()?)?)
        }
        "arxiv" => Box::new(arxiv::Arxiv::new(&base("https://export.arxiv.org"), api()?)?),
        "mcp" => Box::new(tool::Tool::mcp(rest, settings)?),
        "command" => Box::new(tool::Tool::command(rest, settings)?),
        "replay" => Box::new(Replay::open(Path::new(rest))?),
        _ if Path::new(spec).is_dir() || Path::new(spec).is_file() => {
            Box::new(Local::open(Path::new(spec), index).await?)
        }
        _ => return Err(bad("no directory and no engine has this name")),
    })
}
