//! A run against judgments: a value for each query and measure, and their means with bootstrap intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{BootstrapSettings, Interval, StatsError, bootstrap_mean, mean};

use super::facts::{ClassGrades, Facts};
use super::lists::Index;
use super::measure::{Discounts, Ranked};
use super::{Kind, Measure, Qrels, RetrievalResult, Run};

/// Where the tools of the field disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationOptions {
    /// The grade from which on a document is relevant.
    pub relevance_threshold: i32,
    /// What a judged query counts for which the run returns nothing.
    pub missing: MissingQueries,
    /// What a query counts without anything relevant to find.
    pub no_relevant: NoRelevant,
    /// What a result counts that nobody judged.
    pub unjudged: Unjudged,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self {
            relevance_threshold: 2,
            missing: MissingQueries::Zero,
            no_relevant: NoRelevant::Skip,
            unjudged: Unjudged::Irrelevant,
        }
    }
}

impl EvaluationOptions {
    /// What `trec_eval` does when nothing else is asked of it.
    pub fn trec() -> Self {
        Self {
            relevance_threshold: 1,
            missing: MissingQueries::Skip,
            no_relevant: NoRelevant::Zero,
            unjudged: Unjudged::Irrelevant,
        }
    }
}

/// What a judged query counts for which the run returns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingQueries {
    /// Nothing was found: 0 (`trec_eval -c`). Who leaves hard queries out gains nothing.
    Zero,
    /// It is left out of the mean (`trec_eval` without `-c`).
    Skip,
}

/// What a query counts without anything relevant to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoRelevant {
    /// Nothing can be said about it; it is left out of the mean.
    Skip,
    /// 0, as `trec_eval` has it.
    Zero,
}

/// What a result counts that nobody judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unjudged {
    /// As much as an irrelevant one.
    Irrelevant,
    /// It is taken out of the list before anything is measured (`trec_eval -J`).
    Condensed,
}

/// The values of a run, one row for each query of the judgments that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    measures: Vec<Measure>,
    queries: Vec<String>,
    values: Vec<Option<f64>>,
    /// Judged queries for which the run returns nothing.
    pub missing: usize,
    /// Queries of the run that are not judged, which were not measured.
    pub unknown: usize,
    /// Queries without a judged document at or above the threshold.
    pub without_relevant: usize,
}

/// A mean over queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// The mean; absent when no query has a value.
    pub mean: Option<f64>,
    /// Its bootstrap interval; absent below two queries or when none was asked for.
    pub ci: Option<Interval>,
    /// Over how many queries.
    pub queries: usize,
}

impl Aggregate {
    /// The mean of values, with an interval when there are two or more and resamples are asked for.
    pub fn of(values: &[f64], bootstrap: &BootstrapSettings) -> Result<Self, StatsError> {
        let enough = values.len() > 1 && bootstrap.resamples > 0;
        Ok(Self {
            mean: if values.is_empty() {
                None
            } else {
                Some(mean(values)?)
            },
            ci: if enough {
                Some(bootstrap_mean(values, bootstrap)?.interval)
            } else {
                None
            },
            queries: values.len(),
        })
    }
}

/// Measures a run by its judgments alone. Measures that need more facts have no value.
pub fn evaluate(qrels: &Qrels, run: &Run, measures: &[Measure], options: &EvaluationOptions) -> Evaluation {
    measure(qrels, run, measures, *options, &Facts::default())
}

/// Measures a run, knowing more about documents and queries: tiers, folders, chains, and documents that are as good as
/// each other. Of those, the first in a list counts with the best grade among them, and the others bring nothing new.
/// Facts about single documents alone change nothing about the standard measures.
pub fn evaluate_with(
    qrels: &Qrels,
    run: &Run,
    measures: &[Measure],
    options: &EvaluationOptions,
    facts: &Facts,
) -> RetrievalResult<Evaluation> {
    for measure in measures {
        facts.check(*measure)?;
    }
    Ok(measure(qrels, run, measures, *options, facts))
}

