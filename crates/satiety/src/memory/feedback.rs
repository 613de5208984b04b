//! Learning from feedback about search results. Every rule is bounded and reversible.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::query_terms;
use crate::text::normalize;
use crate::text::words::WordRule;

/// Maximum number of phrases that a memory learns from selections.
pub(crate) const LEARNT_PHRASES: usize = 5;
/// Number of words of a learnt phrase: fewer are not specific enough, more are a complete question.
const LEARNT_PHRASE_WORDS: std::ops::RangeInclusive<usize> = 2..=6;
/// Number of consecutive words that identify a quotation.
const QUOTE_WORDS: usize = 8;

/// Kind of a feedback event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// A result was read after the search.
    ReadAfterSearch,
    /// The query was repeated because the results did not suffice.
    ReSearch,
    /// A result ranked above the one that was used.
    ScrollPast,
    /// The text of a result was quoted literally.
    Reference,
    /// The memory was judged useful.
    ValidateUseful,
    /// The memory was judged not useful.
    ValidateNotUseful,
}

impl FeedbackKind {
    /// All kinds of feedback.
    pub const ALL: [Self; 6] = [
        Self::ReadAfterSearch,
        Self::ReSearch,
        Self::ScrollPast,
        Self::Reference,
        Self::ValidateUseful,
        Self::ValidateNotUseful,
    ];

    /// Whether the memory was read, quoted or judged useful.
    pub fn is_use(self) -> bool {
        matches!(
            self,
            Self::ReadAfterSearch | Self::Reference | Self::ValidateUseful
        )
    }

    /// Returns the kind with the given name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Name as used in JSON and messages.
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

/// Confidence in a memory, learnt from validations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Confidence from 0 to 1; a new memory has 0.5.
    pub value: f64,
    /// Number of validations so far.
    pub validations: i64,
}

/// Result of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Confidence after the validation.
    pub confidence: Confidence,
    /// Whether it qualifies for a higher tier: confidence at least 0.9 after at least 5 validations.
    pub promotion_eligible: bool,
}

/// Updates the confidence by a validation: +0.10 if useful, −0.05 otherwise, clamped to the range from 0 to
/// 1.
///
/// ```
/// use satiety::memory::{Confidence, validate};
/// let new = Confidence { value: 0.5, validations: 0 };
/// assert_eq!(validate(new, true).confidence, Confidence { value: 0.6, validations: 1 });
/// ```
pub fn validate(before: Confidence, useful: bool) -> Validation {
    let step = if useful { 0.10 } else { -0.05 };
    // Rounded to hundredths: sums of 0.1 must reach 0.9 after four steps, without rounding error.
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

/// Results that were passed over: those ranked above the first used one. Empty when none was used, because
/// then nothing is known.
pub fn scroll_past<'a>(results: &'a [String], used: &BTreeSet<String>) -> &'a [String] {
    let first = results
        .iter()
        .position(|result| used.contains(result))
        .unwrap_or(0);
    &results[..first]
}

/// Results that a text quotes: at least eight consecutive words are equal.
pub fn references<'a>(text: &str, results: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let text = words(text);
    let said: BTreeSet<&[String]> = text.windows(QUOTE_WORDS).collect();
    let repeats = |content: &str| words(content).windows(QUOTE_WORDS).any(|row| said.contains(row));
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

/// Returns the trigger phrase to learn from a selection: the significant words of the query, if they are
/// specific enough, not known yet, and the memory has not reached its limit. `learnt` are the phrases learnt
/// so far.
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
    let fits = LEARNT_PHRASE_WORDS.contains(&terms.len());
    (fits && !known && learnt.len() < LEARNT_PHRASES).then_some(phrase)
}

/// Removes a learnt phrase and returns whether it existed. Phrases written by people are never touched.
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
    fn promotion_requires_confidence_and_validations() {
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
    fn results_above_the_first_used_one_were_passed_over() {
        let results: Vec<String> = ["a", "b", "c"].map(Into::into).into();
        let used = |ids: &[&str]| ids.iter().map(ToString::to_string).collect();
        assert_eq!(scroll_past(&results, &used(&["c", "b"])), ["a"]);
        assert_eq!(scroll_past(&results, &used(&["a"])), [] as [String; 0]);
        assert_eq!(scroll_past(&results, &used(&[])), [] as [String; 0]);
    }

    #[test]
    fn eight_consecutive_words_are_a_quotation() {
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
    fn kinds_round_trip_through_names() {
        for kind in FeedbackKind::ALL {
            assert_eq!(FeedbackKind::named(kind.name()), Some(kind));
        }
        assert_eq!(FeedbackKind::named("click"), None);
    }

    #[test]
    fn learning_is_bounded_and_reversible() {
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
