//! HTTP client for all outgoing requests: timeouts, retries with backoff, `Retry-After`, a limit on response
//! size, redirects, and a check of resolved addresses.
//!
//! A response with an error status is returned as a response; its meaning is up to the caller. Errors never
//! contain the request's address, which may hold a password or a key.
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Method, Request, RequestBuilder, StatusCode, Url};

/// Maximum number of redirects on one server.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of bytes read from an error page.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum number of body bytes in messages.
const EXCERPT_BYTES: usize = 300;

/// Returns the reason why an address must not be connected to.
pub type AddressGuard = fn(IpAddr) -> Result<(), &'static str>;

/// Timeouts, retries and limits of requests.
#[derive(Debug, Clone)]
pub struct HttpPolicy {
    pub connect_timeout: Duration,
    /// Timeout of one attempt, from connecting to the last byte. `None` if the caller limits the total time.
    pub timeout: Option<Duration>,
    /// Attempts after the first, on broken connections, timeouts, 429 and 5xx except 501.
    pub retries: usize,
    /// Pause before the first retry; doubles each time, with jitter.
    pub first_pause: Duration,
    /// Longest pause. If `Retry-After` asks for more, the request is not retried.
    pub longest_pause: Duration,
    /// Maximum size of a successful response.
    pub max_bytes: usize,
    pub redirects: Redirects,
    /// Rejects a host if any address it resolves to is refused. The connection uses the same resolver, so the
    /// name cannot change in between; proxies are not used.
    pub address_guard: Option<AddressGuard>,
    pub user_agent: &'static str,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            timeout: Some(Duration::from_mins(1)),
            retries: 4,
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(30),
            max_bytes: 256 << 20,
            redirects: Redirects::SameOrigin,
            address_guard: None,
            user_agent: concat!("satiety/", env!("CARGO_PKG_VERSION")),
        }
    }
}

impl HttpPolicy {
    /// One attempt without redirects: a redirected POST would lose its body.
    pub fn single_attempt(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            retries: 0,
            redirects: Redirects::None,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Redirects are returned as responses.
    None,
    /// Redirects to the same scheme, host and port: requests carry a key and private text, which must not
    /// reach another server.
    SameOrigin,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The request cannot be built, because a header or the address is invalid.
    #[error("{}", with_causes(.0))]
    Invalid(reqwest::Error),
    /// [`HttpPolicy::address_guard`] refused an address.
    #[error("refused: {0}")]
    Refused(String),
    /// The server could not be reached or the connection broke, including retries.
    #[error("{}", with_causes(.0))]
    Unreachable(reqwest::Error),
    /// No response in time, including retries.
    #[error("did not answer within {} seconds", limit.as_secs_f64())]
    Timeout {
        /// Timeout of one attempt.
        limit: Duration,
    },
    /// The response exceeds the size limit of the policy.
    #[error("response is larger than {limit} bytes")]
    TooLarge { limit: usize },
}

/// Response with any status.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Final address after redirects.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Body; truncated for error pages and empty for redirects.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// Pause requested by the server: `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3); other
    /// values are ignored.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = value.parse() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let date = jiff::fmt::rfc2822::DateTimeParser::new()
            .parse_timestamp(value)
            .ok()?;
        // A date in the past requests no pause.
        Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
    }

    /// Start of the body as one printable line.
    pub fn excerpt(&self) -> String {
        excerpt(&self.body)
    }

    fn is_transient(&self) -> bool {
        let status = self.status.as_u16();
        status == 429 || (500..600).contains(&status) && status != 501
    }
}

/// Sends requests according to its policy.
#[derive(Debug, Clone)]
pub struct Client {
    inner: reqwest::Client,
    policy: HttpPolicy,
}

impl Client {
    /// Creates a client without sending a request.
    pub fn new(policy: HttpPolicy) -> Result<Self, HttpError> {
        install_tls_provider();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(policy.connect_timeout)
            .user_agent(policy.user_agent)
            .redirect(match policy.redirects {
                Redirects::None => Policy::none(),
                Redirects::SameOrigin => same_origin_redirects(),
            });
        if let Some(limit) = policy.timeout {
            builder = builder.timeout(limit);
        }
        if let Some(guard) = policy.address_guard {
            // A proxy would resolve names itself, without this check.
            builder = builder.no_proxy().dns_resolver(Guarded(guard));
        }
        let inner = builder.build().map_err(HttpError::Invalid)?;
        Ok(Self { inner, policy })
    }

