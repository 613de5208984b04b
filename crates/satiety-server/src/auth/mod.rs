//! Authentication and authorization: bearer tokens, or a cookie for pages; allowed host names and origins;
//! rate limits.
//!
//! This module does not know what is requested. Tokens are hashed before they are stored or compared, and
//! never logged.

pub(crate) mod audit;
mod login;
mod origin;
mod rates;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, StatusCode, header};
use satiety::memory::Author;
use satiety_engine::Engine;
pub use satiety_engine::tokens::Scope;
use satiety_engine::tokens::Token;

use crate::http::Problem;

pub(crate) use login::{COOKIE, login, login_page, logout};
pub use origin::Names;
pub use rates::RateSettings;
pub(crate) use rates::Rates;

/// How long a valid token is cached: a revocation takes effect after this time at the latest.
const TOKEN_CACHE_TTL: Duration = Duration::from_secs(5);
/// Maximum number of cached tokens.
const TOKEN_CACHE_SIZE: usize = 1024;

/// Access policy of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No token required; for loopback only.
    Open,
    /// A valid token is required.
    Tokens,
}

/// Authenticated sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Id of the token, or `loopback`.
    pub who: String,
    /// Highest scope that is permitted.
    pub scope: Scope,
    /// Address of the client.
    pub address: IpAddr,
    /// Whether a browser sends the credentials automatically, so that a foreign page could abuse them.
    pub ambient: bool,
    /// Tenant of the token; `None` for the main store.
    pub tenant: Option<String>,
}

impl Caller {
    /// Author for actions that only a person may take: the holder of an admin token was given it by a person,
    /// while a caller on loopback without a token may be any program.
    pub(crate) fn author(&self) -> Author {
        if self.scope == Scope::Admin && self.who != LOOPBACK {
            Author::Person
        } else {
            Author::Agent
        }
    }

    /// Key for rate limits: the token id, or the address of a caller without one.
    pub(crate) fn key(&self) -> String {
        if self.who == LOOPBACK {
            self.address.to_string()
        } else {
            self.who.clone()
        }
    }
}

/// Caller name for requests without a token.
const LOOPBACK: &str = "loopback";

/// Authenticates and rate-limits requests.
#[derive(Debug)]
pub struct Auth {
    access: Access,
    pub(crate) names: Names,
    pub(crate) rates: Rates,
    believed: Mutex<HashMap<blake3::Hash, (Token, Instant)>>,
}

impl Auth {
    /// Creates an authenticator with these host names and rate limits.
    pub fn new(access: Access, names: Names, rates: RateSettings) -> Self {
        Self {
            access,
            names,
            rates: Rates::new(rates),
            believed: Mutex::default(),
        }
    }

    /// Access policy of the server.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Authenticates a request. Returns `None` if a token is required and missing. An invalid token is always
    /// an error.
    pub(crate) async fn caller(
        &self,
        engine: &Engine,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Result<Option<Caller>, Problem> {
        let (presented, ambient) = match (bearer(headers)?, cookie(headers)) {
            (Some(token), _) => (token, false),
            (None, Some(token)) => (token, true),
            (None, None) => {
                return Ok(self.anonymous_caller(address));
            }
        };
        let refused = || {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "the token is unknown, expired or revoked",
            )
            .hint("create one on the server with `satiety token create`")
        };
        let Some(token) = self.token(engine, presented).await? else {
            self.rates.failed(address)?;
            // An expired cookie, or one of another server on this host, must not lock the user out.
            if ambient {
                return Ok(self.anonymous_caller(address));
            }
            return Err(refused());
        };
        Ok(Some(Caller {
            who: token.token_id,
            scope: token.scope,
            address,
            ambient,
            tenant: token.tenant,
        }))
    }

    /// Caller for a request without a token.
    fn anonymous_caller(&self, address: IpAddr) -> Option<Caller> {
        (self.access == Access::Open).then(|| Caller {
            who: LOOPBACK.into(),
            scope: Scope::Admin,
            address,
            ambient: true,
            tenant: None,
        })
    }

    async fn token(&self, engine: &Engine, presented: &str) -> Result<Option<Token>, Problem> {
        let key = blake3::hash(presented.as_bytes());
        let now = Instant::now();
        let known = {
            let believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
            believed
                .get(&key)
                .filter(|(_, at)| now.duration_since(*at) < TOKEN_CACHE_TTL)
                .map(|(token, _)| token.clone())
        };
        if known.is_some() {
            return Ok(known);
        }
        let token = engine.tokens().check(presented).await?;
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        believed.retain(|_, (_, at)| now.duration_since(*at) < TOKEN_CACHE_TTL);
        if let Some(token) = &token
            && believed.len() < TOKEN_CACHE_SIZE
        {
            believed.insert(key, (token.clone(), now));
        }
        Ok(token)
    }
}

/// Checks that the caller has the required scope.
pub(crate) fn permit(caller: Option<&Caller>, needed: Scope) -> Result<&Caller, Problem> {
    match caller {
        None => Err(Problem::new(StatusCode::UNAUTHORIZED, "a token is required")
            .hint("send `Authorization: Bearer TOKEN`; create a token on the server with `satiety token create`")),
        Some(caller) if caller.scope < needed => Err(Problem::forbidden(format!(
            "scope `{needed}` is required, but the token has scope `{}`",
            caller.scope
        ))),
        Some(caller) => Ok(caller),
    }
}

/// Whether a method is safe (changes nothing).
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let unreadable = || {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "invalid header `Authorization` (expected `Bearer TOKEN`)",
        )
    };
    let text = value.to_str().map_err(|_| unreadable())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unreadable)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(unreadable());
    }
    Ok(Some(token.trim()))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_bearer_tokens_are_accepted() {
        let with = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(text));
            bearer(&headers)
                .map(|token| token.map(str::to_owned))
                .map_err(|problem| problem.status)
        };
        assert_eq!(with("Bearer x"), Ok(Some("x".into())));
        assert_eq!(with("bearer  x "), Ok(Some("x".into())));
        for bad in ["Basic eDp5", "Bearer", "Bearer ", "x"] {
            assert_eq!(with(bad), Err(401), "{bad}");
        }
        assert_eq!(
            bearer(&HeaderMap::new()).map_err(|problem| problem.status),
            Ok(None)
        );
    }

    #[test]
    fn the_session_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("a=b; satiety_token=secret; c=d"),
        );
        assert_eq!(cookie(&headers), Some("secret"));
        headers.insert(header::COOKIE, HeaderValue::from_static("xsatiety_token=secret"));
        assert_eq!(cookie(&headers), None);
    }

    #[test]
    fn a_narrower_scope_is_insufficient() {
        let caller = Caller {
            who: "t".into(),
            scope: Scope::Write,
            address: IpAddr::from([127, 0, 0, 1]),
            ambient: false,
            tenant: None,
        };
        assert!(permit(Some(&caller), Scope::Read).is_ok());
        assert!(permit(Some(&caller), Scope::Write).is_ok());
        assert_eq!(
            permit(Some(&caller), Scope::Admin)
                .map_err(|problem| problem.status)
                .err(),
            Some(403)
        );
        assert_eq!(
            permit(None, Scope::Read).map_err(|problem| problem.status).err(),
            Some(401)
        );
    }
}
