//! Where searches go, behind one trait: folders, search engines, encyclopedias, archives, tools and commands.
//!
//! A source answers with results, with none, or with an error; what follows from that is the loop's business. None of
//! them knows of rounds, novelty or budgets.

mod allowed;
mod api;
mod arxiv;
mod cassette;
mod engines;
mod local;
mod tool;

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use satiety::research::Hit;

use crate::bench::target::Environment;

pub use allowed::AllowedSources;
pub use api::search_policy;
pub use cassette::{Recorder, Replay};
pub use local::Local;
pub use satiety_models::http::HttpPolicy;

/// The pending answer of [`Source::search`].
pub type SearchFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Hit>, SearchError>> + Send + 'a>>;

/// Something that can be searched.
pub trait Source: fmt::Debug + Send + Sync {
    /// What it is, as it may be shown and as searches are remembered by: `brave`, `searxng:https://…`.
    fn id(&self) -> &str;

    /// Searches once; retries are the source's business.
    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a>;

    /// Whether the same search gives the same for a day. Folders change under one's hands and cost nothing.
    fn is_worth_remembering(&self) -> bool {
        true
    }

    /// Ends what was started for it.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

/// Why a search brought no answer. Never a sign of saturation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A name of a source that means nothing.
    #[error("`{spec}` is no source: {reason}")]
    BadSpec {
        /// What was written.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key is needed.
    #[error("{source_name} needs a key, and {variable} is not set")]
    NoKey {
        /// Which source.
        source_name: &'static str,
        /// The variable.
        variable: &'static str,
    },
    /// A folder or file that cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which one.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// The server could not be reached, also after retries.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// No answer in time, also after retries.
    #[error("{url} did not answer within {limit:?}")]
    Timeout {
        /// The endpoint.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// An error status, also after retries where that makes sense.
    #[error("{url} answered {status}: {message}")]
    Status {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The start of the body.
        message: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// An answer that is not what the protocol says.
    #[error("{url} sent an answer that cannot be used: {reason}")]
    BadAnswer {
        /// The endpoint or program.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// A tool or command that failed.
    #[error("{name} failed: {reason}")]
    Tool {
        /// Which one.
        name: String,
        /// Its words.
        reason: String,
    },
    /// A search that was not recorded.
    #[error("{file} has no search `{query}`")]
    NotRecorded {
        /// The recording.
        file: String,
        /// The query.
        query: String,
    },
}

impl SearchError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::BadSpec { .. } => SPECS.into(),
            Self::NoKey { variable, .. } => format!("set {variable}; or search a folder with `--in FOLDER`, which needs no key"),
            Self::Status { url, status: 403, .. } if url.contains("/search") => {
                "SearXNG answers 403 unless its settings.yml lists json under search.formats; other engines: check the key".into()
            }
            Self::Status { status: 401 | 403 | 422, .. } => "check the key".into(),
            Self::Status { status: 429, retry_after, .. } => match retry_after {
                Some(pause) => format!("the server asks for {} seconds of rest; run it again later, nothing is lost", pause.as_secs()),
                None => "too many searches; run it again later, nothing is lost".into(),
            },
            Self::NotRecorded { .. } => "record it again with `--record FILE`; a recording answers only what was asked then".into(),
            Self::Unreadable { .. } => "give a folder of Markdown, text, HTML or PDF files".into(),
            _ => return None,
        })
    }
}

/// What can be written.
const SPECS: &str = "a source is a folder, searxng:URL, brave, tavily, wikipedia[:LANGUAGE], arxiv, mcp:FILE, command:PROGRAM or replay:FILE";

/// What sources need to know of the world.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Where keys are: `BRAVE_API_KEY`, `TAVILY_API_KEY`, and what descriptions of tools name.
    pub environment: Environment,
    /// Times, retries and pauses.
    pub api: HttpPolicy,
    /// Where working folders of commands are made.
    pub scratch: PathBuf,
    /// Other addresses for the engines with fixed ones: for proxies and tests.
    pub base_url: Option<String>,
}

/// Opens the source that was named. Reads a folder; sends nothing.
pub fn open(spec: &str, settings: &SourceSettings) -> Result<Box<dyn Source>, SearchError> {
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
        "local" => Box::new(Local::open(Path::new(rest))?),
        "searxng" => {
            if !(rest.starts_with("http://") || rest.starts_with("https://")) {
                return Err(bad(
                    "an address is missing, as in searxng:https://search.example.org",
                ));
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
                return Err(bad("a language is letters, as in wikipedia:de"));
            }
            let standard = format!("https://{language}.wikipedia.org");
            Box::new(engines::Engine::wikipedia(&base(&standard), language, api()?)?)
        }
        "arxiv" => Box::new(arxiv::Arxiv::new(&base("https://export.arxiv.org"), api()?)?),
        "mcp" => Box::new(tool::Tool::mcp(rest, settings)?),
        "command" => Box::new(tool::Tool::command(rest, settings)?),
        "replay" => Box::new(Replay::open(Path::new(rest))?),
        _ if Path::new(spec).is_dir() || Path::new(spec).is_file() => Box::new(Local::open(Path::new(spec))?),
        _ => return Err(bad("there is no folder and no engine of that name")),
    })
}
