//! What may be learnt from what an agent did with its results. Every rule is bounded and can be undone.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::query_terms;
use crate::text::words::WordRule;
use crate::text::{jaccard, normalize};

/// Phrases that selections may teach a memory, at most.
pub const LEARNT_PHRASES: usize = 5;
/// Words of a learnt phrase: fewer say too little, more are a whole question.
const LEARNT_WORDS: std::ops::RangeInclusive<usize> = 2..=6;
/// Likeness of words from which on a query asks the same again.
const SAME_QUESTION: f64 = 0.5;
/// Words in a row that are no coincidence.
const REFERENCE_WORDS: usize = 8;

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// A result was read.
    ReadAfterSearch,
    /// The same was asked again: the results did not do.
    ReSearch,
    /// A result that stood above the one that was used.
    ScrollPast,
    /// What a result says was said again, word for word.
    Reference,
    /// Somebody said that it was useful.
    ValidateUseful,
    /// Somebody said that it was not.
    ValidateNotUseful,
}

impl FeedbackKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::ReadAfterSearch,
        Self::ReSearch,
        Self::ScrollPast,
        Self::Reference,
        Self::ValidateUseful,
        Self::ValidateNotUseful,
    ];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadAfterSearch => "read_after_search",
            Self::ReSearch => "re_search",
            Self::ScrollPast => "scroll_past",
            Self::Reference => "reference",
            Self::ValidateUseful => "validate_useful",
            Self::ValidateNotUseful => "validate_not_useful",
        }
    }
}

/// How much a memory has proved itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// From 0 to 1; a new memory has 0.5.
    pub value: f64,
    /// How often somebody said whether it was useful.
    pub validations: i64,
}

/// What a validation changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// What it is now.
    pub confidence: Confidence,
    /// Whether it may be promoted to a higher tier: confidence at least 0.9 after at least 5 validations.
    pub promotion_eligible: bool,
}

/// Somebody says whether a memory was useful: +0.10 or −0.05, between 0 and 1.
///
/// ```
/// use satiety::memory::{Confidence, validate};
/// let new = Confidence { value: 0.5, validations: 0 };
/// assert_eq!(validate(new, true).confidence, Confidence { value: 0.6, validations: 1 });
/// ```
pub fn validate(before: Confidence, useful: bool) -> Validation {
    let step = if useful { 0.10 } else { -0.05 };
    // Hundredths: sums of 0.1 must reach 0.9 after four steps, not fall an ulp short.
    let value = ((before.value + step).clamp(0.0, 1.0) * 100.0).round() / 100.0;
    let confidence = Confidence {
        value,
        validations: before.validations + 1,
    };
    Validation {
        confidence,
        promotion_eligible: value >= 0.9 && confidence.validations >= 5,
    }
}

/// Whether a query asks again what an earlier one of the same session asked; asking the very same counts.
pub fn is_research(query: &str, earlier: &str) -> bool {
    let words = |text| {
        query_terms(text, false)
            .terms
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    let (one, other) = (words(query), words(earlier));
    !one.is_empty() && jaccard(&one, &other) >= SAME_QUESTION
}

/// The results that were passed over: those above the first that was used. When none was used nothing is known.
pub fn scroll_past<'a>(results: &'a [String], used: &BTreeSet<String>) -> &'a [String] {
    let first = results
        .iter()
        .position(|result| used.contains(result))
        .unwrap_or(0);
    &results[..first]
}

/// Which results a text says again: at least eight words in a row are the same.
pub fn references<'a>(text: &str, results: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let text = words(text);
    let said: BTreeSet<&[String]> = text.windows(REFERENCE_WORDS).collect();
    let repeats = |content: &str| {
        words(content)
            .windows(REFERENCE_WORDS)
            .any(|row| said.contains(row))
    };
    let found = results
        .into_iter()
        .filter(|(_, content)| !said.is_empty() && repeats(content));
    found.map(|(id, _)| id.to_owned()).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    WordRule::Compare.for_each(text, |word| words.push(word.to_owned()));
    words
}

