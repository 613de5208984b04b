//! Validation of an evaluation corpus: query counts against category targets, sources and coverage of
//! judgments, near-duplicate queries, and statistical power.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Alternative, StatsError, paired_t_detectable, paired_t_pairs};
use crate::text::{JaccardIndex, ThresholdError, Tokenization};

use super::EvalQuery;

/// Target number of queries of a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryTarget {
    /// Name of the category.
    pub category: &'static str,
    /// Target number of queries.
    pub queries: usize,
    /// Description of the behavior that the category tests.
    pub tests: &'static str,
}

/// The categories of the specification (§2.2): 280 queries in all.
pub(crate) const CATEGORY_TARGETS: [CategoryTarget; 8] = [
    target(
        "trigger-match",
        30,
        "trigger phrases, which should almost always match",
    ),
    target(
        "semantic-search",
        50,
        "natural-language queries, the main use case",
    ),
    target("causal-query", 25, "reasons for decisions"),
    target("cross-folder", 25, "answers spread over several folders"),
    target(
        "intent-specific",
        105,
        "weights by intent, 15 queries for each of seven intents",
    ),
    target("cold-start", 15, "first query of a session"),
    target("multi-concept", 20, "two to five concepts in one query"),
    target(
        "edge-case",
        10,
        "no results, very long queries, unusual characters",
    ),
];

/// Intents of `intent-specific`, with a target of 15 queries each.
pub(crate) const INTENTS: [&str; 7] = [
    "add_feature",
    "fix_bug",
    "refactor",
    "security_audit",
    "understand",
    "find_spec",
    "find_decision",
];

const QUERIES_PER_INTENT: usize = 15;
/// The category with a target for each intent.
const BY_INTENT: &str = "intent-specific";

const fn target(category: &'static str, queries: usize, tests: &'static str) -> CategoryTarget {
    CategoryTarget {
        category,
        queries,
        tests,
    }
}

/// Settings of a corpus check.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusSettings {
    /// Minimum grade of a relevant document.
    pub relevance_threshold: i32,
    /// Expected standard deviation of the paired differences in comparisons.
    pub sigma: f64,
    /// Smallest difference that the corpus should be able to detect.
    pub difference: f64,
    /// Significance level of a comparison.
    pub alpha: f64,
    /// Target probability of detecting a true difference.
    pub power: f64,
    /// Minimum Jaccard similarity of near-duplicate queries, above 0 and at most 1.
    pub near_duplicate: f64,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            relevance_threshold: 2,
            sigma: 0.2,
            difference: 0.05,
            alpha: 0.05,
            power: 0.8,
            near_duplicate: 0.8,
        }
    }
}

/// Result of a corpus check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CorpusReport {
    /// Number of queries in the corpus.
    pub queries: usize,
    /// Number of judgments in the corpus.
    pub judgments: usize,
    /// Counts by category; categories with a target come first, in specification order.
    pub categories: Vec<CategoryReport>,
    /// Counts by intent within `intent-specific`.
    pub intents: Vec<CategoryReport>,
    /// Number of judgments by source; `unstated` if the source is unknown.
    pub sources: BTreeMap<String, usize>,
    /// Number of judgments by grade.
    pub grades: BTreeMap<i32, usize>,
    /// Coverage of the judgments.
    pub coverage: Coverage,
    /// Queries similar to an earlier one.
    pub near_duplicates: Vec<NearDuplicate>,
    /// Statistical power of the judged queries.
    pub power: Power,
    /// Settings used for the check.
    pub settings: CorpusSettings,
    /// Problems to fix, most important first; empty if there are none.
    pub findings: Vec<String>,
}

/// Counts of a category or an intent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CategoryReport {
    /// Name of the category or intent.
    pub name: String,
    /// Number of queries in the corpus.
    pub queries: usize,
    /// Target number of queries; absent without a target.
    pub target: Option<usize>,
    /// Smallest detectable difference; absent with fewer than two queries.
    pub detectable: Option<f64>,
}

/// Coverage of the judgments.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Ids of queries without judgments.
    pub without_judgments: Vec<String>,
    /// Ids of judged queries without relevant documents, except edge cases.
    pub without_relevant: Vec<String>,
    /// Number of documents without a grade yet.
    pub pending: usize,
    /// Mean number of judgments per query.
    pub judged_per_query: f64,
    /// Mean number of relevant documents per query.
    pub relevant_per_query: f64,
    /// Number of distinct judged documents.
    pub judged_documents: usize,
    /// Number of documents in the corpus, if known.
    pub documents: Option<usize>,
    /// Ids of judged documents that are not in the corpus.
    pub unknown_documents: Vec<String>,
}

