//! robots.txt (RFC 9309): which paths a site lets programs read.

/// Rules of a site for us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    /// Whether it allows, and the path or pattern it is about.
    rules: Vec<(bool, String)>,
}

/// The name that a site may single out.
const OUR_NAME: &str = "satiety";
/// Longer files are cut, as the standard lets everybody do.
const LONGEST: usize = 512 * 1024;

impl Robots {
    /// A site that could not say what it allows.
    pub(super) fn nothing_allowed() -> Self {
        Self {
            rules: vec![(false, "/".into())],
        }
    }

    /// Reads the rules: those of the group that names us, otherwise those for everybody.
    pub(super) fn parse(text: &str) -> Self {
        let mut ours = Vec::new();
        let mut everybodys = Vec::new();
        let mut named_us = false;
        let (mut for_us, mut for_all) = (false, false);
        let mut in_names = false;
        let end = text.floor_char_boundary(LONGEST);
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
                    let is_us = name.split('/').next() == Some(OUR_NAME);
                    for_us |= is_us;
                    named_us |= is_us;
                }
                "allow" | "disallow" => {
                    in_names = false;
                    if value.is_empty() {
                        continue;
                    }
                    let rule = (key == "allow", value.to_owned());
                    if for_us {
                        ours.push(rule.clone());
                    }
                    if for_all {
                        everybodys.push(rule);
                    }
                }
                _ => {}
            }
        }
        Self {
            rules: if named_us { ours } else { everybodys },
        }
    }

    /// Whether a path may be read: the longest rule that fits decides, and of two equals the one that allows.
    pub(super) fn allow(&self, path: &str) -> bool {
        self.rules
            .iter()
            .filter(|(_, pattern)| fits(pattern, path))
            .max_by_key(|(allow, pattern)| (pattern.len(), *allow))
            .is_none_or(|(allow, _)| *allow)
    }
}

/// `*` is anything, `$` at the end is the end.
fn fits(pattern: &str, path: &str) -> bool {
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
    fn a_group_that_names_us_counts_alone() {
        let text =
            "User-agent: other\nUser-agent: Satiety/1.0\nDisallow: /us\n\nUser-agent: *\nDisallow: /all";
        let robots = Robots::parse(text);
        assert!(!robots.allow("/us") && robots.allow("/all"));
        assert!(!Robots::nothing_allowed().allow("/x"));
        assert!(Robots::default().allow("/x"));
        assert!(Robots::parse("User-agent: *\nDisallow:\n").allow("/x"));
    }
}
