//! Canonical URLs: decides whether two addresses lead to the same page.

/// Query parameters that track the visitor and do not select a page.
const TRACKING: &[&str] = &[
    "fbclid",
    "gclid",
    "dclid",
    "gbraid",
    "wbraid",
    "msclkid",
    "yclid",
    "mc_cid",
    "mc_eid",
    "igshid",
    "ref_src",
    "_hsenc",
    "_hsmi",
    "vero_id",
    "oly_enc_id",
    "oly_anon_id",
    "spm",
    "cmpid",
];

/// Canonical form of a URL: lower-case scheme and host without `www.` and default ports, dot segments
/// resolved, tracking parameters and fragment removed, other parameters sorted, no trailing slash, `http`
/// treated as `https`. Text that is not a web address is only trimmed.
///
/// ```
/// use satiety::research::canonical_url;
/// assert_eq!(
///     canonical_url("HTTP://www.Example.org:80/a/../b/?utm_source=x&z=1&a=2#top"),
///     "https://example.org/b?a=2&z=1"
/// );
/// ```
pub fn canonical_url(address: &str) -> String {
    let address = address.trim();
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https") {
        return address.to_owned();
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match place.find('/') {
        Some(at) => place.split_at(at),
        None => (place, ""),
    };
    // User info before an @ does not identify the page.
    let host = authority.rsplit('@').next().unwrap_or(authority).to_lowercase();
    let host = host
        .strip_suffix(":80")
        .or_else(|| host.strip_suffix(":443"))
        .unwrap_or(&host);
    let host = host.strip_prefix("www.").unwrap_or(host).trim_end_matches('.');
    let mut canonical = format!("https://{host}{}", resolve_path(path));
    let mut parameters: Vec<&str> = query
        .split('&')
        .filter(|parameter| !parameter.is_empty() && !is_tracking(parameter))
        .collect();
    parameters.sort_unstable();
    if !parameters.is_empty() {
        canonical.push('?');
        canonical.push_str(&parameters.join("&"));
    }
    canonical
}

fn is_tracking(parameter: &str) -> bool {
    let name = parameter
        .split('=')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    name.starts_with("utm_") || TRACKING.contains(&name.as_str())
}

/// Removes dot segments, doubled slashes and the trailing slash.
fn resolve_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.push_str(part);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equivalent_addresses_have_one_canonical_form() {
        for (spelling, expected) in [
            ("https://example.org", "https://example.org"),
            ("https://example.org/", "https://example.org"),
            ("http://EXAMPLE.org:443/a/", "https://example.org/a"),
            ("https://www.example.org/a/./b//c/..", "https://example.org/a/b"),
            ("https://example.org/a?fbclid=1", "https://example.org/a"),
            (
                "https://example.org/a?b=2&utm_medium=x&a=1",
                "https://example.org/a?a=1&b=2",
            ),
            ("https://user:pass@example.org/x", "https://example.org/x"),
            ("https://example.org/A", "https://example.org/A"),
            ("  notes/today.md ", "notes/today.md"),
            ("file:///etc/x", "file:///etc/x"),
        ] {
            assert_eq!(canonical_url(spelling), expected, "{spelling}");
        }
        assert_ne!(
            canonical_url("https://example.org/?p=1"),
            canonical_url("https://example.org/?p=2")
        );
    }

    proptest! {
        #[test]
        fn canonicalization_is_idempotent(address in "(https?://)?[a-zA-Z0-9./?&=#:@%-]{0,40}") {
            let once = canonical_url(&address);
            prop_assert_eq!(canonical_url(&once), once);
        }
    }
}
