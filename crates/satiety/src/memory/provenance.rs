//! Provenance of a memory: its author and tags, and three separate times: when it was recorded, when it was
//! observed, and when it is valid. [`MemoryFilter`] selects memories by them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::DraftError;
use crate::retrieval::Tier;

/// Maximum number of tags of a memory, and of entries of a filter.
const MAX_TAGS: usize = 32;
/// Maximum length of a tag, an author or a kind, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// A point in time, written in RFC 3339 (`2026-11-17T09:30:00Z`) or as a date (`2026-11-17`), which means
/// midnight UTC.
///
/// ```
/// use satiety::memory::TimePoint;
/// let day: TimePoint = "2026-11-17".parse()?;
/// assert_eq!(day.to_string(), "2026-11-17T00:00:00Z");
/// assert_eq!(day, "2026-11-17T01:00:00+01:00".parse()?);
/// assert!("yesterday".parse::<TimePoint>().is_err());
/// # Ok::<(), satiety::memory::DraftError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimePoint(i64);

impl TimePoint {
    /// Creates a point in time from microseconds since 1970.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub fn micros(self) -> i64 {
        self.0
    }
}

impl FromStr for TimePoint {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        let text = text.trim();
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Self(time.as_microsecond()));
        }
        let day = text.parse::<jiff::civil::Date>().ok();
        // A date parser accepts a local time after the date, which has no meaning without a time zone.
        let day = day.filter(|_| !text.contains([':', 'T', 't', ' ']));
        let time = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
        time.map(|time| Self(time.timestamp().as_microsecond()))
            .ok_or_else(|| DraftError::Time(text.into()))
    }
}

impl TryFrom<String> for TimePoint {
    type Error = DraftError;

    fn try_from(text: String) -> Result<Self, DraftError> {
        text.parse()
    }
}

impl From<TimePoint> for String {
    fn from(time: TimePoint) -> Self {
        time.to_string()
    }
}

impl fmt::Display for TimePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => self.0.fmt(f),
        }
    }
}

impl JsonSchema for TimePoint {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimePoint".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// Author, tags and times of a memory. Times are in microseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Person, agent or system that said or wrote it.
    pub author: Option<String>,
    /// Labels of the memory, sorted.
    pub tags: Vec<String>,
    /// Time when it was stored.
    pub recorded_at: i64,
    /// Time when it was said or seen; that of recording if absent.
    pub observed_at: Option<i64>,
    /// Time from which it holds; no bound if absent.
    pub valid_from: Option<i64>,
    /// Time from which it no longer holds; no bound if absent.
    pub valid_until: Option<i64>,
}

impl Provenance {
    /// Trims and sorts the tags, and checks lengths and the order of the validity bounds.
    pub fn checked(mut self) -> Result<Self, DraftError> {
        self.author = self.author.and_then(|author| non_empty(&author));
        check_name("author", self.author.as_deref().unwrap_or_default())?;
        let tags: BTreeSet<String> = self.tags.iter().filter_map(|tag| non_empty(tag)).collect();
        for tag in &tags {
            check_name("tag", tag)?;
        }
        check_count("list of tags", tags.len())?;
        self.tags = tags.into_iter().collect();
        if let (Some(from), Some(until)) = (self.valid_from, self.valid_until)
            && from >= until
        {
            return Err(DraftError::EmptyValidity {
                from: TimePoint(from).to_string(),
                until: TimePoint(until).to_string(),
            });
        }
        Ok(self)
    }

    /// Time when it was observed, or recorded if that is unknown.
    pub fn observed(&self) -> i64 {
        self.observed_at.unwrap_or(self.recorded_at)
    }

    /// Time from which it replaces what it supersedes: the start of its validity, else its observation.
    pub fn effective_from(&self) -> i64 {
        self.valid_from.unwrap_or_else(|| self.observed())
    }

    /// Whether it holds at a time.
    pub fn validity_at(&self, time: i64) -> Validity {
        if self.valid_until.is_some_and(|until| until <= time) {
            Validity::Past
        } else if self.valid_from.is_some_and(|from| from > time) {
            Validity::Future
        } else {
            Validity::Current
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn check_name(field: &'static str, name: &str) -> Result<(), DraftError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(DraftError::TooLong {
            field,
            length: name.len(),
            most: MAX_NAME_BYTES,
            unit: "bytes",
        });
    }
    Ok(())
}

fn check_count(field: &'static str, length: usize) -> Result<(), DraftError> {
    if length > MAX_TAGS {
        return Err(DraftError::TooLong {
            field,
            length,
            most: MAX_TAGS,
            unit: "entries",
        });
    }
    Ok(())
}

/// Whether a memory holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// It holds at that time.
    Current,
    /// It no longer holds at that time.
    Past,
    /// It does not hold yet at that time.
    Future,
}

impl Validity {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Past => "past",
            Self::Future => "future",
        }
    }
}

/// Conditions that all results satisfy; absent ones do not restrict. Time ranges include their start and
/// exclude their end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryFilter {
    /// Any of these kinds, such as `decision`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// All of these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Any of these authors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// Any of these tiers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    /// Recorded at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_from: Option<TimePoint>,
    /// Recorded before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_until: Option<TimePoint>,
    /// Observed at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_from: Option<TimePoint>,
    /// Observed before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_until: Option<TimePoint>,
}

impl MemoryFilter {
    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the number and length of its entries.
    pub fn check(&self) -> Result<(), DraftError> {
        for (field, names) in [
            ("kind", &self.kinds),
            ("tag", &self.tags),
            ("author", &self.authors),
        ] {
            check_count("filter", names.len())?;
            for name in names {
                check_name(field, name)?;
            }
        }
        check_count("filter", self.tiers.len())
    }