/// A pair of similar queries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NearDuplicate {
    /// Id of the later query.
    pub query_id: String,
    /// Id of the earlier query.
    pub like: String,
    /// Jaccard similarity of the words, 0 to 1.
    pub similarity: f64,
}

/// Statistical power of a number of queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Power {
    /// Smallest difference detectable with the configured power; absent with fewer than two queries.
    pub detectable: Option<f64>,
    /// Number of queries needed to detect the configured difference.
    pub needed: u64,
}

/// Checks a corpus. `documents` contains the ids of its documents, if known.
pub fn check_corpus(
    queries: &[EvalQuery],
    documents: Option<&BTreeSet<String>>,
    settings: &CorpusSettings,
) -> Result<CorpusReport, CorpusError> {
    let usable = queries.iter().filter(|query| is_judged(query));
    let power = Power {
        detectable: detectable(usable.count(), settings)?,
        needed: paired_t_pairs(
            settings.difference / settings.sigma,
            settings.power,
            settings.alpha,
            Alternative::TwoSided,
        )?,
    };
    let mut report = CorpusReport {
        queries: queries.len(),
        judgments: judgments(queries).count(),
        categories: categories(queries, settings)?,
        intents: intents(queries, settings)?,
        sources: sources(queries),
        grades: count(judgments(queries).map(|(_, grade)| grade)),
        coverage: coverage(queries, documents, settings.relevance_threshold),
        near_duplicates: near_duplicates(queries, settings.near_duplicate)?,
        power,
        settings: *settings,
        findings: Vec::new(),
    };
    report.findings = findings(&report);
    Ok(report)
}

/// Errors of invalid corpus settings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// Invalid sigma, difference, significance level or power.
    #[error(transparent)]
    Statistics(#[from] StatsError),
    /// Invalid similarity threshold.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
}

fn judgments(queries: &[EvalQuery]) -> impl Iterator<Item = (&str, i32)> {
    let judgments = queries.iter().flat_map(|query| &query.judgments);
    judgments.filter_map(|judgment| Some((judgment.memory_id.as_str(), judgment.relevance?)))
}

fn is_judged(query: &EvalQuery) -> bool {
    query
        .judgments
        .iter()
        .any(|judgment| judgment.relevance.is_some())
}

fn detectable(queries: usize, settings: &CorpusSettings) -> Result<Option<f64>, StatsError> {
    if queries < 2 {
        return Ok(None);
    }
    let effect = paired_t_detectable(
        queries as u64,
        settings.power,
        settings.alpha,
        Alternative::TwoSided,
    )?;
    Ok(Some(effect * settings.sigma))
}

fn count<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
}

fn categories(queries: &[EvalQuery], settings: &CorpusSettings) -> Result<Vec<CategoryReport>, StatsError> {
    let mut counts = count(
        queries
            .iter()
            .map(|query| query.category.as_deref().unwrap_or("none")),
    );
    let mut reports = Vec::new();
    // A corpus without categories has no category targets.
    if counts.keys().any(|name| *name != "none") {
        for target in CATEGORY_TARGETS {
            let queries = counts.remove(target.category).unwrap_or(0);
            reports.push((target.category, queries, Some(target.queries)));
        }
    }
    reports.extend(counts.into_iter().map(|(name, queries)| (name, queries, None)));
    reports
        .into_iter()
        .map(|found| category(found, settings))
        .collect()
}

fn intents(queries: &[EvalQuery], settings: &CorpusSettings) -> Result<Vec<CategoryReport>, StatsError> {
    let specific = || {
        queries
            .iter()
            .filter(|query| query.category.as_deref() == Some(BY_INTENT))
    };
    if specific().next().is_none() {
        return Ok(Vec::new());
    }
    let mut counts = count(specific().map(|query| query.intent.as_deref().unwrap_or("none")));
    let mut reports: Vec<_> = INTENTS
        .iter()
        .map(|intent| {
            (
                *intent,
                counts.remove(intent).unwrap_or(0),
                Some(QUERIES_PER_INTENT),
            )
        })
        .collect();
    reports.extend(counts.into_iter().map(|(name, queries)| (name, queries, None)));
    reports
        .into_iter()
        .map(|found| category(found, settings))
        .collect()
}

fn category(
    (name, queries, target): (&str, usize, Option<usize>),
    settings: &CorpusSettings,
) -> Result<CategoryReport, StatsError> {
    Ok(CategoryReport {
        name: name.into(),
        queries,
        target,
        detectable: detectable(queries, settings)?,
    })
}

