//! `satiety.retrieval`: evaluation and comparison of rankings from Python objects.

use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};
use satiety::retrieval::{
    self, ComparisonSettings, Evaluation, EvaluationOptions, GradedQuery, Measure, OrderOptions,
    QrelsBuilder, QrelsReader, RetrievalError, RunBuilder, RunReader,
};
use satiety::stats::BootstrapSettings;
use serde_json::json;

use crate::convert::{settings, to_python, type_name};
use crate::error::{Failure, compute};

type Output<'py> = PyResult<Bound<'py, PyAny>>;

/// Queries, their values by measure, and counts of queries that need attention.
type Values<'py> = (Vec<String>, Bound<'py, PyArray2<f64>>, Bound<'py, PyAny>);

impl From<RetrievalError> for Failure {
    fn from(error: RetrievalError) -> Self {
        let place = match &error {
            RetrievalError::Measure { .. } => "measures".to_owned(),
            RetrievalError::Duplicate { query, document, .. } | RetrievalError::Score { query, document } => {
                format!("[{query}][{document}]")
            }
            RetrievalError::NoSharedQueries => "run".to_owned(),
            _ => "qrels or run".to_owned(),
        };
        Self::new(error.to_string()).at(place)
    }
}

/// Relevance judgments.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Qrels(retrieval::Qrels);

/// Ranked results.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Run(retrieval::Run);

/// Calls `add` for each document of a dict of dicts.
fn each_entry<'py>(
    lists: &Bound<'py, PyDict>,
    place: &str,
    mut add: impl FnMut(&str, &str, &Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    for (query, documents) in lists {
        let query = id(&query, place)?;
        let query = utf8(&query, place)?;
        let Ok(documents) = documents.cast::<PyDict>() else {
            let place = format!("{place}[{query}]");
            return Err(Failure::new(format!(
                "{place} must be a dict of documents, not {}",
                type_name(&documents)
            ))
            .at(place)
            .into());
        };
        for (document, value) in documents {
            let document = id(&document, place)?;
            add(query, utf8(&document, place)?, &value)?;
        }
    }
    Ok(())
}

/// Ids are strings; other values, such as numbers, are formatted.
fn id<'py>(value: &Bound<'py, PyAny>, place: &str) -> PyResult<Bound<'py, PyString>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.clone());
    }
    if value.is_instance_of::<PyInt>() {
        return value.str();
    }
    Err(Failure::new(format!(
        "{place} has an id that is not a string: {}",
        type_name(value)
    ))
    .at(place)
    .into())
}

fn utf8<'a>(id: &'a Bound<'_, PyString>, place: &str) -> PyResult<&'a str> {
    id.to_str().map_err(|_| {
        Failure::new(format!("{place} has an id that is not valid Unicode"))
            .at(place)
            .into()
    })
}

fn grade(value: &Bound<'_, PyAny>, query: &str, document: &str) -> PyResult<i32> {
    let wrong = || -> PyErr {
        let place = format!("qrels[{query}][{document}]");
        Failure::new(format!("{place} must be an integer, not {}", type_name(value)))
            .at(place)
            .into()
    };
    if let Ok(grade) = value.extract::<i32>() {
        return Ok(grade);
    }
    let grade: f64 = value.extract().map_err(|_| wrong())?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fraction is zero, and `as` saturates"
    )]
    if grade.fract() == 0.0 {
        Ok(grade as i32)
    } else {
        Err(wrong())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "scores are 32-bit, like in trec_eval"
)]
fn score(value: &Bound<'_, PyAny>, query: &str, document: &str) -> PyResult<f32> {
    if let Ok(float) = value.cast::<PyFloat>() {
        return Ok(float.extract::<f64>()? as f32);
    }
    value.extract::<f64>().map(|score| score as f32).map_err(|_| {
        let place = format!("run[{query}][{document}]");
        Failure::new(format!("{place} must be a number, not {}", type_name(value)))
            .at(place)
            .into()
    })
}

/// The three columns of a frame, checked for equal length.
fn columns<'py>(
    queries: &Bound<'py, PyList>,
    documents: &Bound<'py, PyList>,
    values: usize,
    place: &str,
) -> PyResult<impl Iterator<Item = PyResult<(Bound<'py, PyString>, Bound<'py, PyString>)>>> {
    if queries.len() != documents.len() || queries.len() != values {
        return Err(Failure::new(format!(
            "{place} has columns of different lengths: {}, {} and {values}",
            queries.len(),
            documents.len()
        ))
        .at(place)
        .into());
    }
    let place = place.to_owned();
    Ok(queries
        .iter()
        .zip(documents.iter())
        .map(move |(query, document)| Ok((id(&query, &place)?, id(&document, &place)?))))
}

