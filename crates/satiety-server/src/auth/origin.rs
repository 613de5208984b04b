//! Checks of `Host` and `Origin`: allowed host names, and pages that may send writes.
//!
//! A foreign page can make a browser send requests here. It is detected by a foreign name in `Host` (DNS
//! rebinding: the page's own name now resolves to this server), or by a foreign `Origin` or `Sec-Fetch-Site`.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, Method, StatusCode, header};

use super::is_safe;
use crate::http::Problem;

/// Host names that the server accepts, besides IP addresses and `localhost`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Creates a set of names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Rejects requests with a foreign host name or from a foreign page.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        authority: Option<&str>,
    ) -> Result<(), Problem> {
        let host = single_header(headers, &header::HOST)?
            .or(authority)
            .ok_or_else(|| Problem::bad_request("missing header `Host`"))?;
        let name = name_of(host).ok_or_else(|| Problem::bad_request("invalid header `Host`"))?;
        if !self.is_ours(&name) {
            return Err(
                Problem::new(StatusCode::MISDIRECTED_REQUEST, "host name not allowed")
                    .hint("start the server with `--host-name NAME` to allow it"),
            );
        }
        let foreign = || {
            Problem::forbidden("cross-origin request refused")
                .hint("omit the header `Origin` in programs; pages must be served by this server")
        };
        if let Some(origin) = single_header(headers, &header::ORIGIN)?
            && !same_origin(origin, host)
        {
            return Err(foreign());
        }
        // Browsers that support this header always send it, even with forms that have no `Origin`.
        let site = headers
            .get("sec-fetch-site")
            .and_then(|value| value.to_str().ok());
        if !is_safe(method) && site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(foreign());
        }
        Ok(())
    }

    /// Only DNS names can be rebound: IP addresses and `localhost` are safe.
    fn is_ours(&self, name: &str) -> bool {
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.0.iter().any(|ours| ours == name)
    }
}

/// Value of a header that may occur at most once.
fn single_header<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(Problem::bad_request(format!("invalid header `{name}`"))),
    }
}

/// Lower-case host of `host`, `host:port` or `[v6]:port`.
fn name_of(authority: &str) -> Option<String> {
    let host = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        is_port(port).then_some(address)?
    } else {
        let (host, port) = authority
            .find(':')
            .map_or((authority, ""), |at| authority.split_at(at));
        is_port(port).then_some(host)?
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether an origin has the same host and port as the request.
fn same_origin(origin: &str, host: &str) -> bool {
    origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))
        .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn status(method: &Method, headers: &[(&'static str, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let names = Names::new(["Satiety.Example".into()]);
        names
            .check(method, &map, None)
            .err()
            .map(|problem| problem.status)
    }

    #[test]
    fn own_and_foreign_host_names() {
        for ours in [
            "localhost",
            "LOCALHOST:8787",
            "127.0.0.1:8787",
            "[::1]:8787",
            "192.168.1.7",
            "satiety.example",
            "satiety.example.:443",
        ] {
            assert_eq!(status(&Method::GET, &[("host", ours)]), None, "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "satiety.example.evil",
            "127.0.0.1.nip.io:8787",
        ] {
            assert_eq!(status(&Method::GET, &[("host", foreign)]), Some(421), "{foreign}");
        }
        for broken in ["", ":80", "[::1", "a:b:c", "localhost:99999"] {
            assert_eq!(status(&Method::GET, &[("host", broken)]), Some(400), "{broken}");
        }
        assert_eq!(status(&Method::GET, &[]), Some(400));
        assert_eq!(
            status(&Method::GET, &[("host", "localhost"), ("host", "evil")]),
            Some(400)
        );
    }

    #[test]
    fn cross_origin_requests_are_rejected() {
        let host = ("host", "localhost:8787");
        for (headers, expected) in [
            (vec![host], None),
            (vec![host, ("origin", "http://localhost:8787")], None),
            (vec![host, ("origin", "http://localhost:3000")], Some(403)),
            (vec![host, ("origin", "https://evil.example")], Some(403)),
            (vec![host, ("origin", "null")], Some(403)),
            (vec![host, ("sec-fetch-site", "same-origin")], None),
            (vec![host, ("sec-fetch-site", "none")], None),
            (vec![host, ("sec-fetch-site", "cross-site")], Some(403)),
            (vec![host, ("sec-fetch-site", "same-site")], Some(403)),
        ] {
            assert_eq!(status(&Method::POST, &headers), expected, "{headers:?}");
        }
        // Following a link from another site is fine: it changes nothing.
        assert_eq!(
            status(&Method::GET, &[host, ("sec-fetch-site", "cross-site")]),
            None
        );
    }
}
