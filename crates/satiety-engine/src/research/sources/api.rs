//! HTTP client for search engines: at most two concurrent requests per host, and no secrets in errors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use satiety_models::http::{Client, HttpError, HttpPolicy, Method, RequestBuilder, Url, excerpt};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::SearchError;

/// Maximum concurrent requests per host.
const CONCURRENCY: usize = 2;

/// Timeouts and retries of searches.
pub fn search_policy() -> HttpPolicy {
    HttpPolicy {
        timeout: Some(Duration::from_secs(20)),
        retries: 3,
        first_pause: Duration::from_millis(500),
        max_bytes: 16 << 20,
        user_agent: super::super::sources_user_agent(),
        ..HttpPolicy::default()
    }
}

#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    hosts: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl Api {
    pub(super) fn new(policy: &HttpPolicy) -> Result<Self, SearchError> {
        let client = Client::new(policy.clone()).map_err(|error| SearchError::Unreachable {
            url: "any server".into(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            client,
            hosts: Mutex::new(BTreeMap::new()),
        })
    }

    pub(super) fn get(&self, url: &Url) -> RequestBuilder {
        self.client.request(Method::GET, url.clone())
    }

    pub(super) fn post(&self, url: &Url) -> RequestBuilder {
        self.client.request(Method::POST, url.clone())
    }

    /// Requests JSON from `url`.
    pub(super) async fn json<A: DeserializeOwned>(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<A, SearchError> {
        let bytes = self.bytes(url, request).await?;
        // A list would deserialize as an object whose keys are all optional.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(SearchError::BadAnswer {
                url: display_url(url),
                reason: format!("expected a JSON object, got `{}`", excerpt(&bytes)),
            });
        }
        serde_json::from_slice(&bytes).map_err(|error| SearchError::BadAnswer {
            url: display_url(url),
            reason: format!("{error} in `{}`", excerpt(&bytes)),
        })
    }

    /// Requests bytes from `url`.
    pub(super) async fn bytes(&self, url: &Url, request: RequestBuilder) -> Result<Vec<u8>, SearchError> {
        let permits = self.semaphore(url);
        // The semaphore is never closed.
        let _turn = permits.acquire().await;
        let answer = self.client.send(request).await.map_err(|error| match error {
            HttpError::Timeout { limit } => SearchError::Timeout {
                url: display_url(url),
                limit,
            },
            HttpError::TooLarge { .. } => SearchError::BadAnswer {
                url: display_url(url),
                reason: error.to_string(),
            },
            _ => SearchError::Unreachable {
                url: display_url(url),
                reason: error.to_string(),
            },
        })?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(SearchError::Status {
            url: display_url(url),
            status: answer.status.as_u16(),
            message: answer.excerpt(),
            retry_after: answer.retry_after(),
        })
    }

    fn semaphore(&self, url: &Url) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = url.host_str().unwrap_or_default().to_owned();
        Arc::clone(
            hosts
                .entry(host)
                .or_insert_with(|| Arc::new(Semaphore::new(CONCURRENCY))),
        )
    }
}

/// Formats a URL without credentials and parameters, which may contain keys.
pub(super) fn display_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// Parses a base URL and appends a path.
pub(super) fn endpoint(base: &str, path: &str) -> Result<Url, SearchError> {
    Url::parse(&format!("{}{path}", base.trim_end_matches('/'))).map_err(|error| SearchError::BadSpec {
        spec: base.to_owned(),
        reason: error.to_string(),
    })
}
