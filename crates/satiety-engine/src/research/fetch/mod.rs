//! Web page fetcher with SSRF protection: only public addresses, checked after name resolution and for every
//! redirect; limits on size, time and decompression; respects robots.txt. Returns text; nothing is executed.
//!
//! The connection uses the resolver that checks the addresses, so a name cannot resolve differently in
//! between.

pub mod addresses;
pub mod content;
#[cfg(feature = "html")]
mod html;
#[cfg(feature = "html")]
mod markup;
#[cfg(any(feature = "html", feature = "pdf"))]
mod parse;
#[cfg(feature = "pdf")]
mod pdf;
mod robots;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use satiety_models::http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use satiety_models::http::{Client, HttpError, HttpPolicy, Method, Url};

pub use content::PageText;
use robots::Robots;

use super::sources_user_agent;

/// Limits of a fetch.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// Timeout of each request, from connecting to the last byte.
    pub timeout: Duration,
    /// Maximum bytes of a page, before and after decompression.
    pub max_bytes: usize,
    /// Maximum number of redirects.
    pub max_redirects: usize,
    /// Maximum characters of text kept per page.
    pub max_chars: usize,
    /// Whether private, loopback and link-local addresses are allowed.
    pub allow_private: bool,
    /// Whether to respect robots.txt.
    pub robots: bool,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            max_bytes: 5 << 20,
            max_redirects: 5,
            max_chars: 40_000,
            allow_private: false,
            robots: true,
        }
    }
}

/// Error while fetching a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The address must not be fetched.
    #[error("refused: {reason}")]
    Refused { reason: String },
    /// The site's robots.txt disallows the page.
    #[error("disallowed by robots.txt")]
    Robots,
    /// The request failed.
    #[error("{reason}")]
    Failed { reason: String },
    /// The server answered with an error status.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The page is too large, before or after decompression.
    #[error("larger than {limit} bytes")]
    TooLarge { limit: usize },
    /// The content is not text.
    #[error("unsupported content type {kind}")]
    Kind { kind: String },
}

/// Fetches pages.
#[derive(Debug)]
pub struct Fetcher {
    client: Client,
    settings: FetchSettings,
    robots: Mutex<BTreeMap<String, Arc<Robots>>>,
}

impl Fetcher {
    /// Creates a fetcher.
    pub fn new(settings: FetchSettings) -> Result<Self, FetchError> {
        // The client does not follow redirects: each step is checked here.
        let client = Client::new(HttpPolicy {
            max_bytes: settings.max_bytes,
            address_guard: Some(if settings.allow_private {
                |address| addresses::check(address, true)
            } else {
                |address| addresses::check(address, false)
            }),
            user_agent: sources_user_agent(),
            ..HttpPolicy::single_attempt(Some(settings.timeout))
        })?;
        Ok(Self {
            client,
            settings,
            robots: Mutex::new(BTreeMap::new()),
        })
    }

    /// Fetches a page as Markdown.
    pub async fn read(&self, address: &str) -> Result<PageText, FetchError> {
        let mut url = self.check_url(address)?;
        for _ in 0..=self.settings.max_redirects {
            if self.settings.robots && !self.robots_of(&url).await.allow(&path_of(&url)) {
                return Err(FetchError::Robots);
            }
            match self.get(&url).await? {
                FetchResult::Moved(location) => {
                    let next = url.join(&location).map_err(|error| FetchError::Failed {
                        reason: format!("redirect to invalid URL `{location}`: {error}"),
                    })?;
                    url = self.check_url(next.as_str())?;
                }
                FetchResult::Page { bytes, kind } => return self.extract_text(&url, bytes, &kind).await,
            }
        }
        Err(FetchError::Failed {
            reason: format!("more than {} redirects", self.settings.max_redirects),
        })
    }

