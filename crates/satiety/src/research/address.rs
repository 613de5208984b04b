//! When two addresses lead to the same page: the canonical form of a URL.

/// Parameters that say where a visitor comes from and nothing about the page.
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

/// Scheme and host in lower case, `www.` and default ports off, dot segments resolved, tracking parameters and fragment
/// off, other parameters sorted, no slash at the end; `http` and `https` are the same page. What is no web address is
/// only trimmed.
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
    // What stands before an @ is a name and a password, not a place.
    let host = authority.rsplit('@').next().unwrap_or(authority).to_lowercase();
    let host = host
        .strip_suffix(":80")
        .or_else(|| host.strip_suffix(":443"))
        .unwrap_or(&host);
    let host = host.strip_prefix("www.").unwrap_or(host).trim_end_matches('.');
    let mut canonical = format!("https://{host}{}", resolved(path));
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

/// The path without dot segments, doubled slashes and the one at the end.
fn resolved(path: &str) -> String {
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
    fn spellings_of_one_page_are_one_address() {
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
        fn a_canonical_address_is_its_own(address in "(https?://)?[a-zA-Z0-9./?&=#:@%-]{0,40}") {
            let once = canonical_url(&address);
            prop_assert_eq!(canonical_url(&once), once);
        }
    }
}
