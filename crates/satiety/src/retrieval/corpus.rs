//! Is an evaluation corpus fit for what it is meant to show? Counts against the targets of its categories, where the
//! judgments come from and what they cover, queries that ask the same, and the differences that so many queries can show.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Alternative, StatsError, paired_t_detectable, paired_t_pairs};
use crate::text::{JaccardIndex, ThresholdError, Tokenization};

use super::EvalQuery;

/// How many queries of a category a corpus should have, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryTarget {
    /// The category.
    pub category: &'static str,
    /// How many queries.
    pub queries: usize,
    /// What it tests.
    pub tests: &'static str,
}

/// The categories of the specification (§2.2): 280 queries in all.
pub(crate) const CATEGORY_TARGETS: [CategoryTarget; 8] = [
    target(
        "trigger-match",
        30,
        "trigger phrases, which should be found almost always",
    ),
    target("semantic-search", 50, "natural language, the core use"),
    target("causal-query", 25, "why something was decided"),
    target("cross-folder", 25, "answers that lie in several folders"),
    target(
        "intent-specific",
        105,
        "weights by intent, 15 queries for each of seven",
    ),
    target("cold-start", 15, "the first query of a session"),
    target("multi-concept", 20, "two to five concepts at once"),
    target("edge-case", 10, "nothing to find, very long, unusual characters"),
];

/// The intents of which `intent-specific` should have 15 queries each.
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
/// The intents are asked for within this category.
const BY_INTENT: &str = "intent-specific";

const fn target(category: &'static str, queries: usize, tests: &'static str) -> CategoryTarget {
    CategoryTarget {
        category,
        queries,
        tests,
    }
}

/// What a corpus is checked with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusSettings {
    /// The grade from which on a document is relevant.
    pub relevance_threshold: i32,
    /// Standard deviation of the paired differences that later comparisons will see.
    pub sigma: f64,
    /// The difference that the corpus is meant to show.
    pub difference: f64,
    /// The error rate of a comparison.
    pub alpha: f64,
    /// How often a true difference should be seen.
    pub power: f64,
    /// Share of common words from which on two queries ask the same.
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

/// A checked corpus.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CorpusReport {
    /// Its queries.
    pub queries: usize,
    /// Its judgments.
    pub judgments: usize,
    /// By category: those with a target first, in the order of the specification.
    pub categories: Vec<CategoryReport>,
    /// By intent, within `intent-specific`.
    pub intents: Vec<CategoryReport>,
    /// Judgments by where they come from; `unstated` where nobody said.
    pub sources: BTreeMap<String, usize>,
    /// Judgments by grade.
    pub grades: BTreeMap<i32, usize>,
    /// What the judgments cover.
    pub coverage: Coverage,
    /// Queries that ask the same as an earlier one.
    pub near_duplicates: Vec<NearDuplicate>,
    /// What the whole corpus can show.
    pub power: Power,
    /// What it was checked with.
    pub settings: CorpusSettings,
    /// What should be done, most important first; nothing when it is fit.
    pub findings: Vec<String>,
}

/// A category or an intent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CategoryReport {
    /// Its name.
    pub name: String,
    /// How many queries it has.
    pub queries: usize,
    /// How many it should have; absent when nothing is asked of it.
    pub target: Option<usize>,
    /// The smallest difference that so many queries show; absent below two.
    pub detectable: Option<f64>,
}

/// What judgments cover.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Queries that nobody judged.
    pub without_judgments: Vec<String>,
    /// Judged queries without anything relevant, edge cases aside.
    pub without_relevant: Vec<String>,
    /// Documents that wait for a grade.
    pub pending: usize,
    /// Judgments a query.
    pub judged_per_query: f64,
    /// Relevant documents a query.
    pub relevant_per_query: f64,
    /// Different documents that somebody judged.
    pub judged_documents: usize,
    /// Documents in the corpus, when they are known.
    pub documents: Option<usize>,
    /// Judged documents that the corpus does not have.
    pub unknown_documents: Vec<String>,
}

