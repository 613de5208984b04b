//! Reading a page of the web without being led astray: only public addresses, checked after the name was resolved and for
//! every redirect, limits on size, time and decompression, robots respected. What comes back is text, nothing is run.
//!
//! The resolver that checks an address is the one that the connection uses, so a name cannot change its mind in between.

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

/// What a fetch may do.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// From connecting to the last byte, each request.
    pub timeout: Duration,
    /// Bytes of a page, before and after decompression.
    pub max_bytes: usize,
    /// Redirects that are followed.
    pub max_redirects: usize,
    /// Characters of a page's text that are kept.
    pub max_chars: usize,
    /// Whether private, loopback and link-local addresses may be read.
    pub allow_private: bool,
    /// Whether robots.txt is asked first.
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

/// Why a page was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// An address that is not read, whatever is there.
    #[error("refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The site does not want it read.
    #[error("its robots.txt does not allow it")]
    Robots,
    /// It could not be had.
    #[error("{reason}")]
    Failed {
        /// Why.
        reason: String,
    },
    /// It is too large, or grows too large when unpacked.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Something else than text.
    #[error("its content type is {kind}")]
    Kind {
        /// What it is.
        kind: String,
    },
}

/// Reads pages.
#[derive(Debug)]
pub struct Fetcher {
    client: Client,
    settings: FetchSettings,
    robots: Mutex<BTreeMap<String, Arc<Robots>>>,
}

impl Fetcher {
    /// A reader of pages.
    pub fn new(settings: FetchSettings) -> Result<Self, FetchError> {
        // Redirects are not followed by the client: each step is checked here.
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

    /// Reads a page as Markdown.
    pub async fn read(&self, address: &str) -> Result<PageText, FetchError> {
        let mut url = self.checked(address)?;
        for _ in 0..=self.settings.max_redirects {
            if self.settings.robots && !self.robots_of(&url).await.allow(&path_of(&url)) {
                return Err(FetchError::Robots);
            }
            match self.get(&url).await? {
                FetchResult::Moved(location) => {
                    let next = url.join(&location).map_err(|error| FetchError::Failed {
                        reason: format!("it redirects to `{location}`: {error}"),
                    })?;
                    url = self.checked(next.as_str())?;
                }
                FetchResult::Page { bytes, kind } => return self.text_of(&url, bytes, &kind).await,
            }
        }
        Err(FetchError::Failed {
            reason: format!("more than {} redirects", self.settings.max_redirects),
        })
    }

    /// Parses an address and refuses what must not be read. The parser turns decimal, octal and hexadecimal spellings of
    /// an IPv4 address into the address, so they are checked like any other.
    fn checked(&self, address: &str) -> Result<Url, FetchError> {
        let refused = |reason: String| FetchError::Refused { reason };
        let url = Url::parse(address.trim()).map_err(|error| refused(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("the scheme {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it has a user name in it".into()));
        }
        let host = url.host_str().ok_or_else(|| refused("it has no host".into()))?;
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
            return Err(FetchError::Failed {
                reason: format!("it answered {}", answer.status.as_u16()),
            });
        }
        let kind = header(CONTENT_TYPE).unwrap_or_default();
        let packed = header(CONTENT_ENCODING).unwrap_or_default().to_ascii_lowercase();
        let limit = self.settings.max_bytes;
        let bytes = match packed.as_str() {
            "" | "identity" => answer.body,
            "gzip" | "x-gzip" => unpacked(&answer.body, limit)?,
            other => {
                return Err(FetchError::Kind {
                    kind: format!("packed with {other}"),
                });
            }
        };
        Ok(FetchResult::Page { bytes, kind })
    }

    async fn text_of(&self, url: &Url, bytes: Vec<u8>, kind: &str) -> Result<PageText, FetchError> {
        let essence = kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let charset = content::charset_of(kind);
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
        // Parsing is work, and a hostile page may bring a parser down: neither is the loop's.
        let work = tokio::task::spawn_blocking(move || {
            let mut page = match essence.as_str() {
                "application/pdf" => PageText {
                    title: String::new(),
                    markdown: content::text_of_pdf(&bytes).map_err(failed_with)?,
                },
                "" | "text/html" | "application/xhtml+xml" => {
                    let html = content::decoded(&bytes, charset.as_deref());
                    content::page_of_html(&html, Some(&address)).map_err(failed_with)?
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
                reason: "it cannot be parsed".into(),
            })
        })
    }

    /// The rules of a site, asked for once. A site that has none, or fails to say, allows everything, as the standard has
    /// it for 4xx; one that answers 5xx allows nothing.
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
        let Ok(mut url) = self.checked(&format!("{origin}/robots.txt")) else {
            return Robots::nothing_allowed();
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
                        .and_then(|next| self.checked(next.as_str()).ok());
                    match next {
                        Some(next) => url = next,
                        None => return Robots::nothing_allowed(),
                    }
                }
                Err(FetchError::Failed { reason }) if reason.starts_with("it answered 5") => {
                    return Robots::nothing_allowed();
                }
                // The page itself will say what is wrong with the site.
                Err(_) => return Robots::default(),
            }
        }
        Robots::nothing_allowed()
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

/// Unpacks at most `limit` bytes: a small file may hold gigabytes of nothing.
fn unpacked(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FetchError> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| FetchError::Failed {
            reason: format!("it cannot be unpacked: {error}"),
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
                reason: "it took too long".into(),
            },
            other => Self::Failed {
                reason: other.to_string(),
            },
        }
    }
}