fn sources(queries: &[EvalQuery]) -> BTreeMap<String, usize> {
    let named = queries.iter().flat_map(|query| {
        let judged = query
            .judgments
            .iter()
            .filter(|judgment| judgment.relevance.is_some());
        judged.map(|judgment| match judgment.source.or(query.judgment_source) {
            Some(source) => source.name(),
            None => "unstated",
        })
    });
    count(named.map(String::from))
}

fn coverage(queries: &[EvalQuery], documents: Option<&BTreeSet<String>>, threshold: i32) -> Coverage {
    let ids = |wanted: &dyn Fn(&EvalQuery) -> bool| -> Vec<String> {
        let found = queries.iter().filter(|query| wanted(query));
        found.map(|query| query.query_id.clone()).collect()
    };
    let has_relevant = |query: &EvalQuery| {
        let mut grades = query.judgments.iter().filter_map(|judgment| judgment.relevance);
        grades.any(|grade| grade >= threshold)
    };
    let per_query = |count: usize| count as f64 / queries.len().max(1) as f64;
    let judged: BTreeSet<&str> = judgments(queries).map(|(document, _)| document).collect();
    let relevant = judgments(queries)
        .filter(|(_, grade)| *grade >= threshold)
        .count();
    let all = queries.iter().map(|query| query.judgments.len()).sum::<usize>();
    Coverage {
        without_judgments: ids(&|query| !is_judged(query)),
        // Some edge cases test queries without relevant documents.
        without_relevant: ids(&|query| {
            is_judged(query) && !has_relevant(query) && query.category.as_deref() != Some("edge-case")
        }),
        pending: all - judgments(queries).count(),
        judged_per_query: per_query(judgments(queries).count()),
        relevant_per_query: per_query(relevant),
        judged_documents: judged.len(),
        documents: documents.map(BTreeSet::len),
        unknown_documents: documents.map_or_else(Vec::new, |known| {
            let missing = judged.iter().filter(|document| !known.contains(**document));
            missing.map(|document| (*document).to_owned()).collect()
        }),
    }
}

fn near_duplicates(queries: &[EvalQuery], threshold: f64) -> Result<Vec<NearDuplicate>, ThresholdError> {
    let mut index = JaccardIndex::new(threshold, Tokenization::Words)?;
    let texts: Vec<(&str, &str)> = queries
        .iter()
        .filter_map(|query| Some((query.query_id.as_str(), query.query.as_deref()?)))
        .collect();
    let mut found = Vec::new();
    for (id, text) in &texts {
        let (like, _) = index.observe(text);
        found.extend(like.and_then(|like| {
            let (other, _) = texts.get(like.id as usize)?;
            Some(NearDuplicate {
                query_id: (*id).into(),
                like: (*other).into(),
                similarity: like.similarity(),
            })
        }));
    }
    Ok(found)
}