/// The trigger phrase that a selection teaches: the query's telling words, if they say enough, are not known yet, and
/// the memory has not learnt its share. `learnt` are the phrases that selections taught it before.
///
/// ```
/// use satiety::memory::learn_from_selection;
/// assert_eq!(learn_from_selection("How do I unlock the database?", &[], &[]).as_deref(), Some("unlock database"));
/// ```
pub fn learn_from_selection(query: &str, triggers: &[String], learnt: &[String]) -> Option<String> {
    let terms = query_terms(query, false).terms;
    let phrase = terms.join(" ");
    let known = triggers
        .iter()
        .chain(learnt)
        .any(|other| normalize(other) == phrase);
    let fits = LEARNT_WORDS.contains(&terms.len());
    (fits && !known && learnt.len() < LEARNT_PHRASES).then_some(phrase)
}

/// Takes back a learnt phrase; says whether it was there. What people wrote is never touched.
pub fn unlearn(learnt: &mut Vec<String>, phrase: &str) -> bool {
    let phrase = normalize(phrase);
    let before = learnt.len();
    learnt.retain(|other| *other != phrase);
    learnt.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn promotion_needs_nine_tenths_and_five_validations() {
        let mut now = Confidence {
            value: 0.5,
            validations: 0,
        };
        let mut eligible = Vec::new();
        for _ in 0..6 {
            let next = validate(now, true);
            eligible.push((next.confidence.value, next.promotion_eligible));
            now = next.confidence;
        }
        assert_eq!(
            eligible,
            [
                (0.6, false),
                (0.7, false),
                (0.8, false),
                (0.9, false),
                (1.0, true),
                (1.0, true)
            ]
        );
        let after = validate(now, false);
        assert_eq!((after.confidence.value, after.promotion_eligible), (0.95, true));
    }

    #[test]
    fn asking_the_same_again_is_told_from_asking_something_else() {
        for (query, earlier, expected) in [
            ("sqlite locked error", "why is sqlite locked", true),
            ("sqlite locked", "sqlite locked", true),
            ("postgres pool size", "sqlite locked", false),
            ("", "", false),
        ] {
            assert_eq!(is_research(query, earlier), expected, "{query}");
        }
    }

    #[test]
    fn what_stands_above_the_first_that_was_used_was_passed_over() {
        let results: Vec<String> = ["a", "b", "c"].map(Into::into).into();
        let used = |ids: &[&str]| ids.iter().map(ToString::to_string).collect();
        assert_eq!(scroll_past(&results, &used(&["c", "b"])), ["a"]);
        assert_eq!(scroll_past(&results, &used(&["a"])), [] as [String; 0]);
        assert_eq!(scroll_past(&results, &used(&[])), [] as [String; 0]);
    }

    #[test]
    fn eight_words_in_a_row_are_a_reference() {
        let content = "Readers never wait for the writer, because the log is separate from the file.";
        let found = |text: &str| references(text, [("m", content), ("n", "something else entirely")]);
        assert_eq!(
            found("As noted, readers never wait for the writer because the log grows."),
            ["m"]
        );
        assert_eq!(found("readers never wait for the writer"), [] as [String; 0]);
        assert_eq!(found(""), [] as [String; 0]);
    }

    #[test]
    fn kinds_are_known_by_their_names() {
        for kind in FeedbackKind::ALL {
            assert_eq!(FeedbackKind::named(kind.name()), Some(kind));
        }
        assert_eq!(FeedbackKind::named("click"), None);
    }

    #[test]
    fn learning_is_bounded_and_can_be_taken_back() {
        let mut learnt: Vec<String> = Vec::new();
        for number in 0..9 {
            if let Some(phrase) = learn_from_selection(&format!("database lock case{number}"), &[], &learnt) {
                learnt.push(phrase);
            }
        }
        assert_eq!(learnt.len(), LEARNT_PHRASES);
        assert!(unlearn(&mut learnt, "Database lock case3") && !unlearn(&mut learnt, "database lock case3"));
        assert_eq!(learnt.len(), LEARNT_PHRASES - 1);
        assert_eq!(learn_from_selection("lock", &[], &[]), None);
        assert_eq!(learn_from_selection("a b c d e f g h", &[], &[]), None);
        assert_eq!(
            learn_from_selection("the database lock", &["Database Lock".into()], &[]),
            None
        );
    }

    proptest! {
        #[test]
        fn confidence_never_leaves_its_range(steps in proptest::collection::vec(any::<bool>(), 0..60)) {
            let mut now = Confidence { value: 0.5, validations: 0 };
            for useful in &steps {
                now = validate(now, *useful).confidence;
                prop_assert!((0.0..=1.0).contains(&now.value));
            }
            prop_assert_eq!(now.validations, i64::try_from(steps.len()).unwrap());
        }
    }
}