#[pymethods]
impl Qrels {
    /// From `{query: {document: grade}}`.
    #[staticmethod]
    fn from_dict(py: Python<'_>, lists: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut builder = QrelsBuilder::default();
        each_entry(lists, "qrels", |query, document, value| {
            let grade = grade(value, query, document)?;
            Ok(builder.add(query, document, grade).map_err(Failure::from)?)
        })?;
        compute(py, || Ok(Self(builder.finish(OrderOptions::default())?)))
    }

    #[staticmethod]
    fn from_columns(
        py: Python<'_>,
        queries: &Bound<'_, PyList>,
        documents: &Bound<'_, PyList>,
        grades: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Self> {
        let mut builder = QrelsBuilder::default();
        let grades = grades.as_array();
        for (ids, grade) in columns(queries, documents, grades.len(), "qrels")?.zip(grades) {
            let (query, document) = ids?;
            let grade = i32::try_from(*grade).unwrap_or(i32::MAX);
            builder
                .add(utf8(&query, "qrels")?, utf8(&document, "qrels")?, grade)
                .map_err(Failure::from)?;
        }
        compute(py, || Ok(Self(builder.finish(OrderOptions::default())?)))
    }

    #[staticmethod]
    fn from_trec(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        compute(py, || {
            let mut reader = QrelsReader::trec();
            reader.push(bytes)?;
            Ok(Self(reader.finish(OrderOptions::default())?))
        })
    }

    fn __len__(&self) -> usize {
        self.0.queries()
    }
}

#[pymethods]
impl Run {
    /// From `{query: {document: score}}`.
    #[staticmethod]
    fn from_dict(py: Python<'_>, lists: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut builder = RunBuilder::default();
        each_entry(lists, "run", |query, document, value| {
            let score = score(value, query, document)?;
            Ok(builder.add(query, document, score).map_err(Failure::from)?)
        })?;
        compute(py, || Ok(Self(builder.finish(OrderOptions::default())?)))
    }

    #[staticmethod]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "scores are 32-bit, like in trec_eval"
    )]
    fn from_columns(
        py: Python<'_>,
        queries: &Bound<'_, PyList>,
        documents: &Bound<'_, PyList>,
        scores: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let mut builder = RunBuilder::default();
        let scores = scores.as_array();
        for (ids, score) in columns(queries, documents, scores.len(), "run")?.zip(scores) {
            let (query, document) = ids?;
            builder
                .add(utf8(&query, "run")?, utf8(&document, "run")?, *score as f32)
                .map_err(Failure::from)?;
        }
        compute(py, || Ok(Self(builder.finish(OrderOptions::default())?)))
    }

    #[staticmethod]
    fn from_trec(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        compute(py, || {
            let mut reader = RunReader::trec();
            reader.push(bytes)?;
            Ok(Self(reader.finish(OrderOptions::default())?))
        })
    }

    fn __len__(&self) -> usize {
        self.0.queries()
    }
}

/// Parses a measure as ranx and `ir_measures` write it, such as `ndcg@10`, `nDCG@10`, `P@5` or `AP`.
///
/// Like there, `ndcg` has the grade as gain; `ndcg_burges` has the gain 2^grade − 1.
fn parse_measure(name: &str) -> Result<Measure, RetrievalError> {
    let (stem, cutoff) = match name.split_once('@') {
        Some((stem, cutoff)) => (stem, Some(cutoff)),
        None => (name, None),
    };
    let lower = stem.to_lowercase();
    let stem = match lower.as_str() {
        "ndcg" => "ndcg_linear",
        "ndcg_burges" | "ndcg(dcg='exp-log2')" | "ndcg(dcg=\"exp-log2\")" => "ndcg",
        "ap" => "map",
        "rr" | "recip_rank" | "reciprocal_rank" => "mrr",
        "precision" => "p",
        "r" => "recall",
        "hit_rate" => "success",
        other => match other.strip_prefix("rbp") {
            Some(p) if p.starts_with('.') => &format!("rbp(0{p})"),
            Some(p) if p.starts_with("(p=") => &format!("rbp({}", &p[3..]),
            _ => other,
        },
    };
    let own = match cutoff {
        Some(cutoff) => format!("{stem}@{cutoff}"),
        None => stem.to_owned(),
    };
    let measure: Measure = own.parse().map_err(|_| RetrievalError::Measure {
        name: name.to_owned(),
        reason: format!("expected one of: {MEASURES}"),
    })?;
    if measure.kind.needs_facts() {
        return Err(RetrievalError::Measure {
            name: name.to_owned(),
            reason: "it needs facts about documents, which only the command takes".to_owned(),
        });
    }
    Ok(measure)
}