fn findings(report: &CorpusReport) -> Vec<String> {
    let mut findings = Vec::new();
    let mut report_if = |count: usize, text: String| {
        if count > 0 {
            findings.push(text);
        }
    };
    let coverage = &report.coverage;
    let unjudged = coverage.without_judgments.len();
    report_if(
        unjudged,
        format!("{unjudged} queries have no judgments: pool and judge results for them"),
    );
    let unfit = coverage.without_relevant.len();
    report_if(
        unfit,
        format!("{unfit} judged queries have no relevant documents: they cannot distinguish rankings"),
    );
    let unknown = coverage.unknown_documents.len();
    report_if(
        unknown,
        format!("{unknown} judged documents are not in the corpus: no system can return them"),
    );
    let twins = report.near_duplicates.len();
    report_if(
        twins,
        format!("{twins} queries duplicate another query: they count one observation twice"),
    );
    let needed = usize::try_from(report.power.needed).unwrap_or(usize::MAX);
    let usable = report.queries - unjudged;
    let settings = &report.settings;
    report_if(
        needed.saturating_sub(usable),
        format!(
            "detecting a difference of {} needs {needed} judged queries at a standard deviation of {:.4}; there are {usable}",
            settings.difference, settings.sigma
        ),
    );
    for category in report.categories.iter().chain(&report.intents) {
        let missing = category.target.unwrap_or(0).saturating_sub(category.queries);
        report_if(
            missing,
            format!(
                "{} lacks {missing} of {} queries",
                category.name,
                category.target.unwrap_or(0)
            ),
        );
    }
    let manual = report.sources.get("manual").copied().unwrap_or(0);
    report_if(
        usize::from(report.judgments > 0 && manual == 0),
        "no judgment was made by a person: implicit feedback only covers results that were shown".into(),
    );
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::{EvalJudgment, JudgmentSource};

    fn query(id: &str, text: &str, category: &str, grades: &[i32]) -> EvalQuery {
        let judgments = grades.iter().enumerate().map(|(n, grade)| EvalJudgment {
            memory_id: format!("d{n}"),
            relevance: Some(*grade),
            source_channels: Vec::new(),
            source: None,
            annotator: None,
            confidence: None,
        });
        EvalQuery {
            query_id: id.into(),
            query: Some(text.into()),
            category: Some(category.into()),
            judgment_source: Some(JudgmentSource::Implicit),
            judgments: judgments.collect(),
            ..EvalQuery::default()
        }
    }

    #[test]
    fn the_targets_are_those_of_the_specification() {
        let all: usize = CATEGORY_TARGETS.iter().map(|target| target.queries).sum();
        assert_eq!(all, 280);
        assert_eq!(CATEGORY_TARGETS[4].queries, QUERIES_PER_INTENT * INTENTS.len());
    }

    #[test]
    fn gaps_are_reported() {
        let queries = [
            query(
                "1",
                "why did we choose SQLite for the store",
                "causal-query",
                &[3, 0],
            ),
            query(
                "2",
                "why did we choose SQLite for the store?",
                "causal-query",
                &[1],
            ),
            query("3", "xyzzy", "edge-case", &[0]),
            query("4", "never judged", "made-up", &[]),
        ];
        let known = BTreeSet::from(["d0".to_owned()]);
        let report = check_corpus(&queries, Some(&known), &CorpusSettings::default()).unwrap();
        let coverage = &report.coverage;
        assert_eq!(coverage.without_judgments, ["4"]);
        assert_eq!(coverage.without_relevant, ["2"]);
        assert_eq!(coverage.unknown_documents, ["d1"]);
        assert_eq!(report.sources, BTreeMap::from([("implicit".into(), 4)]));
        assert_eq!(report.grades, BTreeMap::from([(0, 2), (1, 1), (3, 1)]));
        let twins: Vec<_> = report
            .near_duplicates
            .iter()
            .map(|twin| (&*twin.query_id, &*twin.like))
            .collect();
        assert_eq!(twins, [("2", "1")]);
        let causal = report
            .categories
            .iter()
            .find(|found| found.name == "causal-query")
            .unwrap();
        assert_eq!((causal.queries, causal.target), (2, Some(25)));
        let other = report.categories.last().unwrap();
        assert_eq!((other.name.as_str(), other.target), ("made-up", None));
        let findings = report.findings.join("\n");
        for part in [
            "1 queries have no judgments",
            "causal-query lacks 23 of 25",
            "no judgment was made by a person",
        ] {
            assert!(findings.contains(part), "{findings}");
        }
    }

    /// `statsmodels.stats.power.TTestPower().solve_power(.05/.15, power=.8, alpha=.05)`: 72.58390269665837,
    /// so 73, and for `.05/.2` 127.51583051555221, so 128; `.power(0.11670338546784942 / .15, 15, .05)`: 0.8.
    #[test]
    fn power_matches_statsmodels() {
        let needed = |sigma| {
            let settings = CorpusSettings {
                sigma,
                ..CorpusSettings::default()
            };
            check_corpus(&[], None, &settings).unwrap().power.needed
        };
        assert_eq!((needed(0.15), needed(0.2)), (73, 128));
        // .10/.15: 19.66…, so 20.
        let wider = CorpusSettings {
            sigma: 0.15,
            difference: 0.10,
            ..CorpusSettings::default()
        };
        assert_eq!(check_corpus(&[], None, &wider).unwrap().power.needed, 20);
        let settings = CorpusSettings {
            sigma: 0.15,
            ..CorpusSettings::default()
        };
        let found = detectable(15, &settings).unwrap().unwrap();
        assert!((found - 0.11670338546784942).abs() < 1e-12, "{found}");
    }

    #[test]
    fn invalid_settings_are_rejected() {
        for settings in [
            CorpusSettings {
                sigma: 0.0,
                ..CorpusSettings::default()
            },
            CorpusSettings {
                near_duplicate: 2.0,
                ..CorpusSettings::default()
            },
            CorpusSettings {
                power: 1.0,
                ..CorpusSettings::default()
            },
        ] {
            assert!(check_corpus(&[], None, &settings).is_err(), "{settings:?}");
        }
    }
}
