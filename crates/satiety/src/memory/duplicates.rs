//! Comparison of a new memory with stored ones: identical, near-identical, or contradicting it.
//!
//! Sentence models place a statement next to its contradiction, so similarity alone must never merge two
//! memories: the guard checks amounts, names and negations first, sentence by sentence.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LinkKind;
use crate::text::guard::{Difference, ParsedStatement, coverage, differences_between};
use crate::text::{Tokenization, jaccard, normalize, sentences};

/// Thresholds and bounds of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicateSettings {
    near_words: f64,
    near_meaning: f64,
    contains: f64,
    similar_words: f64,
    similar_meaning: f64,
    same_statement: f64,
    short_statement: f64,
    /// Compared memories per channel.
    pub candidates: usize,
    sentences: usize,
    bytes: usize,
}

#[expect(
    clippy::expect_used,
    reason = "the file is compiled in, and the tests below read it"
)]
static SETTINGS: LazyLock<DuplicateSettings> = LazyLock::new(|| {
    toml::from_str(include_str!("data/duplicates.toml")).expect("duplicates.toml can be read")
});

/// Returns the built-in thresholds.
pub fn duplicate_settings() -> &'static DuplicateSettings {
    &SETTINGS
}

/// Relation of a new memory to a stored one.
#[derive(Debug, Clone, PartialEq)]
pub enum Resemblance {
    /// They say the same in the same words, or nearly so.
    Duplicate {
        /// How much they are alike.
        kind: DuplicateKind,
        /// Similarity from 0 to 1.
        similarity: f64,
        /// What to do with the new memory.
        proposal: OnDuplicate,
    },
    /// They say different things about the same.
    Conflict {
        /// Similarity from 0 to 1.
        similarity: f64,
        /// Contradictions that the guard found.
        differences: Vec<Difference>,
    },
}

/// How much two memories are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateKind {
    /// Title and content are the same, apart from case, spacing and punctuation.
    Identical,
    /// The words or the meaning are nearly the same, and nothing contradicts.
    Near,
}

impl DuplicateKind {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Near => "near",
        }
    }
}

/// What saving does if an identical or near-identical memory exists. Nothing is ever deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Save it as another memory.
    #[default]
    Keep,
    /// Replace the text of the existing memory.
    Update,
    /// Add what is new to the existing memory.
    Merge,
    /// Save nothing and fail.
    Reject,
}

impl OnDuplicate {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Update => "update",
            Self::Merge => "merge",
            Self::Reject => "reject",
        }
    }
}

/// Title and content of a memory to compare.
#[derive(Debug, Clone, Copy)]
pub struct MemoryText<'a> {
    /// Title of the memory.
    pub title: &'a str,
    /// Content of the memory.
    pub content: &'a str,
}

/// Compares a new memory with a stored one; `None` if they have little in common. `cosine` is the similarity
/// of their vectors, if there are any.
///
/// ```
/// use satiety::memory::{MemoryText, Resemblance, compare_memories, duplicate_settings};
/// let old = MemoryText { title: "Lock timeout", content: "The lock timeout is 10 seconds." };
/// let new = MemoryText { content: "The lock timeout is 30 seconds.", ..old };
/// let found = compare_memories(new, old, None, duplicate_settings());
/// let Some(Resemblance::Conflict { differences, .. }) = found else { panic!() };
/// assert_eq!(differences[0].to_string(), "number: \"30 seconds\" against \"10 seconds\"");
/// ```
pub fn compare_memories(
    new: MemoryText<'_>,
    old: MemoryText<'_>,
    cosine: Option<f64>,
    settings: &DuplicateSettings,
) -> Option<Resemblance> {
    let [new_text, old_text] = [new.content, old.content].map(|text| truncated(text, settings.bytes));
    let same = |one: &str, other: &str| normalize(one) == normalize(other);
    if new.content.len() <= settings.bytes && same(new_text, old_text) && same(new.title, old.title) {
        return Some(Resemblance::Duplicate {
            kind: DuplicateKind::Identical,
            similarity: 1.0,
            proposal: OnDuplicate::Update,
        });
    }
    let words =
        |memory: MemoryText<'_>, text: &str| Tokenization::Words.set(&format!("{} {text}", memory.title));
    let (new_words, old_words) = (words(new, new_text), words(old, old_text));
    let by_words = jaccard(&new_words, &old_words);
    let by_meaning = cosine.unwrap_or(0.0);
    if by_words < settings.similar_words && by_meaning < settings.similar_meaning {
        return None;
    }
    let similarity = by_words.max(by_meaning).clamp(0.0, 1.0);
    let differences = contradictions(new_text, old_text, by_meaning, settings);
    if !differences.is_empty() {
        return has_same_subject(&differences).then_some(Resemblance::Conflict {
            similarity,
            differences,
        });
    }
    if by_words < settings.near_words && by_meaning < settings.near_meaning {
        return None;
    }
    let proposal = if share(&old_words, &new_words) >= settings.contains {
        OnDuplicate::Update
    } else {
        OnDuplicate::Merge
    };
    Some(Resemblance::Duplicate {
        kind: DuplicateKind::Near,
        similarity,
        proposal,
    })
}

