//! Turns of conversations: recognizes a memory that is one turn of a dialogue, such as "Ada: we ship on Friday", so that a
//! search can consider the turns before and after it. A short answer often shares no word with the question that it
//! answers, but its neighbors do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of characters of a speaker's name.
const MAX_NAME_CHARS: usize = 40;
/// Maximum number of words of a speaker's name.
const MAX_NAME_WORDS: usize = 4;
/// Labels that look like a speaker and are not.
const LABELS: &str = "note notes todo fixme decision decisions warning error bug fix question answer q a example summary title \
     reason reasons why what how update http https file path url context status result results rule rules tip hint info \
     important date time author source see also caution problem solution cause symptom steps goal owner version id key \
     value name type tags tag topic subject re fwd ps nb eg ie step task deadline priority convention preference lesson";

/// Influence of neighboring turns on the score of a turn, as a share of their scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct TurnSettings {
    /// Share of the score of the turn directly before.
    pub before: f64,
    /// Share of the score of the turn directly after.
    pub after: f64,
    /// Share of the scores of the turns at a distance of two.
    pub second: f64,
    /// Number of best candidates whose neighbors become candidates as well.
    pub seeds: usize,
}

impl TurnSettings {
    /// Offsets in the conversation with their shares.
    pub(super) fn shares(self) -> [(isize, f64); 4] {
        [
            (-2, self.second),
            (-1, self.before),
            (1, self.after),
            (2, self.second),
        ]
    }

    pub(super) fn are_used(self) -> bool {
        self.shares().iter().any(|(_, share)| *share > 0.0)
    }
}

/// Name of the speaker of a text that is one turn of a conversation.
///
/// Recognizes `Ada: …`, `Ada Lovelace said, "…"` and `user: …`, after an optional time in brackets or parentheses.
///
/// ```
/// use satiety::memory::speaker;
/// assert_eq!(speaker("Ada: we ship on Friday"), Some("Ada"));
/// assert_eq!(speaker("[2025-05-08 13:56] Dr. Ada L.: yes"), Some("Dr. Ada L."));
/// assert_eq!(speaker("Decision: use SQLite"), None);
/// assert_eq!(speaker("We ship on Friday"), None);
/// ```
pub fn speaker(text: &str) -> Option<&str> {
    let mut text = text.trim_start().trim_start_matches(['*', '-', '>']).trim_start();
    for (open, close) in [('[', ']'), ('(', ')')] {
        if let Some(inside) = text.strip_prefix(open) {
            let (_, rest) = inside.split_once(close).filter(|(time, _)| time.len() <= 60)?;
            text = rest.trim_start();
        }
    }
    let line = text.lines().next().unwrap_or_default();
    let said = [" said, \"", " said: ", " says, \"", " said \""];
    let by_verb = said
        .iter()
        .filter_map(|verb| line.split_once(verb))
        .map(|(name, _)| name);
    let by_colon = line
        .split_once(':')
        .filter(|(_, rest)| rest.starts_with([' ', '*']) || rest.is_empty());
    let name = by_verb
        .chain(by_colon.map(|(name, _)| name))
        .min_by_key(|name| name.len())?;
    is_name(name.trim_matches('*')).then(|| name.trim_matches('*').trim())
}

fn is_name(name: &str) -> bool {
    let words: Vec<&str> = name.split_whitespace().collect();
    let lower = name.trim().to_lowercase();
    let role = matches!(
        lower.as_str(),
        "user" | "assistant" | "human" | "ai" | "system" | "agent" | "bot"
    );
    let starts_as_name = |word: &&str| {
        word.chars()
            .next()
            .is_some_and(|c| c.is_uppercase() || !c.is_ascii())
    };
    let letters =
        |c: char| c.is_alphabetic() || c.is_numeric() || matches!(c, '.' | '\'' | '-' | '’' | '_' | ' ');
    // "Use WAL" is an instruction; "MARA" and "DR. ADA" are names in capital letters.
    let is_shouted = |word: &&&str| {
        let capitals = word.chars().filter(|c| c.is_uppercase()).count();
        capitals > 1 && !word.chars().any(char::is_lowercase)
    };
    let shouted = words.iter().filter(is_shouted).count();
    role || ((1..=MAX_NAME_WORDS).contains(&words.len())
        && name.chars().count() <= MAX_NAME_CHARS
        && name.chars().any(char::is_alphabetic)
        && name.chars().all(letters)
        && words.iter().all(starts_as_name)
        && (shouted == 0 || shouted == words.len())
        && !LABELS
            .split_whitespace()
            .any(|label| words.first().is_some_and(|word| word.to_lowercase() == label)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speakers_are_recognized_in_usual_formats() {
        for (text, expected) in [
            ("Mara: hello", Some("Mara")),
            ("**Mara Ó Briain:** hello", Some("Mara Ó Briain")),
            (
                "(1:56 pm on 8 May, 2023) Caroline said, \"Hey Mel!\"",
                Some("Caroline"),
            ),
            ("assistant: done", Some("assistant")),
            ("王芳: 你好", Some("王芳")),
            ("Note: the cache is cold", None),
            ("TODO: fix it", None),
            ("Use WAL: it is faster", None),
            ("http://example.org", None),
            ("12:30: lunch", None),
            ("the cache: cold", None),
            (": x", None),
            ("", None),
            ("[never closed Mara: x", None),
        ] {
            assert_eq!(speaker(text), expected, "{text}");
        }
    }
}
