//! Scrubbing rules: patterns, and checks beyond patterns. If two rules match overlapping ranges, the earlier
//! rule wins.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use super::Kind;

/// A matching range of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Kind, pattern (its first group, if any, is the part to replace) and an additional check.
type Rule = (Kind, &'static str, fn(&str) -> bool);

const RULES: [Rule; 11] = [
    (
        Kind::PrivateKey,
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        always,
    ),
    // Prefixes of known providers, followed by a long string with digits.
    (
        Kind::Secret,
        r"\b(?:sk-[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
        has_digit,
    ),
    (
        Kind::Secret,
        r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})",
        has_digit,
    ),
    (
        Kind::Secret,
        r#"(?i)\b(?:[a-z0-9]+[_-])*(?:password|passwd|pwd|secret|api[_-]?key|apikey|access[_-]?key|auth[_-]?token|access[_-]?token|token)["']?\s*[:=]\s*["']?([^\s"',;&)}\]\[]{6,})"#,
        always,
    ),
    // A password in a URL: scheme://user:password@host.
    (
        Kind::Secret,
        r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:([^\s/@\[]{3,})@",
        always,
    ),
    (
        Kind::Email,
        r"(?i)\b[a-z0-9][a-z0-9._%+-]*@[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\.[a-z]{2,24}\b",
        always,
    ),
    (
        Kind::HomeFolder,
        r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)([^\s/\\:\x22'<>|\[\]]+)",
        is_user_name,
    ),
    (Kind::Card, r"\b\d(?:[ -]?\d){12,18}\b", is_card),
    (Kind::Ip, r"\b(?:\d{1,3}\.){3}\d{1,3}\b", is_ipv4),
    (Kind::Ip, r"(?i)(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}", is_ipv6),
    (
        Kind::Phone,
        r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}|\(\d{3}\) ?\d{3}[ .-]\d{4}|\b\d{3}[.-]\d{3}[.-]\d{4}\b",
        is_phone,
    ),
];

/// Words that may be random enough to be a key.
const WORDS: &str = r"[A-Za-z0-9_+/=-]{24,}";

/// A rule with its compiled pattern.
type Compiled = (Kind, Regex, fn(&str) -> bool);

/// Rules are compiled once, because that takes longer than scrubbing a page. The patterns are constant, and a
/// test compiles them all.
static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    RULES
        .iter()
        .filter_map(|(kind, pattern, holds)| Some((*kind, Regex::new(pattern).ok()?, *holds)))
        .collect()
});
static RANDOM_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(WORDS).ok());

/// Finds all matches, in order and without overlaps.
pub(super) fn find_all(text: &str) -> Vec<Match> {
    let mut found: Vec<Match> = Vec::new();
    let mut add = |kind: Kind, start: usize, end: usize| {
        if found
            .iter()
            .all(|earlier| end <= earlier.start || start >= earlier.end)
        {
            found.push(Match { kind, start, end });
        }
    };
    for (kind, regex, holds) in COMPILED.iter() {
        let kind = *kind;
        for captures in regex.captures_iter(text) {
            let Some(stretch) = captures.get(1).or_else(|| captures.get(0)) else {
                continue;
            };
            let next_to_word =
                |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == ':');
            let edges = kind != Kind::Ip
                || !(next_to_word(
                    text.get(..stretch.start())
                        .and_then(|before| before.chars().next_back()),
                ) || text
                    .get(stretch.end()..)
                    .and_then(|after| after.chars().next())
                    .is_some_and(char::is_alphanumeric));
            if edges && holds(stretch.as_str()) {
                add(kind, stretch.start(), stretch.end());
            }
        }
    }
    if let Some(regex) = RANDOM_WORDS.as_ref() {
        for word in regex.find_iter(text).filter(|word| is_random(word.as_str())) {
            add(Kind::HighEntropy, word.start(), word.end());
        }
    }
    found.sort_by_key(|found| found.start);
    found
}

/// Whether the name of a field indicates that its value is a secret.
pub(super) fn is_secret_key(key: &str) -> bool {
    let name: String = key
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    [
        "password",
        "passwd",
        "secret",
        "apikey",
        "accesskey",
        "privatekey",
        "authtoken",
        "accesstoken",
        "refreshtoken",
    ]
    .iter()
    .any(|word| name.ends_with(word))
        || name == "authorization"
        || name == "cookie"
}

fn always(_: &str) -> bool {
    true
}

fn has_digit(text: &str) -> bool {
    text.chars().any(|letter| letter.is_ascii_digit())
}

fn is_user_name(name: &str) -> bool {
    !["Shared", "Public", "shared", "Default"].contains(&name)
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|letter| letter.to_digit(10)).collect()
}

/// Luhn checksum, for 13 to 19 digits.
fn is_card(text: &str) -> bool {
    let digits = digits(text);
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    // All zeros pass the checksum but are not a card number.
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10) && digits.iter().any(|&digit| digit != 0)
}

fn is_ipv4(text: &str) -> bool {
    text.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Times (12:34:56) do not parse; paths in code (`a::b`) do, but have no digits.
fn is_ipv6(text: &str) -> bool {
    let groups = text.split(':').filter(|group| !group.is_empty()).count();
    text.parse::<Ipv6Addr>().is_ok() && groups >= 2 && has_digit(text)
}

fn is_phone(text: &str) -> bool {
    let count = digits(text).len();
    (7..=15).contains(&count)
}

/// Random-looking words have letters of both cases and digits, with as many distinct characters as expected
/// by chance. Hexadecimal hashes and UUIDs are identifiers and are kept; words joined by underscores have too
/// little variety.
fn is_random(word: &str) -> bool {
    let has = |test: fn(&char) -> bool| word.chars().any(|letter| test(&letter));
    if !(has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase) && has(char::is_ascii_digit)) {
        return false;
    }
    if word
        .chars()
        .all(|letter| letter.is_ascii_hexdigit() || letter == '-')
    {
        return false;
    }
    let mut counts = std::collections::BTreeMap::new();
    for letter in word.chars() {
        *counts.entry(letter).or_insert(0_u32) += 1;
    }
    let length = word.len() as f64;
    let entropy: f64 = counts
        .values()
        .map(|&count| {
            let share = f64::from(count) / length;
            -share * share.log2()
        })
        .sum();
    // Digits must be spread out: `getUserById2ForAccount…` has few.
    let digits = word.chars().filter(char::is_ascii_digit).count() as f64;
    entropy > 4.0 && digits / length > 0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for (kind, pattern, _) in RULES {
            assert!(Regex::new(pattern).is_ok(), "{kind:?}");
        }
        assert!(Regex::new(WORDS).is_ok());
    }

    #[test]
    fn card_numbers_have_a_valid_checksum() {
        for (number, right) in [
            ("4111111111111111", true),
            ("5500 0000 0000 0004", true),
            ("378282246310005", true),
            ("4111111111111112", false),
            ("0000000000000000", false),
            ("411111", false),
        ] {
            assert_eq!(is_card(number), right, "{number}");
        }
    }
}
