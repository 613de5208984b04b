//! Data model of a memory before it has an id: its fields, their limits, and the content hash.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// Maximum length of a title in characters.
const MAX_TITLE_CHARS: usize = 300;
/// Maximum length of the content in bytes: enough for a book, well within the limits of any store.
const MAX_CONTENT_BYTES: usize = 4 << 20;
/// Maximum number of trigger phrases, and maximum length of one in characters.
const MAX_TRIGGERS: usize = 50;
const MAX_TRIGGER_CHARS: usize = 200;
/// Maximum length of folder and kind in bytes; both are returned with every result.
const MAX_FOLDER_BYTES: usize = 1024;
const MAX_KIND_BYTES: usize = 100;

/// A memory to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Draft {
    /// Title of the memory.
    pub title: String,
    /// Content of the memory in Markdown.
    pub content: String,
    /// Importance tier of the memory.
    pub tier: Tier,
    /// Phrases that bring the memory up when they occur in a query.
    pub triggers: Vec<String>,
    /// Folder of the memory: segments joined by `/`; empty for the root.
    pub folder: String,
    /// Kind of the memory: `decision`, `bug`, `note`, …
    pub kind: String,
}

/// Reason why a memory cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// A required field is empty.
    #[error("{field} must not be empty")]
    Empty {
        /// Name of the field.
        field: &'static str,
    },
    /// A field is too long.
    #[error("{field} is too long: {length} {unit} (maximum {most})")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Actual length of the field.
        length: usize,
        /// Maximum length of the field.
        most: usize,
        /// Unit of both lengths.
        unit: &'static str,
    },
    /// The tier does not exist.
    #[error("unknown tier `{0}` (expected one of: temporary, normal, important, critical, constitutional)")]
    Tier(String),
    /// The kind of link does not exist.
    #[error("unknown link kind `{0}` (expected one of: caused, enabled, supersedes, contradicts, supports)")]
    Link(String),
    /// A time cannot be read.
    #[error(
        "invalid time `{0}` (expected RFC 3339 such as 2026-11-17T09:30:00Z, or a date such as 2026-11-17)"
    )]
    Time(String),
    /// A validity ends before it starts.
    #[error("`valid_until` must be after `valid_from` (got {from} until {until})")]
    EmptyValidity {
        /// Start of the validity.
        from: String,
        /// End of the validity.
        until: String,
    },
}

impl Draft {
    /// Normalizes and checks the draft: fields are trimmed, triggers normalised and deduplicated, empty
    /// folder segments removed.
    ///
    /// ```
    /// use satiety::memory::Draft;
    /// use satiety::retrieval::Tier;
    ///
    /// let draft = Draft {
    ///     title: " Use WAL ".into(),
    ///     content: "Readers never wait.".into(),
    ///     tier: Tier::Important,
    ///     triggers: vec!["SQLite  Locked!".into(), "sqlite locked".into()],
    ///     folder: "/store//sqlite/".into(),
    ///     kind: String::new(),
    /// };
    /// let kept = draft.checked()?;
    /// assert_eq!((kept.title.as_str(), kept.folder.as_str(), kept.kind.as_str()), ("Use WAL", "store/sqlite", "note"));
    /// assert_eq!(kept.triggers, ["sqlite locked"]);
    /// # Ok::<(), satiety::memory::DraftError>(())
    /// ```
    pub fn checked(self) -> Result<Self, DraftError> {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let content = self.content.trim().to_owned();
        if title.is_empty() {
            return Err(DraftError::Empty { field: "title" });
        }
        if content.is_empty() {
            return Err(DraftError::Empty { field: "content" });
        }
        check_length("title", title.chars().count(), MAX_TITLE_CHARS, "characters")?;
        check_length("content", content.len(), MAX_CONTENT_BYTES, "bytes")?;
        let mut triggers: Vec<String> = Vec::new();
        for phrase in self.triggers {
            let phrase = crate::text::normalize(&phrase);
            check_length(
                "trigger phrase",
                phrase.chars().count(),
                MAX_TRIGGER_CHARS,
                "characters",
            )?;
            if !phrase.is_empty() && !triggers.contains(&phrase) {
                triggers.push(phrase);
            }
        }
        check_length("list of trigger phrases", triggers.len(), MAX_TRIGGERS, "entries")?;
        let kind = self.kind.trim();
        check_length("kind", kind.len(), MAX_KIND_BYTES, "bytes")?;
        check_length("folder", self.folder.len(), MAX_FOLDER_BYTES, "bytes")?;
        Ok(Self {
            title,
            content,
            tier: self.tier,
            triggers,
            folder: normalize_folder(&self.folder),
            kind: if kind.is_empty() { "note" } else { kind }.to_owned(),
        })
    }
}