/// Link that a conflict suggests from the new memory to the old one: the later observation replaces the
/// earlier one, and otherwise both stand against each other.
pub fn suggested_link(new_observed: i64, old_observed: i64) -> LinkKind {
    if new_observed >= old_observed {
        LinkKind::Supersedes
    } else {
        LinkKind::Contradicts
    }
}

/// Content of the old memory, followed by the sentences of the new one that it does not contain.
///
/// ```
/// use satiety::memory::merged_content;
/// let merged = merged_content("Use WAL. It is fast.", "Use WAL. Readers never wait.");
/// assert_eq!(merged, "Use WAL. It is fast.\n\nReaders never wait.");
/// ```
pub fn merged_content(old: &str, new: &str) -> String {
    let settings = duplicate_settings();
    let known: Vec<BTreeSet<String>> = sentences(old)
        .iter()
        .map(|sentence| Tokenization::Words.set(sentence.text))
        .collect();
    let is_known = |text: &str| {
        let words = Tokenization::Words.set(text);
        known
            .iter()
            .any(|other| jaccard(&words, other) >= settings.contains)
    };
    let added: Vec<&str> = sentences(new)
        .into_iter()
        .map(|sentence| sentence.text)
        .filter(|text| !is_known(text))
        .collect();
    if added.is_empty() {
        old.to_owned()
    } else {
        format!("{}\n\n{}", old.trim_end(), added.join(" "))
    }
}

