//! Evaluation of a run: a value for each query and measure, and means with bootstrap intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{BootstrapSettings, Interval, StatsError, bootstrap_mean, mean};

use super::facts::{ClassGrades, Facts};
use super::graded::GradedRun;
use super::lists::Index;
use super::measure::{Discounts, Ranked};
use super::{Kind, Measure, Qrels, RetrievalResult, Run};

/// Evaluation options on which common tools differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationOptions {
    /// Minimum grade of a relevant document.
    pub relevance_threshold: i32,
    /// Value of judged queries without results.
    pub missing: MissingQueries,
    /// Value of queries without relevant documents.
    pub no_relevant: NoRelevant,
    /// Handling of results without a judgment.
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
    /// Default options of `trec_eval`.
    pub fn trec() -> Self {
        Self {
            relevance_threshold: 1,
            missing: MissingQueries::Skip,
            no_relevant: NoRelevant::Zero,
            unjudged: Unjudged::Irrelevant,
        }
    }
}

/// Value of judged queries without results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingQueries {
    /// Count as 0 (`trec_eval -c`), so that omitting hard queries does not improve the mean.
    Zero,
    /// Exclude from the mean (`trec_eval` without `-c`).
    Skip,
}

/// Value of queries without relevant documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoRelevant {
    /// Exclude from the mean, because the value is undefined.
    Skip,
    /// Count as 0, like `trec_eval`.
    Zero,
}

/// Handling of results without a judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unjudged {
    /// Count as an irrelevant result.
    Irrelevant,
    /// Remove from the list before the evaluation (`trec_eval -J`).
    Condensed,
}

/// Values of a run, with one row per evaluated query.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    measures: Vec<Measure>,
    queries: Vec<String>,
    values: Vec<Option<f64>>,
    /// Number of judged queries without results.
    pub missing: usize,
    /// Number of queries in the run without judgments; they are not evaluated.
    pub unknown: usize,
    /// Number of queries without a judged document at or above the threshold.
    pub without_relevant: usize,
}

/// A mean over queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// Mean value; absent if no query has a value.
    pub mean: Option<f64>,
    /// Bootstrap interval of the mean; absent with fewer than two queries or if not requested.
    pub ci: Option<Interval>,
    /// Number of queries with a value.
    pub queries: usize,
}

impl Aggregate {
    /// Computes the mean, with an interval if there are at least two values and `bootstrap.resamples` is
    /// positive.
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

/// Evaluates a run with judgments only. Measures that need facts have no value.
pub fn evaluate(qrels: &Qrels, run: &Run, measures: &[Measure], options: &EvaluationOptions) -> Evaluation {
    measure(qrels, run, None, measures, *options, &Facts::default())
}

/// Evaluates a run that was graded while it was read. Measures that need facts have no value.
pub fn evaluate_graded_run(
    qrels: &Qrels,
    run: &GradedRun,
    measures: &[Measure],
    options: &EvaluationOptions,
) -> Evaluation {
    measure(qrels, &run.rest, Some(run), measures, *options, &Facts::default())
}

/// Evaluates a run with facts about documents and queries: tiers, folders, causal chains and equivalence
/// classes. The first document of a class in a list counts with the best grade of the class; the others add
/// nothing. Other facts do not affect the standard measures.
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
    Ok(measure(qrels, run, None, measures, *options, facts))
}

fn measure(
    qrels: &Qrels,
    run: &Run,
    graded: Option<&GradedRun>,
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
        if let Some(grades) = graded.and_then(|graded| graded.grades(position)) {
            let keeps = |grade: &Option<i32>| grade.is_some() || options.unjudged == Unjudged::Irrelevant;
            query.grades.extend(grades.filter(keeps));
        }
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
                facts.value(*measure, name, &listed, &wanted).map(positive_zero)
            } else {
                standard_value(&query, *measure, options, &mut discounts)
            }
        }));
    }
    found.unknown = run.queries() - known;
    found
}

/// Value of a measure that needs no facts.
fn standard_value(
    query: &Ranked,
    measure: Measure,
    options: EvaluationOptions,
    discounts: &mut Discounts,
) -> Option<f64> {
    let value = query.value(measure, discounts);
    let value = match options.no_relevant {
        // `judged` is undefined for an empty list, independent of relevance.
        NoRelevant::Zero if measure.kind != Kind::Judged => value.or(Some(0.0)),
        _ => value,
    };
    value.map(positive_zero)
}