const MEASURES: &str = "ndcg@10, ndcg_burges@10, mrr@10, map@100, recall@100, precision@5, hit_rate@5, rbp.8, bpref, \
     judged@10, or as ir_measures writes them: nDCG@10, RR@10, AP@100, R@100, P@5, Success@5, RBP(p=0.8), Judged@10";

fn parse_measures(names: &[String]) -> Result<Vec<Measure>, Failure> {
    if names.is_empty() {
        return Err(Failure::new("measures must not be empty").at("measures"));
    }
    Ok(names
        .iter()
        .map(|name| parse_measure(name))
        .collect::<Result<_, _>>()?)
}

/// Values of all queries and measures; NaN where a measure is undefined.
#[pyfunction]
pub(crate) fn retrieval_evaluate<'py>(
    py: Python<'py>,
    qrels: &Bound<'py, Qrels>,
    run: &Bound<'py, Run>,
    names: Vec<String>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Values<'py>> {
    let options: EvaluationOptions = crate::convert::overlay(&python_options(), options, "options")?;
    let (qrels, run) = (&qrels.get().0, &run.get().0);
    evaluation_to_python(py, || {
        let measures = parse_measures(&names)?;
        Ok(retrieval::evaluate(qrels, run, &measures, &options))
    })
}

/// The same for plain dicts, without converting them: results are looked up in the dicts themselves. `None` if
/// they contain anything but strings, integers and finite numbers, which the conversion handles or refuses.
#[pyfunction]
pub(crate) fn retrieval_evaluate_dicts<'py>(
    py: Python<'py>,
    qrels: &Bound<'py, PyDict>,
    run: &Bound<'py, PyDict>,
    names: Vec<String>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Option<Values<'py>>> {
    let options: EvaluationOptions = crate::convert::overlay(&python_options(), options, "options")?;
    let Some(graded) = GradedRun::from_dicts(qrels, run)? else {
        return Ok(None);
    };
    let values = evaluation_to_python(py, move || {
        let measures = parse_measures(&names)?;
        let mut found = retrieval::evaluate_graded(graded.queries(), &measures, &options);
        found.unknown = graded.unknown;
        Ok(found)
    });
    values.map(Some)
}

fn evaluation_to_python(
    py: Python<'_>,
    evaluate: impl FnOnce() -> Result<Evaluation, Failure> + Send,
) -> PyResult<Values<'_>> {
    let (found, values, counts) = compute(py, || {
        let found = evaluate()?;
        if found.queries().is_empty() {
            return Err(RetrievalError::NoSharedQueries.into());
        }
        let values: Vec<f64> = (0..found.queries().len())
            .flat_map(|query| found.row(query))
            .map(|value| value.unwrap_or(f64::NAN))
            .collect();
        let counts = json!({
            "missing": found.missing,
            "unknown": found.unknown,
            "without_relevant": found.without_relevant,
        });
        Ok((found, values, counts))
    })?;
    let shape = [found.queries().len(), found.measures().len()];
    let array = numpy::PyArray1::from_vec(py, values).reshape(shape)?;
    Ok((found.queries().to_vec(), array, to_python(py, &counts)?))
}

/// Grades of the results of all queries, one after another.
#[derive(Default)]
struct GradedRun {
    names: Vec<String>,
    /// For each query, where its results end; absent if the run does not have it.
    ends: Vec<Option<usize>>,
    grades: Vec<Option<i32>>,
    judged_ends: Vec<usize>,
    judged: Vec<i32>,
    /// Queries of the run without judgments.
    unknown: usize,
}

impl GradedRun {
    fn from_dicts(qrels: &Bound<'_, PyDict>, run: &Bound<'_, PyDict>) -> PyResult<Option<Self>> {
        let mut graded = Self::default();
        let mut known = 0;
        let mut scores = Vec::new();
        for (query, judgments) in qrels {
            let (Ok(name), Ok(judgments)) = (query.cast::<PyString>(), judgments.cast::<PyDict>()) else {
                return Ok(None);
            };
            if judgments.is_empty() {
                continue;
            }
            let results = match run.get_item(&query)? {
                Some(results) => match results.cast_into::<PyDict>() {
                    Ok(results) => Some(results).filter(|results| !results.is_empty()),
                    Err(_) => return Ok(None),
                },
                None => None,
            };
            let start = graded.grades.len();
            if let Some(results) = &results {
                known += 1;
                scores.clear();
                for value in results.values() {
                    let Some(score) = plain_score(&value) else {
                        return Ok(None);
                    };
                    scores.push(score);
                }
                graded.grades.resize(start + scores.len(), None);
            }
            for (document, grade) in judgments {
                let (Ok(id), Ok(grade)) = (document.cast::<PyString>(), grade.extract::<i32>()) else {
                    return Ok(None);
                };
                graded.judged.push(grade);
                let Some(results) = &results else {
                    continue;
                };
                if let Some(value) = results.get_item(&document)? {
                    let Some(rank) = rank_of(id, &value, results, &scores)? else {
                        return Ok(None);
                    };
                    graded.grades[start + rank] = Some(grade);
                }
            }
            let Ok(name) = name.to_str() else {
                return Ok(None);
            };
            graded.names.push(name.to_owned());
            graded.ends.push(results.is_some().then_some(graded.grades.len()));
            graded.judged_ends.push(graded.judged.len());
        }
        graded.unknown = run.len() - known;
        // Input without judgments or without results is refused with a message elsewhere.
        Ok((!graded.names.is_empty() && !graded.grades.is_empty()).then_some(graded))
    }

