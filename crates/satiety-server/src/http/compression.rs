//! Compression of pages and their assets with gzip. Event streams, metrics and JSON stay as they are.

use std::io::Write as _;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Smaller bodies are sent as they are, in bytes: they fit into one packet.
const MIN_SIZE: usize = 1024;
/// Types of content that are compressed.
const TYPES: [&str; 4] = ["text/html", "text/css", "text/javascript", "image/svg+xml"];

/// Whether the response to a request may be compressed.
///
/// Pages repeat text of their address next to stored content. An attacker who makes a browser open pages and sees the
/// sizes of the responses could guess the content (BREACH), so requests that another site causes are not compressed.
/// Browsers do not send the login cookie with them, either.
pub(super) fn accepts_gzip(method: &Method, headers: &HeaderMap) -> bool {
    let is_own = headers
        .get("sec-fetch-site")
        .is_none_or(|site| site == "same-origin" || site == "none");
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = codings
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    is_own && method != Method::HEAD && codings.any(is_gzip)
}

/// Whether an element of `Accept-Encoding` permits gzip, such as `gzip` or `gzip;q=0.5`.
fn is_gzip(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
    is_named && weight.is_none_or(|weight| weight > 0.0)
}

/// Compresses a page or an asset, if the client accepts it.
pub(super) async fn compress(response: Response, accepts_gzip: bool) -> Response {
    let headers = response.headers();
    let is_text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| TYPES.iter().any(|name| kind.starts_with(name)));
    if !is_text || headers.contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A cache must not give a compressed asset to a client that cannot read it.
    parts
        .headers
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts_gzip {
        return Response::from_parts(parts, body);
    }
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    if bytes.len() < MIN_SIZE {
        return Response::from_parts(parts, Body::from(bytes));
    }
    let plain = bytes.clone();
    let packed = tokio::task::spawn_blocking(move || pack(&plain)).await;
    let Ok(Ok(packed)) = packed else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts
        .headers
        .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

fn pack(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::new(5));
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_choose_the_coding() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip; q=1.0, identity", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("br, deflate", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&Method::GET, &headers), expected, "{value}");
            assert!(!accepts_gzip(&Method::HEAD, &headers), "{value}");
        }
    }

    #[test]
    fn requests_that_another_site_causes_are_not_compressed() {
        for (site, expected) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            assert_eq!(accepts_gzip(&Method::GET, &headers), expected, "{site}");
        }
    }
}
