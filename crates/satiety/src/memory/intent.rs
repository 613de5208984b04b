//! Rule-based intent classification of queries, and channel weights by intent. The rules are data.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Weights;
use crate::text::{Tokenization, normalize};

/// Intent of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Adding a new feature.
    AddFeature,
    /// Fixing a bug or error.
    FixBug,
    /// Refactoring or restructuring existing code.
    Refactor,
    /// Reviewing the security of code.
    SecurityAudit,
    /// Understanding how something works.
    Understand,
    /// Finding a specification or requirement.
    FindSpec,
    /// Finding the reason for a decision.
    FindDecision,
}

impl Intent {
    /// Name as used in JSON and messages.
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

/// An intent and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Classified {
    /// Detected intent; absent when no keyword matches.
    pub intent: Option<Intent>,
    /// Keywords and phrases that matched.
    pub because: Vec<String>,
}

/// Classifies the intent of a query.
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
        let matched_words: Vec<&String> = entry.words.iter().filter(|word| words.contains(*word)).collect();
        let count = 2 * phrases.len() + matched_words.len();
        if count > best.0 {
            let because = phrases.into_iter().chain(matched_words).cloned().collect();
            let intent = Some(entry.name);
            best = (count, Classified { intent, because });
        }
    }
    best.1
}

/// Channel weights for an intent.
pub fn weights(intent: Option<Intent>) -> Weights {
    let entry = intent.and_then(|intent| TABLE.intent.iter().find(|entry| entry.name == intent));
    entry.map_or(TABLE.general, |entry| Weights {
        lexical: entry.lexical,
        vector: entry.vector,
        trigger: entry.trigger,
        graph: entry.graph,
    })
}

/// Whether queries with this intent benefit from a deep search.
pub(crate) fn wants_depth(intent: Option<Intent>) -> bool {
    TABLE
        .intent
        .iter()
        .any(|entry| Some(entry.name) == intent && entry.deep)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentTable {
    general: Weights,
    intent: Vec<IntentEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentEntry {
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
    reason = "the file is compiled in, and the tests below read it"
)]
static TABLE: LazyLock<IntentTable> =
    LazyLock::new(|| toml::from_str(include_str!("data/intents.toml")).expect("intents.toml can be read"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seven_intents_are_detected_by_keywords() {
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
            // "how" and "what" are weak: any more specific keyword wins.
            ("how do I fix the failing build", Some(Intent::FixBug)),
            ("prefix tree addition", None),
            ("", None),
        ] {
            assert_eq!(classify(query).intent, expected, "{query}");
        }
    }

    #[test]
    fn the_table_has_every_corpus_intent_once() {
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