/// Two queries that ask the same.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NearDuplicate {
    /// The later one.
    pub query_id: String,
    /// The earlier one.
    pub like: String,
    /// Share of common words.
    pub similarity: f64,
}

/// What a number of queries can show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Power {
    /// The smallest difference that is seen as often as the settings ask; absent below two queries.
    pub detectable: Option<f64>,
    /// Queries needed for the difference that the settings ask for.
    pub needed: u64,
}

/// Checks a corpus; `documents` are the ids of its documents, when they are known.
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

/// Why a corpus cannot be checked: settings that mean nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// Sigma, difference, error rate or power.
    #[error(transparent)]
    Statistics(#[from] StatsError),
    /// The share of common words.
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
    // A corpus that knows no categories is not measured by them.
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
    let a_query = |count: usize| count as f64 / queries.len().max(1) as f64;
    let judged: BTreeSet<&str> = judgments(queries).map(|(document, _)| document).collect();
    let relevant = judgments(queries)
        .filter(|(_, grade)| *grade >= threshold)
        .count();
    let all = queries.iter().map(|query| query.judgments.len()).sum::<usize>();
    Coverage {
        without_judgments: ids(&|query| !is_judged(query)),
        // That nothing can be found is what some edge cases test.
        without_relevant: ids(&|query| {
            is_judged(query) && !has_relevant(query) && query.category.as_deref() != Some("edge-case")
        }),
        pending: all - judgments(queries).count(),
        judged_per_query: a_query(judgments(queries).count()),
        relevant_per_query: a_query(relevant),
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
    let mut tell = |count: usize, text: String| {
        if count > 0 {
            findings.push(text);
        }
    };
    let coverage = &report.coverage;
    let unjudged = coverage.without_judgments.len();
    tell(
        unjudged,
        format!("{unjudged} queries have no judgments: pool results for them and judge those"),
    );
    let unfit = coverage.without_relevant.len();
    tell(
        unfit,
        format!("{unfit} judged queries have nothing relevant: no ranking can be told from another by them"),
    );
    let unknown = coverage.unknown_documents.len();
    tell(
        unknown,
        format!("{unknown} judged documents are not in the corpus: no system can find them"),
    );
    let twins = report.near_duplicates.len();
    tell(
        twins,
        format!("{twins} queries ask the same as another: they count twice what is one observation"),
    );
    let needed = usize::try_from(report.power.needed).unwrap_or(usize::MAX);
    let usable = report.queries - unjudged;
    let settings = &report.settings;
    tell(
        needed.saturating_sub(usable),
        format!(
            "a difference of {} needs {needed} judged queries where differences vary by {:.4}; there are {usable}",
            settings.difference, settings.sigma
        ),
    );
    for category in report.categories.iter().chain(&report.intents) {
        let missing = category.target.unwrap_or(0).saturating_sub(category.queries);
        tell(
            missing,
            format!(
                "{} lacks {missing} of {} queries",
                category.name,
                category.target.unwrap_or(0)
            ),
        );
    }
    let manual = report.sources.get("manual").copied().unwrap_or(0);
    tell(
        usize::from(report.judgments > 0 && manual == 0),
        "no judgment is by a person: what users do with results shows what was shown to them".into(),
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
    fn what_is_missing_is_told() {
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
        let told = report.findings.join("\n");
        for part in [
            "1 queries have no judgments",
            "causal-query lacks 23 of 25",
            "no judgment is by a person",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    /// `statsmodels.stats.power.TTestPower().solve_power(.05/.15, power=.8, alpha=.05)`: 72.58390269665837, so 73, and
    /// for `.05/.2` 127.51583051555221, so 128; `.power(0.11670338546784942 / .15, 15, .05)`: 0.8.
    #[test]
    fn power_as_statsmodels_has_it() {
        let of = |sigma| {
            let settings = CorpusSettings {
                sigma,
                ..CorpusSettings::default()
            };
            check_corpus(&[], None, &settings).unwrap().power.needed
        };
        assert_eq!((of(0.15), of(0.2)), (73, 128));
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
    fn settings_that_mean_nothing_are_refused() {
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
