//! HTTP target: posts the request to an address and maps HTTP errors to error kinds.

use std::time::{Duration, Instant};

use satiety::bench::contract::parse::{from_object, from_stdout, parse_usage};
use satiety::bench::contract::spec::HttpSpec;
use satiety::bench::contract::{ErrorKind, Request, Response, TargetError};
use satiety_models::http::header::{HeaderMap, HeaderName, HeaderValue};
use satiety_models::http::{Client, HttpError, HttpPolicy, Method, Url};
use satiety_models::{AddressOrigin, KeyOwner, KeyRefusal};
use serde_json::Value;
use tokio::time::timeout;

use super::exec::{too_long, too_much};
use super::template::fill;
use super::{Attempt, OpenError, TargetContext};

#[derive(Debug)]
pub struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
    spec: HttpSpec,
}

impl Http {
    pub(super) fn open(spec: &HttpSpec, context: &TargetContext) -> Result<Self, OpenError> {
        for (key, pointer) in [
            ("output_pointer", &spec.output_pointer),
            ("usage_pointer", &spec.usage_pointer),
        ] {
            if pointer
                .as_ref()
                .is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/'))
            {
                return Err(OpenError::description(key, "a JSON Pointer starts with `/`"));
            }
        }
        Ok(Self {
            client: client(usize::try_from(spec.max_output_bytes).unwrap_or(usize::MAX))?,
            url: address(&spec.url)?,
            headers: headers(spec, context, &address(&spec.url)?)?,
            spec: spec.clone(),
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        let started = Instant::now();
        let limit = Duration::from_millis(request.deadline_ms);
        let outcome = match timeout(limit, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(too_long(request.deadline_ms)),
        };
        Attempt::bare(outcome, started.elapsed())
    }

    async fn exchange(&self, request: &Request) -> Result<Response, TargetError> {
        let post = self.client.request(Method::POST, self.url.clone());
        let post = post.headers(self.headers.clone());
        let post = match &self.spec.body {
            Some(template) => post.json(&fill(template, request, None)?),
            None => post.json(request),
        };
        let answer = self.client.send(post).await.map_err(|error| match error {
            HttpError::TooLarge { .. } => too_much(self.spec.max_output_bytes),
            HttpError::Invalid(_) => TargetError::new(ErrorKind::Harness, error.to_string()),
            _ => TargetError::new(ErrorKind::Infra, error.to_string()),
        })?;
        if answer.status.is_success() {
            return self.read(&answer.body);
        }
        let status = answer.status.as_u16();
        let pause = answer.retry_after();
        Err(TargetError {
            kind: kind_of_status(status),
            message: format!("HTTP status {status}: {}", answer.excerpt()),
            retry_after_ms: pause.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    fn read(&self, body: &[u8]) -> Result<Response, TargetError> {
        if self.spec.output_pointer.is_none() && self.spec.usage_pointer.is_none() {
            return from_stdout(body);
        }
        let wrong = |reason: String| TargetError::new(ErrorKind::Protocol, reason);
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| wrong(format!("the response is not JSON: {error}")))?;
        let usage = self
            .spec
            .usage_pointer
            .as_ref()
            .and_then(|pointer| parse_usage(value.pointer(pointer)?.as_object()?));
        let mut response = match &self.spec.output_pointer {
            Some(pointer) => Response {
                output: value
                    .pointer(pointer)
                    .cloned()
                    .ok_or_else(|| wrong(format!("the response has no value at `{pointer}`")))?,
                // Without a configured pointer, look for token usage in the usual fields.
                usage: value.as_object().and_then(parse_usage),
                ..Response::default()
            },
            None => match value {
                Value::Object(object) => from_object(object)?,
                other => Response {
                    output: other,
                    ..Response::default()
                },
            },
        };
        response.usage = usage.or(response.usage);
        Ok(response)
    }
}

/// Maps an unsuccessful HTTP status to an error kind. A plain 500 is the system's own failure; intermediaries
/// (proxies, queues) use the others. All of them count against the target, which is whatever answers at the
/// address.
pub(super) fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        429 => ErrorKind::RateLimit,
        503 | 529 => ErrorKind::Overloaded,
        408 | 425 | 502 | 504 | 520..=527 => ErrorKind::Infra,
        _ => ErrorKind::Target,
    }
}

/// HTTP client for targets: timeouts and retries are up to the runner.
pub(super) fn client(max_bytes: usize) -> Result<Client, OpenError> {
    Client::new(HttpPolicy {
        max_bytes,
        ..HttpPolicy::single_attempt(None)
    })
    .map_err(|error| OpenError::description("url", error.to_string()))
}

/// Parses an HTTP or HTTPS address.
pub(crate) fn address(url: &str) -> Result<Url, OpenError> {
    let parsed = Url::parse(url).map_err(|error| OpenError::description("url", error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(OpenError::description(
            "url",
            "expected an http:// or https:// address",
        ));
    }
    Ok(parsed)
}

/// Rejects sending a provider's own key to an address in a description.
pub(super) fn refuse_foreign_key(key: &'static str, variable: &str, url: &Url) -> Result<(), OpenError> {
    match KeyOwner::from_variable(variable).check_destination(url, AddressOrigin::Described) {
        Err(refusal @ KeyRefusal::ForeignHost { .. }) => {
            Err(OpenError::description(key, refusal.to_string()))
        }
        _ => Ok(()),
    }
}

/// Value of a secret header: of the named variable, or of a text with variable names in braces.
fn secret_value(text: &str, context: &TargetContext, url: &Url) -> Result<String, OpenError> {
    let variable = |name: &str| {
        refuse_foreign_key("secret_headers", name, url)?;
        context.environment.get(name).map(str::to_owned).ok_or_else(|| {
            OpenError::description(
                "secret_headers",
                format!("the environment variable {name} is not set"),
            )
        })
    };
    if !text.contains("{{") {
        return variable(text);
    }
    let (mut value, mut rest) = (String::new(), text);
    while let Some((before, inside)) = rest.split_once("{{") {
        let (name, after) = inside.split_once("}}").ok_or_else(|| {
            OpenError::description("secret_headers", format!("`{text}` has an unfinished variable"))
        })?;
        value += before;
        value += variable(name.trim())?.trim();
        rest = after;
    }
    Ok(value + rest)
}

fn headers(spec: &HttpSpec, context: &TargetContext, url: &Url) -> Result<HeaderMap, OpenError> {
    let mut headers = HeaderMap::new();
    let name_of = |name: &str| {
        HeaderName::try_from(name)
            .map_err(|_| OpenError::description("headers", format!("`{name}` is not a valid header name")))
    };
    for (name, value) in &spec.headers {
        let value = HeaderValue::from_str(value).map_err(|_| {
            OpenError::description(
                "headers",
                format!("the value of `{name}` is not a valid header value"),
            )
        })?;
        headers.insert(name_of(name)?, value);
    }
    for (name, variable) in &spec.secret_headers {
        let secret = secret_value(variable, context, url)?;
        let mut value = HeaderValue::from_str(secret.trim()).map_err(|_| {
            OpenError::description(
                "secret_headers",
                format!("the value of {variable} is not a valid header value"),
            )
        })?;
        value.set_sensitive(true);
        headers.insert(name_of(name)?, value);
    }
    Ok(headers)
}