    /// Starts a request for [`send`](Self::send).
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.inner.request(method, url)
    }

    /// The underlying client, for libraries that send requests themselves. They then have to limit attempts
    /// and size.
    pub fn inner(&self) -> &reqwest::Client {
        &self.inner
    }

    /// Sends a request, with retries.
    pub async fn send(&self, request: RequestBuilder) -> Result<HttpAnswer, HttpError> {
        let request = request
            .build()
            .map_err(|error| HttpError::Invalid(error.without_url()))?;
        self.execute(request).await
    }

    /// [`send`](Self::send) for a complete request.
    pub async fn execute(&self, request: Request) -> Result<HttpAnswer, HttpError> {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.policy.first_pause)
            .with_max_delay(self.policy.longest_pause)
            .with_max_times(self.policy.retries)
            .with_jitter()
            .build();
        let mut request = request;
        loop {
            // Bodies are in memory, so they can be sent again.
            let again = request.try_clone();
            let outcome = self.attempt(request).await;
            let asked = match &outcome {
                Ok(answer) if answer.is_transient() => answer.retry_after().unwrap_or_default(),
                Err(HttpError::Unreachable(_) | HttpError::Timeout { .. }) => Duration::ZERO,
                _ => return outcome,
            };
            let (Some(again), Some(pause)) = (again, pauses.next()) else {
                return outcome;
            };
            if asked > self.policy.longest_pause {
                return outcome;
            }
            let pause = pause.max(asked);
            match &outcome {
                Ok(answer) => tracing::info!(status = answer.status.as_u16(), ?pause, "retrying request"),
                Err(error) => tracing::info!(%error, ?pause, "retrying request"),
            }
            tokio::time::sleep(pause).await;
            request = again;
        }
    }

    async fn attempt(&self, request: Request) -> Result<HttpAnswer, HttpError> {
        let failed = |error| self.failed(error);
        let mut response = self.inner.execute(request).await.map_err(failed)?;
        let mut answer = HttpAnswer {
            url: response.url().clone(),
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: Vec::new(),
        };
        if answer.status.is_redirection() {
            return Ok(answer);
        }
        if answer.status.is_success() {
            let limit = self.policy.max_bytes;
            while let Some(chunk) = response.chunk().await.map_err(failed)? {
                answer.body.extend_from_slice(&chunk);
                if answer.body.len() > limit {
                    return Err(HttpError::TooLarge { limit });
                }
            }
        } else {
            // The status is known; a truncated error page does not change it.
            while answer.body.len() < MAX_ERROR_BYTES
                && let Ok(Some(chunk)) = response.chunk().await
            {
                answer.body.extend_from_slice(&chunk);
            }
        }
        Ok(answer)
    }

    fn failed(&self, error: reqwest::Error) -> HttpError {
        let error = error.without_url();
        if error.is_builder() {
            return HttpError::Invalid(error);
        }
        // The guard's reason is nested inside the connection error.
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            if let Some(reason) = deeper.to_string().strip_prefix("refused: ") {
                return HttpError::Refused(reason.to_owned());
            }
            cause = deeper.source();
        }
        if error.is_timeout() {
            let connect = self.policy.connect_timeout;
            let limit = self.policy.timeout.unwrap_or(connect);
            return HttpError::Timeout {
                limit: if error.is_connect() {
                    limit.min(connect)
                } else {
                    limit
                },
            };
        }
        HttpError::Unreachable(error)
    }
}

/// Resolver that rejects a name if any of its addresses is refused.
struct Guarded(fn(IpAddr) -> Result<(), &'static str>);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                if let Err(reason) = guard(address.ip()) {
                    let reason = format!("{} resolves to {} ({reason})", name.as_str(), address.ip());
                    return Err(HttpError::Refused(reason).into());
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn same_origin_redirects() -> Policy {
    Policy::custom(|attempt| {
        let stays = attempt
            .previous()
            .last()
            .is_some_and(|from| from.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Installs ring as the TLS crypto provider of this process, for clients (which call it on creation) and
/// servers. Further calls have no effect.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Formats an error and its causes as one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Start of a body as one printable line.
pub fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_after(value: &str) -> Option<Duration> {
        let answer = HttpAnswer {
            url: Url::parse("http://localhost").unwrap(),
            status: StatusCode::TOO_MANY_REQUESTS,
            headers: HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]),
            body: Vec::new(),
        };
        answer.retry_after()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let soon = jiff::Timestamp::now() + Duration::from_secs(100);
        let soon = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&soon)
            .unwrap();
        let found = retry_after(&soon).unwrap();
        assert!((90..=100).contains(&found.as_secs()), "{found:?}");
        assert_eq!(retry_after("soon"), None);
        assert_eq!(retry_after("-1"), None);
    }
}