/// Contradictions between the most similar sentences of two texts.
fn contradictions(new: &str, old: &str, cosine: f64, settings: &DuplicateSettings) -> Vec<Difference> {
    let parse = |text: &str| -> Vec<ParsedStatement> {
        let all = sentences(text).into_iter().take(settings.sentences);
        all.map(|sentence| ParsedStatement::of(sentence.text)).collect()
    };
    let (new, old) = (parse(new), parse(old));
    let short = new.len() == 1 && old.len() == 1 && cosine >= settings.similar_meaning;
    let least = if short {
        settings.short_statement
    } else {
        settings.same_statement
    };
    let mut found: Vec<Difference> = Vec::new();
    for statement in &new {
        let mut best: Option<(f64, &ParsedStatement)> = None;
        for other in &old {
            let common = coverage(statement, other);
            if common >= least && best.is_none_or(|(most, _)| common > most) {
                best = Some((common, other));
            }
        }
        let Some((_, other)) = best else { continue };
        for difference in differences_between(statement, other) {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

/// Whether the differences are about one subject. Two different names, or a name and an amount, rather belong
/// to two subjects, such as the birthdays of two people.
fn has_same_subject(differences: &[Difference]) -> bool {
    let names = differences
        .iter()
        .filter(|difference| matches!(difference, Difference::Name { .. }))
        .count();
    names == 0 || differences.len() == 1
}

fn share(part: &BTreeSet<String>, whole: &BTreeSet<String>) -> f64 {
    if part.is_empty() {
        return 0.0;
    }
    part.intersection(whole).count() as f64 / part.len() as f64
}

fn truncated(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compare(new: &str, old: &str, cosine: Option<f64>) -> Option<Resemblance> {
        let text = |content| MemoryText {
            title: "Note",
            content,
        };
        compare_memories(text(new), text(old), cosine, duplicate_settings())
    }

    fn reason(found: Option<Resemblance>) -> String {
        match found {
            None => "different".into(),
            Some(Resemblance::Duplicate { kind, proposal, .. }) => {
                format!("{} {}", kind.name(), proposal.name())
            }
            Some(Resemblance::Conflict { differences, .. }) => {
                let reasons: Vec<String> = differences.iter().map(ToString::to_string).collect();
                reasons.join("; ")
            }
        }
    }

    #[test]
    fn memories_are_identical_near_or_in_conflict() {
        for (new, old, cosine, expected) in [
            (
                "Deploy on Mondays only.",
                "deploy on  Mondays only",
                None,
                "identical update",
            ),
            (
                "The cache of the gateway is shared by all workers of a host.",
                "The cache of the gateway is shared by all the workers of a host.",
                None,
                "near update",
            ),
            (
                "The retry limit is 3 attempts.",
                "The retry limit is 5 attempts.",
                Some(0.95),
                "number: \"3\" against \"5\"",
            ),
            (
                "The primary database is Postgres.",
                "The primary database is MySQL.",
                Some(0.85),
                "name: \"Postgres\" against \"MySQL\"",
            ),
            (
                "The export job is not safe to restart.",
                "The export job is safe to restart.",
                Some(0.9),
                "negation: \"not safe\"",
            ),
            (
                "Cats sleep a lot.",
                "The primary database is MySQL.",
                Some(0.1),
                "different",
            ),
            // Two subjects, not one subject with two values.
            (
                "Alice has her birthday on 3 May.",
                "Robert has his birthday on 9 June.",
                Some(0.8),
                "different",
            ),
            // The contradiction is in one of several sentences.
            (
                "Exports run at night. The retry limit is 3 attempts. Ask Kim about it.",
                "The retry limit is 5 attempts. Exports run at night.",
                Some(0.9),
                "number: \"3\" against \"5\"",
            ),
        ] {
            assert_eq!(reason(compare(new, old, cosine)), expected, "{new} | {old}");
        }
    }

    #[test]
    fn the_proposal_depends_on_what_is_new() {
        let old = "The gateway caches tokens for each worker of a host in shared memory with a lock.";
        let more = format!("{old} It is evicted hourly.");
        assert_eq!(reason(compare(&more, old, Some(0.97))), "near update");
        assert_eq!(reason(compare(old, &more, Some(0.97))), "near merge");
    }

    #[test]
    fn a_merge_keeps_all_of_the_old_text_and_adds_only_new_sentences() {
        assert_eq!(merged_content("A is b.", "a is b"), "A is b.");
        assert_eq!(
            merged_content("A is b.\n", "C is d. A is b."),
            "A is b.\n\nC is d."
        );
    }

    #[test]
    fn the_later_observation_supersedes() {
        assert_eq!(suggested_link(2, 1), LinkKind::Supersedes);
        assert_eq!(suggested_link(1, 2), LinkKind::Contradicts);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any text is identical to itself, and a conflict is found in both directions.
        #[test]
        fn comparison_is_reflexive_and_conflicts_are_symmetric(a in "[a-z0-9 .]{1,80}", b in "[a-z0-9 .]{1,80}") {
            prop_assume!(!a.trim().is_empty() && !b.trim().is_empty());
            let is_identical =
                matches!(compare(&a, &a, None), Some(Resemblance::Duplicate { kind: DuplicateKind::Identical, .. }));
            prop_assert!(is_identical);
            let conflict = |one: &str, other: &str| matches!(compare(one, other, Some(0.9)), Some(Resemblance::Conflict { .. }));
            let single = sentences(&a).len() <= 1 && sentences(&b).len() <= 1;
            prop_assert!(!single || conflict(&a, &b) == conflict(&b, &a));
            prop_assert!(merged_content(&a, &b).starts_with(a.trim_end()));
        }
    }
}