    /// Whether a memory satisfies all conditions. Names are compared without regard to case.
    ///
    /// ```
    /// use satiety::memory::{MemoryFilter, Provenance};
    /// use satiety::retrieval::Tier;
    /// let memory = Provenance { tags: vec!["billing".into()], recorded_at: 5, ..Provenance::default() };
    /// let wanted = MemoryFilter { tags: vec!["Billing".into()], ..MemoryFilter::default() };
    /// assert!(wanted.matches("note", Tier::Normal, &memory));
    /// let other = MemoryFilter { kinds: vec!["decision".into()], ..wanted };
    /// assert!(!other.matches("note", Tier::Normal, &memory));
    /// ```
    pub fn matches(&self, kind: &str, tier: Tier, provenance: &Provenance) -> bool {
        let has_tag = |tag: &String| provenance.tags.iter().any(|own| same_name(own, tag));
        self.matches_kind(kind)
            && (self.tiers.is_empty() || self.tiers.contains(&tier))
            && self.matches_author(provenance.author.as_deref())
            && self.tags.iter().all(has_tag)
            && self.in_time(provenance.recorded_at, provenance.observed())
    }

    pub(super) fn matches_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| same_name(wanted, kind))
    }

    pub(super) fn matches_author(&self, author: Option<&str>) -> bool {
        self.authors.is_empty()
            || author.is_some_and(|author| self.authors.iter().any(|wanted| same_name(wanted, author)))
    }

    pub(super) fn in_time(&self, recorded: i64, observed: i64) -> bool {
        let within = |time: i64, from: Option<TimePoint>, until: Option<TimePoint>| {
            from.is_none_or(|from| from.0 <= time) && until.is_none_or(|until| time < until.0)
        };
        within(recorded, self.recorded_from, self.recorded_until)
            && within(observed, self.observed_from, self.observed_until)
    }
}

fn same_name(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    one.eq_ignore_ascii_case(other) || one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(text: &str) -> i64 {
        text.parse::<TimePoint>().unwrap().micros()
    }

    #[test]
    fn times_are_instants_or_dates_and_round_trip() {
        assert_eq!(micros("1970-01-02"), 86_400_000_000);
        assert_eq!(micros(" 1970-01-01T00:00:01.5Z "), 1_500_000);
        let time: TimePoint = serde_json::from_str("\"2026-11-17T09:00:00Z\"").unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-11-17T09:00:00Z\"");
        for wrong in [
            "",
            "soon",
            "2026-13-01",
            "2026-11-17T09:00:00",
            "2026-11-17 09:00",
            "17.11.2026",
        ] {
            let error = wrong.parse::<TimePoint>().unwrap_err().to_string();
            assert!(error.contains("RFC 3339"), "{wrong}: {error}");
        }
    }

    #[test]
    fn validity_is_half_open_and_must_not_be_empty() {
        let memory = Provenance {
            valid_from: Some(10),
            valid_until: Some(20),
            ..Provenance::default()
        };
        let at = |time| memory.validity_at(time);
        assert_eq!(
            [at(9), at(10), at(19), at(20)],
            [
                Validity::Future,
                Validity::Current,
                Validity::Current,
                Validity::Past
            ]
        );
        let empty = Provenance {
            valid_until: Some(10),
            ..memory
        };
        assert!(matches!(empty.checked(), Err(DraftError::EmptyValidity { .. })));
        assert_eq!(Provenance::default().validity_at(i64::MIN), Validity::Current);
    }

    #[test]
    fn tags_are_trimmed_sorted_and_bounded() {
        let memory = Provenance {
            tags: vec![" b ".into(), "a  c".into(), "b".into(), " ".into()],
            author: Some("  ".into()),
            ..Provenance::default()
        };
        let memory = memory.checked().unwrap();
        assert_eq!(
            (memory.tags, memory.author),
            (vec!["a c".into(), "b".into()], None)
        );
        let many = Provenance {
            tags: (0..33).map(|number| number.to_string()).collect(),
            ..Provenance::default()
        };
        assert!(many.checked().is_err());
        let long = Provenance {
            author: Some("x".repeat(101)),
            ..Provenance::default()
        };
        assert!(long.checked().is_err());
    }

    proptest! {
        /// A filter with more conditions matches a subset.
        #[test]
        fn conditions_only_narrow(
            tags in proptest::collection::vec(0..3_u8, 0..3), wanted in proptest::collection::vec(0..3_u8, 0..3),
            recorded in 0..10_i64, from in 0..10_i64, until in 0..10_i64,
        ) {
            let names = |tags: &[u8]| tags.iter().map(ToString::to_string).collect::<Vec<_>>();
            let memory = Provenance { tags: names(&tags), recorded_at: recorded, ..Provenance::default() };
            let wide = MemoryFilter { tags: names(&wanted), ..MemoryFilter::default() };
            let narrow = MemoryFilter {
                recorded_from: Some(TimePoint(from)), recorded_until: Some(TimePoint(until)), ..wide.clone()
            };
            let matches = |filter: &MemoryFilter| filter.matches("note", Tier::Normal, &memory);
            prop_assert!(matches(&wide) || !matches(&narrow));
            prop_assert_eq!(matches(&wide), wanted.iter().all(|tag| tags.contains(tag)));
            prop_assert_eq!(matches(&narrow), matches(&wide) && (from..until).contains(&recorded));
            prop_assert!(MemoryFilter::default().matches("note", Tier::Normal, &memory));
        }
    }
}
