//! One JSON exchange with a provider: time limit, retries, `Retry-After`, readable errors, no secrets in them.
//! Knows nothing of embeddings or chats.
use std::fmt;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use reqwest::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keys::{AddressOrigin, KeyOwner, KeyRefusal, same_origin_redirects};

/// Where Ollama listens.
pub(crate) const OLLAMA: &str = "http://localhost:11434";
/// Where the protocol comes from.
pub(crate) const OPENAI: &str = "https://api.openai.com/v1";

/// No answer of a model is larger; what is, is not read to its end.
const LARGEST_ANSWER: usize = 256 << 20;
/// How much of an error page is shown.
const SHOWN: usize = 300;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// An address that leads nowhere, or a key that fits no header.
    #[error("`{address}`: {reason}")]
    BadAddress {
        /// What was written.
        address: String,
        /// What was expected.
        reason: String,
    },
    /// The server could not be reached or the connection broke, also after retries.
    #[error("cannot reach {url}")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// What the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server did not answer in time, also after retries.
    #[error("{url} did not answer within {limit:?}")]
    Timeout {
        /// The endpoint.
        url: String,
        /// The limit for one attempt.
        limit: Duration,
    },
    /// The server answered with an error status, also after retries where that makes sense.
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
    /// The server sent the request on to another server, which gets neither the key nor the text.
    #[error("{url} redirects to another server ({target}), and requests are not sent on to other servers")]
    Redirected {
        /// The endpoint.
        url: String,
        /// Scheme, host and port of the other server, or `?`.
        target: String,
    },
    /// The server answered with something else than the protocol says.
    #[error("{url} sent an answer we cannot use: {reason}")]
    BadAnswer {
        /// The endpoint.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A secret that is sent and never shown.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    owner: KeyOwner,
}

impl ApiKey {
    /// Wraps a key; surrounding white space, as files and variables tend to have, is cut off.
    pub fn new(key: &str, owner: KeyOwner) -> Self {
        Self {
            secret: key.trim().to_owned(),
            owner,
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// How to talk to a provider.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Sent in the header that the protocol has for it, if there is one and [`KeyOwner::may_be_sent`] allows it.
    pub api_key: Option<ApiKey>,
    /// Who decided on the address; a provider's key goes to foreign hosts only where the user did.
    pub address_origin: AddressOrigin,
    /// The limit for one attempt, from connecting to the last byte.
    pub timeout: Duration,
    /// Attempts after the first, for broken connections, timeouts, 429 and 5xx.
    pub retries: usize,
    /// The pause before the first retry; it doubles each time, with some jitter.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for more with `Retry-After` gets no further attempt.
    pub longest_pause: Duration,
    /// Texts in one request for embeddings.
    pub batch: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            address_origin: AddressOrigin::default(),
            timeout: Duration::from_mins(1),
            retries: 4,
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(30),
            batch: 64,
        }
    }
}

/// What a protocol wants in every request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY` and `anthropic-version`.
    Anthropic,
}

impl Head {
    fn put(self, request: RequestBuilder, key: Option<&ApiKey>) -> RequestBuilder {
        match self {
            Self::Bearer => match key {
                Some(key) => request.bearer_auth(&key.secret),
                None => request,
            },
            Self::Anthropic => {
                let request = request.header("anthropic-version", "2023-06-01");
                match key {
                    Some(key) => match HeaderValue::from_str(&key.secret) {
                        Ok(mut value) => {
                            value.set_sensitive(true);
                            request.header("x-api-key", value)
                        }
                        // Fails when the request is built, as a bad bearer token does.
                        Err(_) => request.header("x-api-key", key.secret.as_str()),
                    },
                    None => request,
                }
            }
        }
    }
}

/// A client for one server.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    /// Without credentials and trailing slash; safe to show.
    base: String,
    /// With credentials, if the address had any.
    address: Url,
    head: Head,
    settings: HttpSettings,
    /// Why the key of the settings is not sent.
    withheld: Option<KeyRefusal>,
}

