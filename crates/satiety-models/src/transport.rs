//! JSON requests to a provider: authentication, and readable errors without secrets. Independent of
//! embeddings and chats; the client implements retries and limits.
use std::fmt;
use std::time::Duration;

use reqwest::header::{HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{Client, HttpAnswer, HttpError, HttpPolicy};
use crate::keys::{AddressOrigin, KeyOwner, KeyRefusal};

/// Default address of Ollama.
pub(crate) const OLLAMA: &str = "http://localhost:11434";
/// Default address of OpenAI.
pub(crate) const OPENAI: &str = "https://api.openai.com/v1";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The address is not usable, or the key does not fit in a header.
    #[error("invalid address `{address}`: {reason}")]
    BadAddress { address: String, reason: String },
    /// The server could not be reached or the connection broke, including retries.
    #[error("cannot reach {url}")]
    Unreachable {
        url: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server did not answer in time, including retries.
    #[error("{url} did not answer within {limit:?}")]
    Timeout {
        url: String,
        /// Timeout of one attempt.
        limit: Duration,
    },
    /// The server answered with an error status, including retries for transient ones.
    #[error("{url} answered {status}: {message}")]
    Status {
        url: String,
        status: u16,
        /// Start of the response body.
        message: String,
        /// Pause requested by the server.
        retry_after: Option<Duration>,
    },
    /// The server redirected the request to another server, which receives neither key nor text.
    #[error("{url} redirects to another server ({target}), which is not followed")]
    Redirected {
        url: String,
        /// Scheme, host and port of the other server, or `?`.
        target: String,
    },
    /// The response does not follow the protocol.
    #[error("invalid response from {url}: {reason}")]
    BadAnswer { url: String, reason: String },
}

/// Secret that is sent and never displayed.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    owner: KeyOwner,
}

impl ApiKey {
    /// Wraps a key and trims the surrounding whitespace that files and variables often contain.
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

#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Sent in the header that the protocol defines, if set and [`KeyOwner::check_destination`] allows it.
    pub api_key: Option<ApiKey>,
    /// Origin of the address; a provider's key goes to other hosts only if the user set the address.
    pub address_origin: AddressOrigin,
    /// Timeouts and retries.
    pub policy: HttpPolicy,
    /// Number of texts per embedding request.
    pub batch: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            address_origin: AddressOrigin::default(),
            policy: HttpPolicy::default(),
            batch: 64,
        }
    }
}

/// Authentication headers of a protocol.
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
                        // Fails when the request is built, as an invalid bearer token does.
                        Err(_) => request.header("x-api-key", key.secret.as_str()),
                    },
                    None => request,
                }
            }
        }
    }
}

/// Client for one server.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    /// Without credentials and trailing slash; safe to display.
    base: String,
    /// Including credentials, if the address had any.
    address: Url,
    head: Head,
    settings: HttpSettings,
    /// Reason why the configured key is not sent.
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
        // Both fail only for addresses without a host, which were rejected above.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        let refusal = |key: &ApiKey| {
            key.owner
                .check_destination(&address, settings.address_origin)
                .err()
        };
        let withheld = settings.api_key.as_ref().and_then(refusal);
        if let Some(KeyRefusal::PlainText { .. }) = &withheld {
            // The key belongs to this address: a request without it would only hide the mistake.
            return Err(bad(withheld
                .map(|refusal| refusal.to_string())
                .unwrap_or_default()));
        }
        if withheld.is_some() {
            settings.api_key = None;
        }
        let client = Client::new(settings.policy.clone()).map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            client,
            base: shown.as_str().trim_end_matches('/').to_owned(),
            address,
            head,
            settings,
            withheld,
        })
    }

    /// The server's address without credentials.
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
        let url = format!("{}{path}", self.base);
        let bad = |reason: &str| TransportError::BadAddress {
            address: url.clone(),
            reason: reason.to_owned(),
        };
        let address = format!("{}{path}", self.address.as_str().trim_end_matches('/'));
        let address = Url::parse(&address).map_err(|error| bad(&error.to_string()))?;
        let request = self.client.request(method, address);
        let mut request = self.head.put(request, self.settings.api_key.as_ref());
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = self.client.send(request).await.map_err(|error| match error {
            HttpError::Timeout { limit } => TransportError::Timeout {
                url: url.clone(),
                limit,
            },
            HttpError::Unreachable(error) => TransportError::Unreachable {
                url: url.clone(),
                source: error.into(),
            },
            HttpError::Invalid(_) => {
                bad("cannot build a request; check that the API key is one line of printable characters")
            }
            other => self.bad_answer(&other.to_string()),
        })?;
        if answer.status.is_redirection() {
            return Err(TransportError::Redirected {
                target: redirect_target(&answer),
                url,
            });
        }
        if !answer.status.is_success() {
            let status = answer.status.as_u16();
            let mut message = answer.excerpt();
            if let (401 | 403, Some(refusal)) = (status, &self.withheld) {
                message = format!("{message}; no API key was sent: {refusal}");
            }
            return Err(TransportError::Status {
                url,
                status,
                message,
                retry_after: answer.retry_after(),
            });
        }
        serde_json::from_slice(&answer.body).map_err(|error| TransportError::BadAnswer {
            url,
            reason: format!("{error} in `{}`", answer.excerpt()),
        })
    }
}

/// Target of a redirect: scheme, host and port, without a path that an attacker could choose.
fn redirect_target(answer: &HttpAnswer) -> String {
    let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| answer.url.join(location).ok());
    target.map_or_else(|| "?".to_owned(), |target| target.origin().ascii_serialization())
}

/// Splits the part after `ollama:` and similar prefixes into model name and address.
pub(crate) fn model_and_address(rest: &str) -> (&str, Option<&str>) {
    // A model name may contain `@` and `:`; an address begins with its scheme.
    let place = ["@http://", "@https://"]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min();
    place.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_addresses_omit_the_password() {
        let transport = Transport::new(
            "http://user:secret@localhost:1/",
            Head::Bearer,
            HttpSettings::default(),
        )
        .unwrap();
        assert_eq!(transport.base(), "http://localhost:1");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
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
