//! Who asks, and may they? Tokens in the bearer header or, for pages, in a cookie; names and origins that we answer to;
//! how often one may ask.
//!
//! This module knows nothing of what is asked for. Secrets are hashed before they are kept or compared, and never logged.

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

/// A token that was found valid is taken to be so for this long: a revocation works after it at the latest.
const BELIEVED: Duration = Duration::from_secs(5);
/// Tokens that are remembered as valid.
const REMEMBERED: usize = 1024;

/// Who may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches the port: for loopback alone.
    Open,
    /// Who has a valid token.
    Tokens,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The id of the token, or `loopback`.
    pub who: String,
    /// What is permitted.
    pub scope: Scope,
    /// From where.
    pub address: IpAddr,
    /// Whether a browser adds the credentials by itself, so that a foreign page could use them.
    pub ambient: bool,
}

impl Caller {
    /// Who the caller is for what only a person may decide: whoever holds an administrator's token was given it by a
    /// person. Whoever comes over loopback without a token may be any program.
    pub(crate) fn author(&self) -> Author {
        if self.scope == Scope::Admin && self.who != LOOPBACK {
            Author::Person
        } else {
            Author::Agent
        }
    }

    /// What limits are counted by: the token, or the address of a caller without one.
    pub(crate) fn key(&self) -> String {
        if self.who == LOOPBACK {
            self.address.to_string()
        } else {
            self.who.clone()
        }
    }
}

/// Who comes without a token where none is needed.
const LOOPBACK: &str = "loopback";

/// The doorkeeper.
#[derive(Debug)]
pub struct Auth {
    access: Access,
    pub(crate) names: Names,
    pub(crate) rates: Rates,
    believed: Mutex<HashMap<blake3::Hash, (Token, Instant)>>,
}

impl Auth {
    /// A doorkeeper who knows these names and rates.
    pub fn new(access: Access, names: Names, rates: RateSettings) -> Self {
        Self {
            access,
            names,
            rates: Rates::new(rates),
            believed: Mutex::default(),
        }
    }

    /// Who may come in.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Who asks; none where nobody says and somebody must. A token that is not valid is an error even where none is needed.
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
                return Ok(self.anybody(address));
            }
        };
        let refused = || {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "the token is unknown, has expired or was revoked",
            )
            .hint("`satiety token create` on the server makes one")
        };
        let Some(token) = self.token(engine, presented).await? else {
            self.rates.failed(address)?;
            // A cookie that is no longer valid, or of another server on this host, must not shut anybody out.
            if ambient {
                return Ok(self.anybody(address));
            }
            return Err(refused());
        };
        Ok(Some(Caller {
            who: token.token_id,
            scope: token.scope,
            address,
            ambient,
        }))
    }

    /// Who comes without saying who they are.
    fn anybody(&self, address: IpAddr) -> Option<Caller> {
        (self.access == Access::Open).then(|| Caller {
            who: LOOPBACK.into(),
            scope: Scope::Admin,
            address,
            ambient: true,
        })
    }

    async fn token(&self, engine: &Engine, presented: &str) -> Result<Option<Token>, Problem> {
        let key = blake3::hash(presented.as_bytes());
        let now = Instant::now();
        let known = {
            let believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
            believed
                .get(&key)
                .filter(|(_, at)| now.duration_since(*at) < BELIEVED)
                .map(|(token, _)| token.clone())
        };
        if known.is_some() {
            return Ok(known);
        }
        let token = engine.tokens().check(presented).await?;
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        believed.retain(|_, (_, at)| now.duration_since(*at) < BELIEVED);
        if let Some(token) = &token
            && believed.len() < REMEMBERED
        {
            believed.insert(key, (token.clone(), now));
        }
        Ok(token)
    }
}

/// Says whether this caller may do this.
pub(crate) fn permit(caller: Option<&Caller>, needed: Scope) -> Result<&Caller, Problem> {
    match caller {
        None => Err(Problem::new(StatusCode::UNAUTHORIZED, "this needs a token")
            .hint("send `Authorization: Bearer TOKEN`; `satiety token create` on the server makes one")),
        Some(caller) if caller.scope < needed => Err(Problem::forbidden(format!(
            "this needs a token of scope `{needed}`, and this one has `{}`",
            caller.scope
        ))),
        Some(caller) => Ok(caller),
    }
}

/// Whether a method changes nothing.
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
            "the header `Authorization` is not `Bearer TOKEN`",
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
    fn only_a_bearer_token_is_read() {
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
    fn the_cookie_is_found_among_others() {
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
    fn less_than_needed_is_not_enough() {
        let caller = Caller {
            who: "t".into(),
            scope: Scope::Write,
            address: IpAddr::from([127, 0, 0, 1]),
            ambient: false,
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
