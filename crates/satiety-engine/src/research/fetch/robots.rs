//! robots.txt (RFC 9309): which paths a site allows crawlers to read.

/// Rules of a site that apply to this program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    /// Pairs of `allow` and the path or pattern.
    rules: Vec<(bool, String)>,
}

/// Name that user-agent groups are matched with.
const PRODUCT_NAME: &str = "satiety";
/// Maximum bytes that are parsed, as the standard permits.
const MAX_BYTES: usize = 512 * 1024;

impl Robots {
    /// Rules of a site whose robots.txt is unavailable.
    pub(super) fn disallow_all() -> Self {
        Self {
            rules: vec![(false, "/".into())],
        }
    }

    /// Parses the rules: those of the group that names this program, otherwise those for `*`.
    pub(super) fn parse(text: &str) -> Self {
        let mut own_rules = Vec::new();
        let mut default_rules = Vec::new();
        let mut has_own_group = false;
        let (mut for_us, mut for_all) = (false, false);
        let mut in_names = false;
        let end = text.floor_char_boundary(MAX_BYTES);
        for line in text[..end].trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if !in_names {
                        (for_us, for_all) = (false, false);
                    }
                    in_names = true;
                    let name = value.to_ascii_lowercase();
                    for_all |= name == "*";
                    let is_us = name.split('/').next() == Some(PRODUCT_NAME);
                    for_us |= is_us;
                    has_own_group |= is_us;
                }
                "allow" | "disallow" => {
                    in_names = false;
                    if value.is_empty() {
                        continue;
                    }
                    let rule = (key == "allow", value.to_owned());
                    if for_us {
                        own_rules.push(rule.clone());
                    }
                    if for_all {
                        default_rules.push(rule);
                    }
                }
                _ => {}
            }
        }
        Self {
            rules: if has_own_group { own_rules } else { default_rules },
        }
    }

    /// Returns true if a path may be read: the longest matching rule decides; `allow` wins a tie.
    pub(super) fn allow(&self, path: &str) -> bool {
        self.rules
            .iter()
            .filter(|(_, pattern)| matches_pattern(pattern, path))
            .max_by_key(|(allow, pattern)| (pattern.len(), *allow))
            .is_none_or(|(allow, _)| *allow)
    }
}

/// Matches a pattern: `*` is any sequence, `$` at the end anchors it.
fn matches_pattern(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return !to_the_end || rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    if to_the_end {
        rest.ends_with(last)
    } else {
        rest.contains(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_decides() {
        let robots = Robots::parse(
            "# hello\nUser-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\nDisallow: /search*q=\n",
        );
        for (path, allowed) in [
            ("/", true),
            ("/private", false),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a.pdf", false),
            ("/a.pdf?x", true),
            ("/search?a=1&q=2", false),
            ("/search?a=1", true),
        ] {
            assert_eq!(robots.allow(path), allowed, "{path}");
        }
    }

    #[test]
    fn a_group_for_our_agent_replaces_the_default() {
        let text =
            "User-agent: other\nUser-agent: Satiety/1.0\nDisallow: /us\n\nUser-agent: *\nDisallow: /all";
        let robots = Robots::parse(text);
        assert!(!robots.allow("/us") && robots.allow("/all"));
        assert!(!Robots::disallow_all().allow("/x"));
        assert!(Robots::default().allow("/x"));
        assert!(Robots::parse("User-agent: *\nDisallow:\n").allow("/x"));
    }
}