/// An empty sum is −0; adding 0 normalizes the sign for output.
fn positive_zero(value: f64) -> f64 {
    value + 0.0
}

/// A query whose results were compared with the judgments already.
#[derive(Debug, Clone, Copy)]
pub struct GradedQuery<'a> {
    /// Id of the query.
    pub query: &'a str,
    /// Grades of the results in rank order, `None` for those without a judgment; absent if the run does not
    /// have the query.
    pub results: Option<&'a [Option<i32>]>,
    /// Grades of all judged documents, in any order.
    pub judged: &'a [i32],
}

/// Evaluates queries given by their grades, for callers that look up judgments themselves. Measures that need
/// facts have no value.
///
/// ```
/// use satiety::retrieval::{EvaluationOptions, GradedQuery, evaluate_graded};
///
/// let query = GradedQuery { query: "q1", results: Some(&[None, Some(2)]), judged: &[2, 0] };
/// let found = evaluate_graded([query], &["mrr".parse()?], &EvaluationOptions::default());
/// assert_eq!(found.row(0), [Some(0.5)]);
/// # Ok::<(), satiety::retrieval::RetrievalError>(())
/// ```
pub fn evaluate_graded<'a>(
    queries: impl IntoIterator<Item = GradedQuery<'a>>,
    measures: &[Measure],
    options: &EvaluationOptions,
) -> Evaluation {
    let mut found = Evaluation {
        measures: measures.to_vec(),
        queries: Vec::new(),
        values: Vec::new(),
        missing: 0,
        unknown: 0,
        without_relevant: 0,
    };
    let mut ranked = Ranked::default();
    let mut discounts = Discounts::default();
    for query in queries {
        found.missing += usize::from(query.results.is_none());
        if query.results.is_none() && options.missing == MissingQueries::Skip {
            continue;
        }
        ranked.threshold = options.relevance_threshold;
        ranked.relevant = 0;
        ranked.irrelevant = 0;
        ranked.ideal.clear();
        for grade in query.judged {
            ranked.judge(*grade);
        }
        ranked.ideal.sort_unstable_by(|a, b| b.cmp(a));
        found.without_relevant += usize::from(ranked.relevant == 0);
        let keeps = |grade: &&Option<i32>| grade.is_some() || options.unjudged == Unjudged::Irrelevant;
        ranked.grades.clear();
        ranked
            .grades
            .extend(query.results.unwrap_or_default().iter().filter(keeps));
        found.values.extend(measures.iter().map(|measure| {
            if measure.kind.needs_facts() {
                None
            } else {
                standard_value(&ranked, *measure, *options, &mut discounts)
            }
        }));
        found.queries.push(query.query.to_owned());
    }
    found
}

impl Evaluation {
    /// Measures in column order.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// Ids of the evaluated queries, in the order of the judgments.
    pub fn queries(&self) -> &[String] {
        &self.queries
    }

    /// Values of a query; `None` for undefined measures.
    pub fn row(&self, query: usize) -> &[Option<f64>] {
        let width = self.measures.len();
        &self.values[query * width..(query + 1) * width]
    }

    /// Values of a measure over all queries.
    pub fn column(&self, measure: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        (0..self.queries.len()).map(move |query| self.row(query)[measure])
    }

    /// Returns the rows at the given positions.
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

    /// Groups query positions by the value of a field; queries without a value are omitted.
    pub fn groups(&self, field: impl Fn(&str) -> Option<String>) -> BTreeMap<String, Vec<usize>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (position, query) in self.queries.iter().enumerate() {
            if let Some(value) = field(query) {
                groups.entry(value).or_default().push(position);
            }
        }
        groups
    }

    /// Mean of a measure, with an interval if `bootstrap.resamples` is positive.
    pub fn aggregate(&self, measure: usize, bootstrap: &BootstrapSettings) -> Result<Aggregate, StatsError> {
        Aggregate::of(&self.column(measure).flatten().collect::<Vec<_>>(), bootstrap)
    }
}
