//! What a memory is, before it has an id: its fields, their limits, and the hash that says whether its text changed.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// Longest title, in characters.
const LONGEST_TITLE: usize = 300;
/// Longest text, in bytes: a book, and still far from what a store cannot hold.
const LONGEST_CONTENT: usize = 4 << 20;
/// Most trigger phrases, and the longest one.
const MOST_TRIGGERS: usize = 50;
const LONGEST_TRIGGER: usize = 200;
/// Longest folder and kind, in bytes: both come with every result.
const LONGEST_FOLDER: usize = 1024;
const LONGEST_KIND: usize = 100;

/// A memory to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Draft {
    /// What it is called.
    pub title: String,
    /// What it says.
    pub content: String,
    /// How important it is.
    pub tier: Tier,
    /// Phrases that bring it back when they are said.
    pub triggers: Vec<String>,
    /// Where it belongs: segments joined by `/`; empty for everywhere.
    pub folder: String,
    /// What kind of thing it is: `decision`, `bug`, `note`, …
    pub kind: String,
}

/// Why something cannot be kept as a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// A field that must say something is empty.
    #[error("a memory needs a {field}, and it is empty")]
    Empty {
        /// Which field.
        field: &'static str,
    },
    /// A field is too long.
    #[error("the {field} has {length} {unit}, and at most {most} are kept")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// How long it is.
        length: usize,
        /// The limit.
        most: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// No tier of that name.
    #[error("`{0}` is no tier; there are temporary, normal, important, critical and constitutional")]
    Tier(String),
    /// No kind of link of that name.
    #[error("`{0}` is no kind of link; there are caused, enabled, supersedes, contradicts and supports")]
    Link(String),
}

impl Draft {
    /// A memory as it is kept: trimmed, triggers normalised and without repeats, the folder without empty segments.
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
        within("title", title.chars().count(), LONGEST_TITLE, "characters")?;
        within("content", content.len(), LONGEST_CONTENT, "bytes")?;
        let mut triggers: Vec<String> = Vec::new();
        for phrase in self.triggers {
            let phrase = crate::text::normalize(&phrase);
            within(
                "trigger phrase",
                phrase.chars().count(),
                LONGEST_TRIGGER,
                "characters",
            )?;
            if !phrase.is_empty() && !triggers.contains(&phrase) {
                triggers.push(phrase);
            }
        }
        within(
            "list of trigger phrases",
            triggers.len(),
            MOST_TRIGGERS,
            "entries",
        )?;
        let kind = self.kind.trim();
        within("kind", kind.len(), LONGEST_KIND, "bytes")?;
        within("folder", self.folder.len(), LONGEST_FOLDER, "bytes")?;
        Ok(Self {
            title,
            content,
            tier: self.tier,
            triggers,
            folder: plain_folder(&self.folder),
            kind: if kind.is_empty() { "note" } else { kind }.to_owned(),
        })
    }
}

fn within(field: &'static str, length: usize, most: usize, unit: &'static str) -> Result<(), DraftError> {
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

fn plain_folder(folder: &str) -> String {
    let segments: Vec<&str> = folder
        .split(['/', '\\'])
        .map(str::trim)
        .filter(|segment| !segment.is_empty() && *segment != ".")
        .collect();
    segments.join("/")
}

/// Whether a memory's folder is the one that is asked for, or below it. Asking for nothing means everything.
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

/// The tier of that name.
pub fn tier_named(name: &str) -> Result<Tier, DraftError> {
    let lower = name.trim().to_lowercase();
    let found = Tier::ALL.into_iter().find(|tier| tier.name() == lower);
    found.ok_or_else(|| DraftError::Tier(name.into()))
}

/// What decides whether a memory must be chunked and embedded again: its title and its text.
pub fn content_hash(title: &str, content: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    // The length tells "ab" + "c" from "a" + "bc".
    hasher.update(&(title.len() as u64).to_le_bytes());
    hasher.update(title.as_bytes());
    hasher.update(content.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// How one memory bears on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// It brought the other about.
    Caused,
    /// It made the other possible.
    Enabled,
    /// It takes the other's place.
    Supersedes,
    /// It says the contrary.
    Contradicts,
    /// It speaks for the other.
    Supports,
}

impl LinkKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Caused,
        Self::Enabled,
        Self::Supersedes,
        Self::Contradicts,
        Self::Supports,
    ];

    /// Its name, as it is written.
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
    fn what_says_nothing_or_too_much_is_refused() {
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
            "the title has 301 characters, and at most 300 are kept"
        );
        let mut many = draft("x", "x");
        many.triggers = (0..51).map(|number| format!("phrase {number}")).collect();
        assert!(matches!(
            many.checked(),
            Err(DraftError::TooLong { length: 51, .. })
        ));
    }

    #[test]
    fn a_hash_tells_titles_from_texts() {
        assert_ne!(content_hash("ab", "c"), content_hash("a", "bc"));
        assert_eq!(content_hash("a", "b"), content_hash("a", "b"));
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for kind in LinkKind::ALL {
            assert_eq!(kind.name().to_uppercase().parse(), Ok(kind));
        }
        assert!("causes".parse::<LinkKind>().is_err());
        assert_eq!(tier_named("Critical"), Ok(Tier::Critical));
        assert!(
            tier_named("vital")
                .unwrap_err()
                .to_string()
                .contains("constitutional")
        );
    }
}
