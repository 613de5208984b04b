//! One JSON exchange with a provider: time limit, retries, `Retry-After`, readable errors, no secrets in them.
//! Knows nothing of embeddings.
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::HttpSettings;
use crate::embedder::EmbedError;

/// No list of vectors is larger; what is, is not read to its end.
const LARGEST_ANSWER: usize = 256 << 20;
/// How much of an error page is shown.
const SHOWN: usize = 300;

/// A client for one server.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client,
    /// Without credentials and trailing slash; safe to show.
    base: String,
    /// With credentials, if the address had any.
    address: Url,
    settings: HttpSettings,
}

impl Transport {
    pub(super) fn new(url: &str, settings: HttpSettings) -> Result<Self, EmbedError> {
        let bad = |reason: String| EmbedError::BadSpec {
            spec: url.to_owned(),
            reason,
        };
        let address = Url::parse(url.trim_end_matches('/')).map_err(|error| bad(error.to_string()))?;
        if !matches!(address.scheme(), "http" | "https") || address.host().is_none() {
            return Err(bad("expected an http:// or https:// address".to_owned()));
        }
        let mut shown = address.clone();
        // Both fail only for addresses without a host, refused above.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        // Another part of the program may have been first; any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .timeout(settings.timeout)
            .user_agent(concat!("satiety/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| EmbedError::Unreachable {
                url: shown.to_string(),
                source: error.into(),
            })?;
        Ok(Self {
            client,
            base: shown.as_str().trim_end_matches('/').to_owned(),
            address,
            settings,
        })
    }

    /// The server's address as it may be shown and hashed.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn bad_answer(&self, reason: &str) -> EmbedError {
        EmbedError::BadAnswer {
            url: self.base.clone(),
            reason: reason.to_owned(),
        }
    }

    pub(super) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, EmbedError> {
        self.exchange(Method::GET, path, None::<&()>).await
    }

    pub(super) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, EmbedError> {
        self.exchange(Method::POST, path, Some(body)).await
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, EmbedError> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.settings.first_pause)
            .with_max_delay(self.settings.longest_pause)
            .with_max_times(self.settings.retries)
            .with_jitter();
        let bytes = (|| self.attempt(method.clone(), path, body))
            .retry(pauses)
            .when(|error| is_worth_another_try(error, self.settings.longest_pause))
            .adjust(|error, pause| match error {
                // No pause means that the attempts are used up, whatever the server asks for.
                EmbedError::Status {
                    retry_after: Some(asked),
                    ..
                } => pause.map(|pause| pause.max(*asked)),
                _ => pause,
            })
            .await?;
        serde_json::from_slice(&bytes).map_err(|error| EmbedError::BadAnswer {
            url: format!("{}{path}", self.base),
            reason: format!("{error} in `{}`", beginning(&bytes)),
        })
    }

    async fn attempt(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Vec<u8>, EmbedError> {
        let url = format!("{}{path}", self.base);
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                EmbedError::Timeout {
                    url: url.clone(),
                    limit: self.settings.timeout,
                }
            } else if error.is_builder() {
                EmbedError::BadSpec {
                    spec: url.clone(),
                    reason: "no request can be made of it; is the API key one line of plain characters?"
                        .to_owned(),
                }
            } else {
                // The address inside reqwest's error may hold a password.
                EmbedError::Unreachable {
                    url: url.clone(),
                    source: error.without_url().into(),
                }
            }
        };
        let address = format!("{}{path}", self.address.as_str().trim_end_matches('/'));
        let mut request = self.client.request(method, address);
        if let Some(key) = &self.settings.api_key {
            request = request.bearer_auth(&key.0);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST_ANSWER {
                return Err(self.bad_answer("more than 256 MB"));
            }
        }
        if status.is_success() {
            Ok(bytes)
        } else {
            Err(EmbedError::Status {
                url,
                status: status.as_u16(),
                message: beginning(&bytes),
                retry_after,
            })
        }
    }
}

fn is_worth_another_try(error: &EmbedError, longest_pause: Duration) -> bool {
    match error {
        EmbedError::Unreachable { .. } | EmbedError::Timeout { .. } => true,
        EmbedError::Status {
            status, retry_after, ..
        } => {
            let busy = *status == 429 || (500..600).contains(status) && *status != 501;
            busy && retry_after.is_none_or(|asked| asked <= longest_pause)
        }
        _ => false,
    }
}

/// `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3); what is neither is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(value)
        .ok()?;
    // A date that has passed asks for no pause.
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// The start of a body as one printable line.
fn beginning(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &str) -> Option<Duration> {
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(header("7"), Some(Duration::from_secs(7)));
        assert_eq!(header("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let soon = jiff::Timestamp::now() + Duration::from_secs(100);
        let soon = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&soon)
            .unwrap();
        let found = header(&soon).unwrap();
        assert!((90..=100).contains(&found.as_secs()), "{found:?}");
        assert_eq!(header("soon"), None);
        assert_eq!(header("-1"), None);
    }

    #[test]
    fn an_address_with_a_password_is_shown_without_it() {
        let transport = Transport::new("http://user:secret@localhost:1/", HttpSettings::default()).unwrap();
        assert_eq!(transport.base(), "http://localhost:1");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "localhost:11434", "ftp://host", "http://"] {
            assert!(
                matches!(
                    Transport::new(url, HttpSettings::default()),
                    Err(EmbedError::BadSpec { .. })
                ),
                "{url}"
            );
        }
    }
}
