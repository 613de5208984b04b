//! One exchange with a search engine: time limit, retries with growing pauses, `Retry-After`, a limit on size, at most two
//! requests to a host at a time, and no secrets in errors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Url};
use satiety_models::retry_after;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::SearchError;

/// No answer of a search engine is larger.
const LARGEST_ANSWER: usize = 16 << 20;
/// How much of an error page is shown.
const SHOWN: usize = 200;
/// Requests to one host at a time.
const AT_ONCE: usize = 2;

/// Times and retries.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// The limit for one attempt.
    pub timeout: Duration,
    /// Attempts after the first, for broken connections, timeouts, 429 and 5xx.
    pub retries: u32,
    /// The pause before the first retry; it doubles each time.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for more gets no further attempt.
    pub longest_pause: Duration,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            retries: 3,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// A client.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    settings: ApiSettings,
    hosts: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl Api {
    pub(super) fn new(settings: &ApiSettings) -> Result<Self, SearchError> {
        // Another part of the program may have been first; any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .timeout(settings.timeout)
            .user_agent(super::super::sources_user_agent())
            // Keys of search engines are in the head or the address, and reqwest would carry both along.
            .redirect(satiety_models::same_origin_redirects())
            .build()
            .map_err(|error| SearchError::Unreachable {
                url: "any server".into(),
                reason: error.to_string(),
            })?;
        Ok(Self {
            client,
            settings: settings.clone(),
            hosts: Mutex::new(BTreeMap::new()),
        })
    }

    /// Asks for JSON.
    pub(super) async fn json<A: DeserializeOwned>(
        &self,
        url: &Url,
        make: impl Fn(&Client, Url) -> RequestBuilder,
    ) -> Result<A, SearchError> {
        let bytes = self.bytes(url, make).await?;
        // A list would pass for an object whose keys are all optional.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(SearchError::BadAnswer {
                url: shown(url),
                reason: format!("no JSON object in `{}`", beginning(&bytes)),
            });
        }
        serde_json::from_slice(&bytes).map_err(|error| SearchError::BadAnswer {
            url: shown(url),
            reason: format!("{error} in `{}`", beginning(&bytes)),
        })
    }

    /// Asks for bytes, again where that makes sense.
    pub(super) async fn bytes(
        &self,
        url: &Url,
        make: impl Fn(&Client, Url) -> RequestBuilder,
    ) -> Result<Vec<u8>, SearchError> {
        let gate = self.gate_of(url);
        // The semaphore is never closed.
        let _turn = gate.acquire().await;
        let mut pause = self.settings.first_pause;
        let mut left = self.settings.retries;
        loop {
            let error = match self.attempt(url, make(&self.client, url.clone())).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let asked = match &error {
                SearchError::Status { retry_after, .. } => *retry_after,
                _ => None,
            };
            let rest = asked.map_or(pause, |asked| asked.max(pause));
            if left == 0 || !is_worth_another_try(&error) || rest > self.settings.longest_pause {
                return Err(error);
            }
            tracing::info!(%error, pause = ?rest, "the search failed, trying again");
            tokio::time::sleep(rest).await;
            left -= 1;
            pause = (pause * 2).min(self.settings.longest_pause);
        }
    }

    async fn attempt(&self, url: &Url, request: RequestBuilder) -> Result<Vec<u8>, SearchError> {
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                return SearchError::Timeout {
                    url: shown(url),
                    limit: self.settings.timeout,
                };
            }
            // The address inside the error may hold a key.
            let error = error.without_url();
            let mut reason = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(deeper) = cause {
                reason = format!("{reason}: {deeper}");
                cause = deeper.source();
            }
            SearchError::Unreachable {
                url: shown(url),
                reason,
            }
        };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST_ANSWER {
                return Err(SearchError::BadAnswer {
                    url: shown(url),
                    reason: "it is larger than 16 MB".into(),
                });
            }
        }
        if status.is_success() {
            Ok(bytes)
        } else {
            Err(SearchError::Status {
                url: shown(url),
                status: status.as_u16(),
                message: beginning(&bytes),
                retry_after,
            })
        }
    }

    fn gate_of(&self, url: &Url) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = url.host_str().unwrap_or_default().to_owned();
        Arc::clone(
            hosts
                .entry(host)
                .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))),
        )
    }
}

fn is_worth_another_try(error: &SearchError) -> bool {
    match error {
        SearchError::Unreachable { .. } | SearchError::Timeout { .. } => true,
        SearchError::Status { status, .. } => {
            *status == 429 || ((500..600).contains(status) && *status != 501)
        }
        _ => false,
    }
}

/// An address without credentials and parameters, which may hold keys.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// The start of a body as one printable line.
pub(super) fn beginning(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Parses a base address and appends a path.
pub(super) fn endpoint(base: &str, path: &str) -> Result<Url, SearchError> {
    Url::parse(&format!("{}{path}", base.trim_end_matches('/'))).map_err(|error| SearchError::BadSpec {
        spec: base.to_owned(),
        reason: error.to_string(),
    })
}