impl Transport {
    pub(crate) fn new(url: &str, head: Head, mut settings: HttpSettings) -> Result<Self, TransportError> {
        let bad = |reason: String| TransportError::BadAddress {
            address: url.to_owned(),
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
        let refusal = |key: &ApiKey| key.owner.may_be_sent(&address, settings.address_origin).err();
        let withheld = settings.api_key.as_ref().and_then(refusal);
        if let Some(KeyRefusal::PlainText { .. }) = &withheld {
            // The key belongs to this address and is needed there: asking without it would only hide the mistake.
            return Err(bad(withheld
                .map(|refusal| refusal.to_string())
                .unwrap_or_default()));
        }
        if withheld.is_some() {
            settings.api_key = None;
        }
        // Another part of the program may have been first; any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .timeout(settings.timeout)
            .user_agent(concat!("satiety/", env!("CARGO_PKG_VERSION")))
            .redirect(same_origin_redirects())
            .build()
            .map_err(|error| TransportError::Unreachable {
                url: shown.to_string(),
                source: error.into(),
            })?;
        Ok(Self {
            client,
            base: shown.as_str().trim_end_matches('/').to_owned(),
            address,
            head,
            settings,
            withheld,
        })
    }

    /// The server's address as it may be shown and hashed.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn bad_answer(&self, reason: &str) -> TransportError {
        TransportError::BadAnswer {
            url: self.base.clone(),
            reason: reason.to_owned(),
        }
    }

    pub(crate) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, TransportError> {
        self.exchange(Method::GET, path, None::<&()>).await
    }

    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, TransportError> {
        self.exchange(Method::POST, path, Some(body)).await
    }

    async fn exchange<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, TransportError> {
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
                TransportError::Status {
                    retry_after: Some(asked),
                    ..
                } => pause.map(|pause| pause.max(*asked)),
                _ => pause,
            })
            .await?;
        serde_json::from_slice(&bytes).map_err(|error| TransportError::BadAnswer {
            url: format!("{}{path}", self.base),
            reason: format!("{error} in `{}`", beginning(&bytes)),
        })
    }

    async fn attempt(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Vec<u8>, TransportError> {
        let url = format!("{}{path}", self.base);
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                TransportError::Timeout {
                    url: url.clone(),
                    limit: self.settings.timeout,
                }
            } else if error.is_builder() {
                TransportError::BadAddress {
                    address: url.clone(),
                    reason: "no request can be made of it; is the API key one line of plain characters?"
                        .to_owned(),
                }
            } else {
                // The address inside reqwest's error may hold a password.
                TransportError::Unreachable {
                    url: url.clone(),
                    source: error.without_url().into(),
                }
            }
        };
        let address = format!("{}{path}", self.address.as_str().trim_end_matches('/'));
        let request = self.client.request(method, address);
        let mut request = self.head.put(request, self.settings.api_key.as_ref());
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(TransportError::Redirected {
                target: redirect_target(&response),
                url,
            });
        }
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
            let mut message = beginning(&bytes);
            if let (401 | 403, Some(refusal)) = (status.as_u16(), &self.withheld) {
                message = format!("{message}; no key was sent: {refusal}");
            }
            Err(TransportError::Status {
                url,
                status: status.as_u16(),
                message,
                retry_after,
            })
        }
    }
}

/// Where a redirect leads: scheme, host and port, without anything an attacker could hide in a path.
fn redirect_target(response: &reqwest::Response) -> String {
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    target.map_or_else(|| "?".to_owned(), |target| target.origin().ascii_serialization())
}

fn is_worth_another_try(error: &TransportError, longest_pause: Duration) -> bool {
    match error {
        TransportError::Unreachable { .. } | TransportError::Timeout { .. } => true,
        TransportError::Status {
            status, retry_after, ..
        } => {
            let busy = *status == 429 || (500..600).contains(status) && *status != 501;
            busy && retry_after.is_none_or(|asked| asked <= longest_pause)
        }
        _ => false,
    }
}

/// `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3); what is neither is ignored.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
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

/// The model's name and the address in what follows `ollama:` and the like.
pub(crate) fn model_and_address(rest: &str) -> (&str, Option<&str>) {
    // A model's name may hold `@` and `:`; an address begins with its scheme.
    let place = ["@http://", "@https://"]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min();
    place.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])))
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The start of a body as one printable line.
pub(crate) fn beginning(bytes: &[u8]) -> String {
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
        let transport = Transport::new(
            "http://user:secret@localhost:1/",
            Head::Bearer,
            HttpSettings::default(),
        )
        .unwrap();
        assert_eq!(transport.base(), "http://localhost:1");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "localhost:11434", "ftp://host", "http://"] {
            assert!(
                matches!(
                    Transport::new(url, Head::Bearer, HttpSettings::default()),
                    Err(TransportError::BadAddress { .. })
                ),
                "{url}"
            );
        }
    }
}