fn measure(
    qrels: &Qrels,
    run: &Run,
    measures: &[Measure],
    options: EvaluationOptions,
    facts: &Facts,
) -> Evaluation {
    let mut found = Evaluation {
        measures: measures.to_vec(),
        queries: Vec::with_capacity(qrels.queries()),
        values: Vec::with_capacity(qrels.queries() * measures.len()),
        missing: 0,
        unknown: 0,
        without_relevant: 0,
    };
    let (judged, ranked) = (qrels.lists(), run.lists());
    let mut known = 0;
    let mut index = Index::default();
    let mut query = Ranked::default();
    let mut discounts = Discounts::default();
    let mut classes = facts.has_classes().then(ClassGrades::default);
    let needs_facts = measures.iter().any(|measure| measure.kind.needs_facts());
    for position in 0..qrels.queries() {
        let name = qrels.query(position);
        let judgments = judged.list(position);
        let in_run = ranked.queries.position(name.as_bytes());
        known += usize::from(in_run.is_some());
        found.missing += usize::from(in_run.is_none());
        if in_run.is_none() && options.missing == MissingQueries::Skip {
            continue;
        }
        query.threshold = options.relevance_threshold;
        query.relevant = 0;
        query.irrelevant = 0;
        query.ideal.clear();
        index.clear(judgments.len());
        if let Some(classes) = &mut classes {
            classes.clear();
        }
        for (at, item) in judgments.iter().enumerate() {
            index.find_or_add(item.hash, at, |_| false);
            match &mut classes {
                Some(classes) => match facts.class(judged.text(item)) {
                    Some(class) => classes.judge(class, item.value),
                    None => query.judge(item.value),
                },
                None => query.judge(item.value),
            }
        }
        for grade in classes.iter().flat_map(ClassGrades::grades) {
            query.judge(grade);
        }
        query.ideal.sort_unstable_by(|a, b| b.cmp(a));
        found.without_relevant += usize::from(query.relevant == 0);
        let results = in_run.map_or(&[][..], |position| ranked.list(position));
        query.grades.clear();
        query.grades.extend(results.iter().filter_map(|result| {
            let id = ranked.id(result);
            let own = || {
                index
                    .find(result.hash, |at| judged.id(&judgments[at]) == id)
                    .map(|at| judgments[at].value)
            };
            let grade = match &mut classes {
                Some(classes) => match facts.class(ranked.text(result)) {
                    Some(class) => classes.meet(class),
                    None => own(),
                },
                None => own(),
            };
            (grade.is_some() || options.unjudged == Unjudged::Irrelevant).then_some(grade)
        }));
        found.queries.push(name.into());
        let (listed, wanted): (Vec<&str>, Vec<&str>) = if needs_facts {
            let relevant = judgments
                .iter()
                .filter(|item| item.value >= options.relevance_threshold);
            (
                results.iter().map(|result| ranked.text(result)).collect(),
                relevant.map(|item| judged.text(item)).collect(),
            )
        } else {
            Default::default()
        };
        found.values.extend(measures.iter().map(|measure| {
            if measure.kind.needs_facts() {
                return facts.value(*measure, name, &listed, &wanted);
            }
            let value = query.value(*measure, &mut discounts);
            // How much of nothing was judged is not a question of relevance.
            match options.no_relevant {
                NoRelevant::Zero if measure.kind != Kind::Judged => value.or(Some(0.0)),
                _ => value,
            }
        }));
    }
    found.unknown = run.queries() - known;
    found
}

impl Evaluation {
    /// The measures, in the order of a row.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The queries that count, in the order of the judgments.
    pub fn queries(&self) -> &[String] {
        &self.queries
    }

    /// The values of a query; absent where the measure says nothing about it.
    pub fn row(&self, query: usize) -> &[Option<f64>] {
        let width = self.measures.len();
        &self.values[query * width..(query + 1) * width]
    }

    /// The values of a measure over all queries.
    pub fn column(&self, measure: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        (0..self.queries.len()).map(move |query| self.row(query)[measure])
    }

    /// Some of its queries, by their positions.
    pub fn subset(&self, queries: &[usize]) -> Self {
        Self {
            measures: self.measures.clone(),
            queries: queries.iter().map(|query| self.queries[*query].clone()).collect(),
            values: queries
                .iter()
                .flat_map(|query| self.row(*query))
                .copied()
                .collect(),
            missing: 0,
            unknown: 0,
            without_relevant: 0,
        }
    }

    /// Its queries by the value of a field, in the order of the values; those without one are left out.
    pub fn groups(&self, field: impl Fn(&str) -> Option<String>) -> BTreeMap<String, Vec<usize>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (position, query) in self.queries.iter().enumerate() {
            if let Some(value) = field(query) {
                groups.entry(value).or_default().push(position);
            }
        }
        groups
    }

    /// The mean of a measure, with an interval when resamples are asked for.
    pub fn aggregate(&self, measure: usize, bootstrap: &BootstrapSettings) -> Result<Aggregate, StatsError> {
        Aggregate::of(&self.column(measure).flatten().collect::<Vec<_>>(), bootstrap)
    }
}
