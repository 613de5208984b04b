//! Which categories of an evaluation corpus a logged query can stand for. The rules are data.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::memory::query_terms;
use crate::text::{Tokenization, normalize};

/// A query as the log has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoggedQuery {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// Whether it is the first of its session.
    pub first_of_session: bool,
    /// How many results it had.
    pub results: usize,
    /// The folders of its first results, in order.
    pub folders: Vec<String>,
    /// The channels that contributed.
    pub channels: Vec<String>,
    /// How often something was done with its results.
    pub events: usize,
    /// Its category, when it belongs to the corpus already.
    pub corpus_category: Option<String>,
    /// Whether it belongs to the corpus already.
    pub in_corpus: bool,
}

/// What tells categories apart.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryRules {
    longest_query: usize,
    least_plain_share: f64,
    folders: usize,
    folder_depth: usize,
    least_concepts: usize,
    most_concepts: usize,
    concept_words: Vec<String>,
    concept_signs: Vec<String>,
    causal_words: Vec<String>,
    least_words: usize,
}

#[expect(
    clippy::expect_used,
    reason = "a file of the program, read by the tests below"
)]
static RULES: LazyLock<CategoryRules> = LazyLock::new(|| {
    toml::from_str(include_str!("data/categories.toml")).expect("categories.toml can be read")
});

/// The categories that a query fits, each with the reason; a query of words always fits at least one.
///
/// ```
/// use satiety::retrieval::{LoggedQuery, categories_of};
/// let query = LoggedQuery { query: "why did we choose sqlite and wal".into(), results: 3, ..LoggedQuery::default() };
/// let names: Vec<&str> = categories_of(&query).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["causal-query", "multi-concept", "semantic-search"]);
/// ```
pub fn categories_of(query: &LoggedQuery) -> Vec<(&'static str, String)> {
    let rules = &*RULES;
    let mut found = Vec::new();
    if let Some(reason) = edge_case(query, rules) {
        // What cannot be answered, or hardly read, tests nothing else.
        return vec![("edge-case", reason)];
    }
    let through = |channel: &str| query.channels.iter().any(|name| name == channel);
    if through("trigger") {
        found.push(("trigger-match", "a trigger phrase brought a result".to_owned()));
    }
    let words = Tokenization::Words.set(&query.query);
    let asks = rules.causal_words.iter().find(|word| words.contains(*word));
    if query.intent.as_deref() == Some("find_decision") {
        found.push(("causal-query", "the intent is find_decision".into()));
    } else if let Some(word) = asks {
        found.push(("causal-query", format!("it says `{word}`")));
    }
    let mut folders: Vec<&String> = query.folders.iter().take(rules.folder_depth).collect();
    folders.sort_unstable();
    folders.dedup();
    if folders.len() >= rules.folders {
        let reason = format!(
            "{} folders among the first {} results",
            folders.len(),
            rules.folder_depth
        );
        found.push(("cross-folder", reason));
    }
    let concepts = concepts(&query.query, rules);
    if (rules.least_concepts..=rules.most_concepts).contains(&concepts) {
        found.push(("multi-concept", format!("{concepts} concepts")));
    }
    if query.first_of_session {
        found.push(("cold-start", "the first of its session".into()));
    }
    if let Some(intent) = &query.intent {
        found.push(("intent-specific", format!("the intent is {intent}")));
    }
    let telling = query_terms(&query.query, false).terms.len();
    if telling >= rules.least_words {
        found.push(("semantic-search", format!("{telling} telling words")));
    }
    if found.is_empty() {
        found.push(("semantic-search", "nothing else fits".into()));
    }
    found
}

fn edge_case(query: &LoggedQuery, rules: &CategoryRules) -> Option<String> {
    let length = query.query.chars().count();
    let plain = query
        .query
        .chars()
        .filter(|character| character.is_alphanumeric() || character.is_whitespace())
        .count();
    if query.results == 0 {
        Some("nothing was found".into())
    } else if length > rules.longest_query {
        Some(format!("{length} characters"))
    } else if (plain as f64) < rules.least_plain_share * length as f64 {
        Some("mostly signs".into())
    } else {
        None
    }
}

/// Parts of a query that have a telling word each.
fn concepts(query: &str, rules: &CategoryRules) -> usize {
    let mut text = format!(" {} ", normalize(query));
    for sign in &rules.concept_signs {
        text = text.replace(sign.as_str(), "\n");
    }
    for word in &rules.concept_words {
        text = text.replace(&format!(" {word} "), "\n");
    }
    let says_something = |part: &&str| {
        let terms = query_terms(part, false);
        !terms.terms.is_empty() && query_terms(&format!("{part} x0x"), false).terms.len() > 1
    };
    text.split('\n').filter(says_something).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::CATEGORY_TARGETS;

    fn names(query: &LoggedQuery) -> Vec<&'static str> {
        categories_of(query).into_iter().map(|(name, _)| name).collect()
    }

    fn asked(text: &str) -> LoggedQuery {
        LoggedQuery {
            query: text.into(),
            results: 4,
            ..LoggedQuery::default()
        }
    }

    #[test]
    fn every_category_of_the_specification_can_be_reached() {
        let mut reached = std::collections::BTreeSet::new();
        for (query, expected) in [
            (
                asked("rollout plan for the new payment gateway"),
                vec!["semantic-search"],
            ),
            (asked("wal"), vec!["semantic-search"]),
            (asked("what is the rationale of retries"), vec!["causal-query"]),
            (asked("cache and pool"), vec!["multi-concept"]),
            (
                asked("cache, pool, wal, index, log, lock"),
                vec!["semantic-search"],
            ),
            (asked("{}[]()!!??<> a"), vec!["edge-case"]),
            (asked(&"long ".repeat(70)), vec!["edge-case"]),
            (
                LoggedQuery {
                    results: 0,
                    ..asked("why is the moon here")
                },
                vec!["edge-case"],
            ),
            (
                LoggedQuery {
                    channels: vec!["trigger".into()],
                    ..asked("wal")
                },
                vec!["trigger-match"],
            ),
            (
                LoggedQuery {
                    first_of_session: true,
                    ..asked("wal")
                },
                vec!["cold-start"],
            ),
            (
                LoggedQuery {
                    intent: Some("fix_bug".into()),
                    ..asked("crash")
                },
                vec!["intent-specific"],
            ),
            (
                LoggedQuery {
                    intent: Some("find_decision".into()),
                    ..asked("sqlite")
                },
                vec!["causal-query", "intent-specific"],
            ),
            (
                LoggedQuery {
                    folders: ["a", "b", "a", "c", "d"].map(Into::into).into(),
                    ..asked("wal")
                },
                vec!["cross-folder"],
            ),
            // The third folder comes too late.
            (
                LoggedQuery {
                    folders: ["a", "b", "a", "b", "a", "c"].map(Into::into).into(),
                    ..asked("wal")
                },
                vec!["semantic-search"],
            ),
        ] {
            assert_eq!(names(&query), expected, "{}", query.query);
            reached.extend(expected);
        }
        for target in CATEGORY_TARGETS {
            assert!(reached.contains(target.category), "{}", target.category);
        }
    }
}