    /// Parses a URL and refuses disallowed ones. The parser normalizes decimal, octal and hexadecimal
    /// spellings of an IPv4 address, so they are checked like any other.
    fn check_url(&self, address: &str) -> Result<Url, FetchError> {
        let refused = |reason: String| FetchError::Refused { reason };
        let url = Url::parse(address.trim()).map_err(|error| refused(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("unsupported scheme {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("URL contains credentials".into()));
        }
        let host = url.host_str().ok_or_else(|| refused("URL has no host".into()))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            addresses::check(ip, self.settings.allow_private)
                .map_err(|reason| refused(format!("{ip} ({reason})")))?;
        } else if !self.settings.allow_private && addresses::is_local_name(bare) {
            return Err(refused(format!("{bare} is a local name")));
        }
        Ok(url)
    }

    async fn get(&self, url: &Url) -> Result<FetchResult, FetchError> {
        let request = self
            .client
            .request(Method::GET, url.clone())
            .header(
                "Accept",
                "text/html, text/plain, text/markdown, application/pdf;q=0.8",
            )
            .header("Accept-Encoding", "gzip, identity");
        let answer = self.client.send(request).await?;
        let header = |name| {
            let value = answer.headers.get(name)?;
            Some(value.to_str().ok()?.to_owned())
        };
        if answer.status.is_redirection()
            && let Some(location) = header(LOCATION)
        {
            return Ok(FetchResult::Moved(location));
        }
        if !answer.status.is_success() {
            return Err(FetchError::Status(answer.status.as_u16()));
        }
        let kind = header(CONTENT_TYPE).unwrap_or_default();
        let packed = header(CONTENT_ENCODING).unwrap_or_default().to_ascii_lowercase();
        let limit = self.settings.max_bytes;
        let bytes = match packed.as_str() {
            "" | "identity" => answer.body,
            "gzip" | "x-gzip" => decompress(&answer.body, limit)?,
            other => {
                return Err(FetchError::Kind {
                    kind: format!("compressed with {other}"),
                });
            }
        };
        Ok(FetchResult::Page { bytes, kind })
    }

    async fn extract_text(&self, url: &Url, bytes: Vec<u8>, kind: &str) -> Result<PageText, FetchError> {
        let essence = kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let charset = content::parse_charset(kind);
        let address = url.to_string();
        let max_chars = self.settings.max_chars;
        let failed_with = |reason| FetchError::Failed { reason };
        let known = matches!(
            essence.as_str(),
            "" | "text/html" | "application/xhtml+xml" | "application/pdf" | "application/json"
        ) || essence.starts_with("text/");
        if !known {
            return Err(FetchError::Kind { kind: essence });
        }
        // Parsing is CPU-bound, and a hostile page may crash a parser: keep both away from the event loop.
        let work = tokio::task::spawn_blocking(move || {
            let mut page = match essence.as_str() {
                "application/pdf" => PageText {
                    title: String::new(),
                    markdown: content::extract_pdf(&bytes).map_err(failed_with)?,
                },
                "" | "text/html" | "application/xhtml+xml" => {
                    let html = content::decoded(&bytes, charset.as_deref());
                    content::extract_html(&html, Some(&address)).map_err(failed_with)?
                }
                _ => PageText {
                    title: String::new(),
                    markdown: content::decoded(&bytes, charset.as_deref()),
                },
            };
            if page.markdown.chars().nth(max_chars).is_some() {
                page.markdown = page.markdown.chars().take(max_chars).collect();
            }
            Ok(page)
        });
        work.await.unwrap_or_else(|_| {
            Err(FetchError::Failed {
                reason: "cannot parse the page".into(),
            })
        })
    }

    /// Returns the rules of a site, fetched once. A site without rules, or with a 4xx response, allows
    /// everything, as the standard specifies; a 5xx response allows nothing.
    async fn robots_of(&self, url: &Url) -> Arc<Robots> {
        let origin = url.origin().ascii_serialization();
        {
            let known = self.robots.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(robots) = known.get(&origin) {
                return Arc::clone(robots);
            }
        }
        let robots = Arc::new(self.ask_robots(&origin).await);
        let mut known = self.robots.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(origin, Arc::clone(&robots));
        robots
    }

    async fn ask_robots(&self, origin: &str) -> Robots {
        let Ok(mut url) = self.check_url(&format!("{origin}/robots.txt")) else {
            return Robots::disallow_all();
        };
        for _ in 0..=self.settings.max_redirects {
            match self.get(&url).await {
                Ok(FetchResult::Page { bytes, .. }) => {
                    return Robots::parse(&String::from_utf8_lossy(&bytes));
                }
                Ok(FetchResult::Moved(location)) => {
                    let next = url
                        .join(&location)
                        .ok()
                        .and_then(|next| self.check_url(next.as_str()).ok());
                    match next {
                        Some(next) => url = next,
                        None => return Robots::disallow_all(),
                    }
                }
                Err(FetchError::Status(500..)) => return Robots::disallow_all(),
                // Fetching the page itself will report what is wrong with the site.
                Err(_) => return Robots::default(),
            }
        }
        Robots::disallow_all()
    }
}

enum FetchResult {
    Page { bytes: Vec<u8>, kind: String },
    Moved(String),
}

fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Decompresses at most `limit` bytes, as protection against decompression bombs.
fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FetchError> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| FetchError::Failed {
            reason: format!("cannot decompress: {error}"),
        })?;
    if plain.len() > limit {
        return Err(FetchError::TooLarge { limit });
    }
    Ok(plain)
}

impl From<HttpError> for FetchError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Refused(reason) => Self::Refused { reason },
            HttpError::TooLarge { limit } => Self::TooLarge { limit },
            HttpError::Timeout { .. } => Self::Failed {
                reason: "request timeout".into(),
            },
            other => Self::Failed {
                reason: other.to_string(),
            },
        }
    }
}
