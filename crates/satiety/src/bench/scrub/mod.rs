//! Scrubs personal data and secrets from real sessions before they become cases: email addresses, phone
//! numbers, keys and tokens, names of home directories, IP addresses, payment cards. Equal values get equal
//! placeholders within a record, so the text stays coherent. The report counts replacements and never repeats
//! the originals.
//!
//! The rules match patterns and cannot recognise personal names. A person should review organic data before
//! it is shared; the report says so.

mod rules;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use rules::find_all;

/// Kind of data that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A private key in PEM format.
    PrivateKey,
    /// A key or token in a known format, or the value after `password=`, `Bearer` and similar.
    Secret,
    /// A long random-looking word.
    HighEntropy,
    /// An email address in any text.
    Email,
    /// A payment card number with a valid checksum.
    Card,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A telephone number in a common format.
    Phone,
    /// The user name in a path to a home directory.
    HomeFolder,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::PrivateKey => "PRIVATE-KEY",
            Self::Secret => "SECRET",
            Self::HighEntropy => "TOKEN",
            Self::Email => "EMAIL",
            Self::Card => "CARD",
            Self::Ip => "IP",
            Self::Phone => "PHONE",
            Self::HomeFolder => "USER",
        }
    }
}

/// Counts of scrubbed data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubReport {
    /// Number of replacements by kind.
    pub replaced: BTreeMap<Kind, u64>,
    /// Number of distinct values by kind.
    pub distinct: BTreeMap<Kind, u64>,
}

impl ScrubReport {
    /// Total number of replacements.
    pub fn total(&self) -> u64 {
        self.replaced.values().sum()
    }
}

/// Scrubs the texts of one record; placeholders are numbered within it.
#[derive(Debug, Default)]
pub struct Scrubber {
    known: BTreeMap<(Kind, String), u64>,
    report: ScrubReport,
}

impl Scrubber {
    /// Creates a scrubber without any recorded values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces everything that the rules find in a text.
    pub fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for found in find_all(text) {
            // `find_all` returns ordered, non-overlapping ranges of this text.
            out.push_str(text.get(end..found.start).unwrap_or_default());
            let original = text.get(found.start..found.end).unwrap_or_default();
            out.push_str(&self.placeholder(found.kind, original));
            end = found.end;
        }
        out.push_str(text.get(end..).unwrap_or_default());
        out
    }

    /// Scrubs all strings of a JSON value, including keys.
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, field)| (self.text(key), self.field(key, field)))
                    .collect::<Map<_, _>>(),
            ),
            other => other.clone(),
        }
    }

    /// The name of a field reveals secrets that match no pattern.
    fn field(&mut self, key: &str, field: &Value) -> Value {
        match field {
            Value::String(text) if rules::is_secret_key(key) && !text.trim().is_empty() => {
                Value::String(self.placeholder(Kind::Secret, text))
            }
            other => self.value(other),
        }
    }

    fn placeholder(&mut self, kind: Kind, original: &str) -> String {
        *self.report.replaced.entry(kind).or_default() += 1;
        let distinct = self.report.distinct.entry(kind).or_default();
        let number = *self.known.entry((kind, original.to_owned())).or_insert_with(|| {
            *distinct += 1;
            *distinct
        });
        format!("[{}-{number}]", kind.name())
    }

    /// Counts of the data scrubbed so far.
    pub fn report(&self) -> &ScrubReport {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scrubbed(text: &str) -> String {
        Scrubber::new().text(text)
    }

    #[test]
    fn sensitive_data_is_replaced() {
        for (text, expected) in [
            ("mail jo.doe+x@mail.example.co.uk now", "mail [EMAIL-1] now"),
            ("a@b.io, c@d.io, a@b.io", "[EMAIL-1], [EMAIL-2], [EMAIL-1]"),
            ("call +1 (415) 555-2671!", "call [PHONE-1]!"),
            ("call +49 30 901820", "call [PHONE-1]"),
            ("call 415-555-2671", "call [PHONE-1]"),
            ("card 4111 1111 1111 1111 ok", "card [CARD-1] ok"),
            ("card 4111111111111111", "card [CARD-1]"),
            ("from 192.168.0.12:8080", "from [IP-1]:8080"),
            ("from 2001:db8::8a2e:370:7334 on", "from [IP-1] on"),
            ("open /home/alice/notes.txt", "open /home/[USER-1]/notes.txt"),
            (
                "open /Users/alice/x and /home/bob",
                "open /Users/[USER-1]/x and /home/[USER-2]",
            ),
            (r"open C:\Users\alice\x.txt", r"open C:\Users\[USER-1]\x.txt"),
            ("key sk-proj-abcDEF1234567890abcDEF12 end", "key [SECRET-1] end"),
            ("key ghp_0123456789abcdefghijABCDEFGHIJ012345", "key [SECRET-1]"),
            ("key AKIAIOSFODNN7EXAMPLE", "key [SECRET-1]"),
            (
                "Authorization: Bearer abc.def-123456",
                "Authorization: Bearer [SECRET-1]",
            ),
            ("password = hunter22, ok", "password = [SECRET-1], ok"),
            ("api_key: \"a1b2c3d4\"", "api_key: \"[SECRET-1]\""),
            (
                "postgres://app:s3cretpw@db/prod",
                "postgres://app:[SECRET-1]@db/prod",
            ),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "[SECRET-1]"),
            ("salt 9fQ2xL7vT0bKz8RmWc4NsY1Hd6Gp3JuE", "salt [TOKEN-1]"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nxyz\n-----END RSA PRIVATE KEY-----\nafter",
                "[PRIVATE-KEY-1]\nafter",
            ),
        ] {
            assert_eq!(scrubbed(text), expected, "{text}");
        }
    }

    #[test]
    fn harmless_text_is_kept() {
        for text in [
            "version 1.2.3.4567 and 10.5",
            "order 4111 1111 1111 1112 is not a card",
            "at 2026-11-15T10:30:00Z, 12:34:56",
            "std::collections::HashMap and a::b",
            "the id 550e8400-e29b-41d4-a716-446655440000",
            "commit 0123456789abcdef0123456789abcdef01234567",
            "internationalization_of_configuration_settings",
            "call me at 10:30, room 415",
            "see /homepage/alice and the user@ sign",
            "The password is needed. A token was given.",
            "sk-ip this and ask-me",
            "1 000 000 items, 2024-2025, 3.14159265358979",
        ] {
            assert_eq!(scrubbed(text), text);
        }
    }

    #[test]
    fn records_are_scrubbed_completely_and_idempotently() {
        let mut scrubber = Scrubber::new();
        let record = json!({
            "user": "alice@example.org",
            "config": {"api_key": "short", "retries": 3},
            "log": ["/home/alice/x", "alice@example.org said hi"],
        });
        let clean = scrubber.value(&record);
        assert_eq!(
            clean,
            json!({
                "user": "[EMAIL-1]",
                "config": {"api_key": "[SECRET-1]", "retries": 3},
                "log": ["/home/[USER-1]/x", "[EMAIL-1] said hi"],
            })
        );
        let report = scrubber.report();
        assert_eq!(
            (
                report.total(),
                report.replaced[&Kind::Email],
                report.distinct[&Kind::Email]
            ),
            (4, 2, 1)
        );
        assert!(!serde_json::to_string(report).unwrap().contains("alice"));
        let text = "a@b.io /home/bob 192.168.1.1 token=abcdef123";
        assert_eq!(scrubbed(&scrubbed(text)), scrubbed(text));
    }
}
