//! What the asker is after, told by words, and how much each channel counts for it. The words are data.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Weights;
use crate::text::{Tokenization, normalize};

/// What an asker may be after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Something new.
    AddFeature,
    /// Something is broken.
    FixBug,
    /// The same in better shape.
    Refactor,
    /// What could be abused.
    SecurityAudit,
    /// How something works.
    Understand,
    /// What was asked for.
    FindSpec,
    /// Why something is as it is.
    FindDecision,
}

impl Intent {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddFeature => "add_feature",
            Self::FixBug => "fix_bug",
            Self::Refactor => "refactor",
            Self::SecurityAudit => "security_audit",
            Self::Understand => "understand",
            Self::FindSpec => "find_spec",
            Self::FindDecision => "find_decision",
        }
    }
}

/// An intent, and what told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Classified {
    /// The intent; absent when no word tells.
    pub intent: Option<Intent>,
    /// The words and phrases that told it.
    pub because: Vec<String>,
}

/// Tells what a query is after.
///
/// ```
/// use satiety::memory::{Intent, classify};
/// assert_eq!(classify("why did we choose SQLite").intent, Some(Intent::FindDecision));
/// assert_eq!(classify("sqlite wal").intent, None);
/// ```
pub fn classify(query: &str) -> Classified {
    let words = Tokenization::Words.set(query);
    let normal = format!(" {} ", normalize(query));
    let mut best: (usize, Classified) = (
        0,
        Classified {
            intent: None,
            because: Vec::new(),
        },
    );
    for entry in &TABLE.intent {
        let phrases: Vec<&String> = entry
            .phrases
            .iter()
            .filter(|phrase| normal.contains(&format!(" {phrase} ")))
            .collect();
        let told: Vec<&String> = entry.words.iter().filter(|word| words.contains(*word)).collect();
        let count = 2 * phrases.len() + told.len();
        if count > best.0 {
            let because = phrases.into_iter().chain(told).cloned().collect();
            let intent = Some(entry.name);
            best = (count, Classified { intent, because });
        }
    }
    best.1
}

/// How much each channel counts for an intent.
pub fn weights(intent: Option<Intent>) -> Weights {
    let entry = intent.and_then(|intent| TABLE.intent.iter().find(|entry| entry.name == intent));
    entry.map_or(TABLE.general, |entry| Weights {
        lexical: entry.lexical,
        vector: entry.vector,
        trigger: entry.trigger,
        graph: entry.graph,
    })
}

/// Whether such questions are worth a deep search.
pub fn wants_depth(intent: Option<Intent>) -> bool {
    TABLE
        .intent
        .iter()
        .any(|entry| Some(entry.name) == intent && entry.deep)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    general: Weights,
    intent: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Intent,
    words: BTreeSet<String>,
    phrases: BTreeSet<String>,
    #[serde(default)]
    deep: bool,
    lexical: f64,
    vector: f64,
    trigger: f64,
    graph: f64,
}

#[expect(
    clippy::expect_used,
    reason = "a file of the program, read by the tests below"
)]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("data/intents.toml")).expect("intents.toml can be read"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seven_intents_are_told_by_their_words() {
        for (query, expected) in [
            ("add rate limiting to the gateway", Some(Intent::AddFeature)),
            ("the login page crashes after an upgrade", Some(Intent::FixBug)),
            ("refactor the session store", Some(Intent::Refactor)),
            (
                "is the upload endpoint vulnerable to injection?",
                Some(Intent::SecurityAudit),
            ),
            ("how does the cache work", Some(Intent::Understand)),
            ("acceptance criteria of the export", Some(Intent::FindSpec)),
            (
                "Why did we use Postgres instead of MySQL?",
                Some(Intent::FindDecision),
            ),
            // "how" and "what" are weak: anything more telling wins.
            ("how do I fix the failing build", Some(Intent::FixBug)),
            ("prefix tree addition", None),
            ("", None),
        ] {
            assert_eq!(classify(query).intent, expected, "{query}");
        }
    }

    #[test]
    fn the_table_has_every_intent_that_corpora_know_once() {
        let names: Vec<&str> = TABLE.intent.iter().map(|entry| entry.name.name()).collect();
        assert_eq!(
            names.iter().copied().collect::<BTreeSet<_>>(),
            BTreeSet::from(crate::retrieval::INTENTS)
        );
        assert_eq!(names.len(), 7);
        for entry in &TABLE.intent {
            let weights = weights(Some(entry.name));
            assert!(
                (weights.lexical + weights.vector - 1.0).abs() < 1e-12,
                "{:?}",
                entry.name
            );
            assert!(weights.trigger > 0.0 && weights.graph > 0.0);
            for word in &entry.words {
                assert!(Tokenization::Words.set(word).iter().eq([word]), "{word}");
            }
        }
    }
}