    fn queries(&self) -> impl Iterator<Item = GradedQuery<'_>> {
        let (mut start, mut judged_start) = (0, 0);
        let ends = self.ends.iter().zip(&self.judged_ends);
        self.names
            .iter()
            .zip(ends)
            .map(move |(query, (end, judged_end))| {
                let results = end.map(|end| &self.grades[std::mem::replace(&mut start, end)..end]);
                let judged = &self.judged[std::mem::replace(&mut judged_start, *judged_end)..*judged_end];
                GradedQuery {
                    query,
                    results,
                    judged,
                }
            })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "scores are 32-bit, like in trec_eval"
)]
fn plain_score(value: &Bound<'_, PyAny>) -> Option<f32> {
    let score = match value.cast::<PyFloat>() {
        Ok(float) => float.value(),
        Err(_) => value.cast::<PyInt>().ok()?.extract().ok()?,
    };
    (!score.is_nan()).then_some(score as f32)
}

/// Number of results before a document. Counting is faster than sorting, because few results are judged.
/// Equal scores are ordered by id, descending.
#[expect(clippy::float_cmp, reason = "ties are equal scores")]
fn rank_of(
    document: &Bound<'_, PyString>,
    value: &Bound<'_, PyAny>,
    results: &Bound<'_, PyDict>,
    scores: &[f32],
) -> PyResult<Option<usize>> {
    let Some(score) = plain_score(value) else {
        return Ok(None);
    };
    let mut rank = scores.iter().filter(|other| **other > score).count();
    if scores.iter().filter(|other| **other == score).count() > 1 {
        let document = utf8(document, "run")?;
        for (other, value) in results {
            if plain_score(&value) == Some(score) {
                let Ok(other) = other.cast::<PyString>() else {
                    return Ok(None);
                };
                rank += usize::from(utf8(other, "run")?.as_bytes() > document.as_bytes());
            }
        }
    }
    Ok(Some(rank))
}

/// Options with the conventions of ranx and `ir_measures`.
fn python_options() -> EvaluationOptions {
    EvaluationOptions {
        missing: retrieval::MissingQueries::Zero,
        ..EvaluationOptions::trec()
    }
}

/// Comparison of two runs on the same judgments.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "called from one place, with positional arguments"
)]
pub(crate) fn retrieval_compare<'py>(
    py: Python<'py>,
    qrels: &Bound<'py, Qrels>,
    before: &Bound<'py, Run>,
    after: &Bound<'py, Run>,
    names: Vec<String>,
    options: &Bound<'py, PyDict>,
    alpha: f64,
    bootstrap: &Bound<'py, PyDict>,
) -> Output<'py> {
    let options: EvaluationOptions = crate::convert::overlay(&python_options(), options, "options")?;
    let bootstrap: BootstrapSettings = settings(bootstrap, "bootstrap")?;
    let comparison = ComparisonSettings {
        alpha,
        bootstrap,
        ..ComparisonSettings::default()
    };
    let (qrels, before, after) = (&qrels.get().0, &before.get().0, &after.get().0);
    let found = compute(py, || {
        let measures = parse_measures(&names)?;
        let (control, treatment) = (
            retrieval::evaluate(qrels, before, &measures, &options),
            retrieval::evaluate(qrels, after, &measures, &options),
        );
        retrieval::compare((before, &control), (after, &treatment), &comparison)
            .map_err(|error| Failure::new(error.to_string()))
    })?;
    let found = to_python(py, &found)?;
    // Under the names that the caller gave.
    let compared = found.get_item("measures")?;
    for (entry, name) in compared.try_iter()?.zip(compared_names(&names, &compared)?) {
        entry?.set_item("measure", name)?;
    }
    Ok(found)
}

/// Names of the measures that were compared; one without a value for any query is left out.
fn compared_names(names: &[String], compared: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let mut shown = Vec::new();
    for entry in compared.try_iter()? {
        let own: String = entry?.get_item("measure")?.extract()?;
        let given = names
            .iter()
            .find(|name| parse_measure(name).is_ok_and(|measure| measure.to_string() == own));
        shown.push(given.cloned().unwrap_or(own));
    }
    Ok(shown)
}