fn check_length(
    field: &'static str,
    length: usize,
    most: usize,
    unit: &'static str,
) -> Result<(), DraftError> {
    if length > most {
        return Err(DraftError::TooLong {
            field,
            length,
            most,
            unit,
        });
    }
    Ok(())
}

fn normalize_folder(folder: &str) -> String {
    let segments: Vec<&str> = folder
        .split(['/', '\\'])
        .map(str::trim)
        .filter(|segment| !segment.is_empty() && *segment != ".")
        .collect();
    segments.join("/")
}

/// Whether a folder equals the requested one or is below it. An empty request matches every folder.
///
/// ```
/// use satiety::memory::in_folder;
/// assert!(in_folder("store/sqlite", "store") && in_folder("store", "") && !in_folder("storehouse", "store"));
/// ```
pub fn in_folder(folder: &str, asked: &str) -> bool {
    let asked = asked.trim_matches('/');
    let rest = folder.strip_prefix(asked);
    asked.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parses the name of a tier.
pub fn parse_tier(name: &str) -> Result<Tier, DraftError> {
    let lower = name.trim().to_lowercase();
    let found = Tier::ALL.into_iter().find(|tier| tier.name() == lower);
    found.ok_or_else(|| DraftError::Tier(name.into()))
}

/// Hash of title and content; a change means that the memory must be chunked and embedded again.
pub fn content_hash(title: &str, content: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    // The length distinguishes "ab" + "c" from "a" + "bc".
    hasher.update(&(title.len() as u64).to_le_bytes());
    hasher.update(title.as_bytes());
    hasher.update(content.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// A link from one memory to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Id of the memory that the link starts from.
    pub from: String,
    /// Id of the memory that the link points to.
    pub to: String,
    /// Relation of the first to the second.
    pub kind: LinkKind,
}

/// Relation of one memory to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// It caused the other memory.
    Caused,
    /// It enabled the other memory.
    Enabled,
    /// It replaces the other memory.
    Supersedes,
    /// It contradicts the other memory.
    Contradicts,
    /// It supports the other memory.
    Supports,
}

impl LinkKind {
    /// All kinds of links.
    pub const ALL: [Self; 5] = [
        Self::Caused,
        Self::Enabled,
        Self::Supersedes,
        Self::Contradicts,
        Self::Supports,
    ];

    /// Whether a linked memory inherits relevance. A memory does not become relevant because it replaces or
    /// contradicts a relevant one; those links mark results instead.
    pub fn carries_relevance(self) -> bool {
        matches!(self, Self::Caused | Self::Enabled | Self::Supports)
    }

    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caused => "caused",
            Self::Enabled => "enabled",
            Self::Supersedes => "supersedes",
            Self::Contradicts => "contradicts",
            Self::Supports => "supports",
        }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinkKind {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        let lower = text.trim().to_lowercase();
        let found = Self::ALL.into_iter().find(|kind| kind.name() == lower);
        found.ok_or_else(|| DraftError::Link(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(title: &str, content: &str) -> Draft {
        Draft {
            title: title.into(),
            content: content.into(),
            tier: Tier::Normal,
            triggers: Vec::new(),
            folder: String::new(),
            kind: String::new(),
        }
    }

    #[test]
    fn empty_or_too_long_fields_are_rejected() {
        assert_eq!(
            draft(" \n", "x").checked(),
            Err(DraftError::Empty { field: "title" })
        );
        assert_eq!(
            draft("x", "\t").checked(),
            Err(DraftError::Empty { field: "content" })
        );
        assert!(draft(&"x".repeat(300), "x").checked().is_ok());
        let error = draft(&"ü".repeat(301), "x").checked().unwrap_err();
        assert_eq!(
            error.to_string(),
            "title is too long: 301 characters (maximum 300)"
        );
        let mut many = draft("x", "x");
        many.triggers = (0..51).map(|number| format!("phrase {number}")).collect();
        assert!(matches!(
            many.checked(),
            Err(DraftError::TooLong { length: 51, .. })
        ));
    }

    #[test]
    fn a_hash_separates_title_and_content() {
        assert_ne!(content_hash("ab", "c"), content_hash("a", "bc"));
        assert_eq!(content_hash("a", "b"), content_hash("a", "b"));
    }

    #[test]
    fn names_round_trip_and_unknown_ones_are_rejected() {
        for kind in LinkKind::ALL {
            assert_eq!(kind.name().to_uppercase().parse(), Ok(kind));
        }
        assert!("causes".parse::<LinkKind>().is_err());
        assert_eq!(parse_tier("Critical"), Ok(Tier::Critical));
        assert!(
            parse_tier("vital")
                .unwrap_err()
                .to_string()
                .contains("constitutional")
        );
    }
}
