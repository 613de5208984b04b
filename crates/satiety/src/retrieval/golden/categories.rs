//! Classification of logged queries into the categories of an evaluation corpus. The rules are data.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::memory::query_terms;
use crate::text::{Tokenization, normalize};

/// A query from the query log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoggedQuery {
    /// Id of the query.
    pub query_id: String,
    /// Text of the query.
    pub query: String,
    /// Intent of the query, if known.
    pub intent: Option<String>,
    /// Whether it is the first query of its session.
    pub first_of_session: bool,
    /// Number of results.
    pub results: usize,
    /// Folders of the first results, in rank order.
    pub folders: Vec<String>,
    /// Retrieval channels that contributed results.
    pub channels: Vec<String>,
    /// Number of feedback events on its results.
    pub events: usize,
    /// Category of a query that is already in the corpus.
    pub corpus_category: Option<String>,
    /// Whether the query is already in the corpus.
    pub in_corpus: bool,
}

/// Rules that define the categories.
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

/// Returns the categories that a query fits, each with a reason. Every query fits at least one.
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
        // An edge case is not useful for other categories.
        return vec![("edge-case", reason)];
    }
    let has_channel = |channel: &str| query.channels.iter().any(|name| name == channel);
    if has_channel("trigger") {
        found.push(("trigger-match", "a trigger phrase matched".to_owned()));
    }
    let words = Tokenization::Words.set(&query.query);
    let asks = rules.causal_words.iter().find(|word| words.contains(*word));
    if query.intent.as_deref() == Some("find_decision") {
        found.push(("causal-query", "intent is find_decision".into()));
    } else if let Some(word) = asks {
        found.push(("causal-query", format!("contains `{word}`")));
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
        found.push(("cold-start", "first query of its session".into()));
    }
    if let Some(intent) = &query.intent {
        found.push(("intent-specific", format!("intent is {intent}")));
    }
    let content_words = query_terms(&query.query, false).terms.len();
    if content_words >= rules.least_words {
        found.push(("semantic-search", format!("{content_words} content words")));
    }
    if found.is_empty() {
        found.push(("semantic-search", "fits no other category".into()));
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
        Some("no results".into())
    } else if length > rules.longest_query {
        Some(format!("{length} characters"))
    } else if (plain as f64) < rules.least_plain_share * length as f64 {
        Some("mostly punctuation".into())
    } else {
        None
    }
}

/// Number of parts of a query that contain a content word.
fn concepts(query: &str, rules: &CategoryRules) -> usize {
    let mut text = format!(" {} ", normalize(query));
    for sign in &rules.concept_signs {
        text = text.replace(sign.as_str(), "\n");
    }
    for word in &rules.concept_words {
        text = text.replace(&format!(" {word} "), "\n");
    }
    let has_content = |part: &&str| {
        let terms = query_terms(part, false);
        !terms.terms.is_empty() && query_terms(&format!("{part} x0x"), false).terms.len() > 1
    };
    text.split('\n').filter(has_content).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::CATEGORY_TARGETS;

    fn names(query: &LoggedQuery) -> Vec<&'static str> {
        categories_of(query).into_iter().map(|(name, _)| name).collect()
    }

    fn logged(text: &str) -> LoggedQuery {
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
                logged("rollout plan for the new payment gateway"),
                vec!["semantic-search"],
            ),
            (logged("wal"), vec!["semantic-search"]),
            (logged("what is the rationale of retries"), vec!["causal-query"]),
            (logged("cache and pool"), vec!["multi-concept"]),
            (
                logged("cache, pool, wal, index, log, lock"),
                vec!["semantic-search"],
            ),
            (logged("{}[]()!!??<> a"), vec!["edge-case"]),
            (logged(&"long ".repeat(70)), vec!["edge-case"]),
            (
                LoggedQuery {
                    results: 0,
                    ..logged("why is the moon here")
                },
                vec!["edge-case"],
            ),
            (
                LoggedQuery {
                    channels: vec!["trigger".into()],
                    ..logged("wal")
                },
                vec!["trigger-match"],
            ),
            (
                LoggedQuery {
                    first_of_session: true,
                    ..logged("wal")
                },
                vec!["cold-start"],
            ),
            (
                LoggedQuery {
                    intent: Some("fix_bug".into()),
                    ..logged("crash")
                },
                vec!["intent-specific"],
            ),
            (
                LoggedQuery {
                    intent: Some("find_decision".into()),
                    ..logged("sqlite")
                },
                vec!["causal-query", "intent-specific"],
            ),
            (
                LoggedQuery {
                    folders: ["a", "b", "a", "c", "d"].map(Into::into).into(),
                    ..logged("wal")
                },
                vec!["cross-folder"],
            ),
            // The third folder comes too late.
            (
                LoggedQuery {
                    folders: ["a", "b", "a", "b", "a", "c"].map(Into::into).into(),
                    ..logged("wal")
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
