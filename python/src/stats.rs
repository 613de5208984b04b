//! `satiety.stats`: statistics on float64 arrays, which are read in place.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use satiety::stats::{
    self, Abundance, Alternative, BettingSettings, BettingTest, BootstrapSettings, NormalSprt, SprtSettings,
    StatsError,
};

use crate::convert::{from_python, settings, to_python};
use crate::error::{Failure, compute};

type Floats<'py> = PyReadonlyArray1<'py, f64>;
type Output<'py> = PyResult<Bound<'py, PyAny>>;

impl From<StatsError> for Failure {
    fn from(error: StatsError) -> Self {
        let place = match &error {
            StatsError::NotFinite { index, .. } => format!("values[{index}]"),
            StatsError::OutOfRange { what, .. } => (*what).to_owned(),
            _ => "values".to_owned(),
        };
        Self::new(error.to_string()).at(place)
    }
}

/// Elements of an array that lies contiguously in memory; the Python side copies those that do not.
fn slice<'a>(array: &'a Floats<'_>, place: &str) -> Result<&'a [f64], Failure> {
    array
        .as_slice()
        .map_err(|_| Failure::new(format!("{place} must be contiguous ({} values)", array.len())).at(place))
}

fn alternative(name: &Bound<'_, PyAny>) -> PyResult<Alternative> {
    from_python(name, "alternative")
}

/// Bootstrap interval of a mean, or of a mean over clusters.
#[pyfunction]
#[pyo3(signature = (values, clusters, options))]
pub(crate) fn bootstrap<'py>(
    py: Python<'py>,
    values: Floats<'py>,
    clusters: Option<PyReadonlyArray1<'py, i64>>,
    options: &Bound<'py, PyDict>,
) -> Output<'py> {
    let options: BootstrapSettings = settings(options, "options")?;
    let values = slice(&values, "values")?;
    let groups = clusters.map(|clusters| group_numbers(clusters.as_array().iter().copied()));
    let estimate = compute(py, || {
        Ok(match &groups {
            Some(groups) => stats::bootstrap_clustered_mean(values, groups, &options)?,
            None => stats::bootstrap_mean(values, &options)?,
        })
    })?;
    to_python(py, &estimate)
}

/// Numbers clusters from zero in the order of their first members.
fn group_numbers(labels: impl Iterator<Item = i64>) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    labels
        .map(|label| {
            let next = numbers.len();
            *numbers.entry(label).or_insert(next)
        })
        .collect()
}

/// Sign-flip permutation test of paired differences.
#[pyfunction]
pub(crate) fn permutation<'py>(
    py: Python<'py>,
    differences: Floats<'py>,
    alternative_name: &Bound<'py, PyAny>,
    permutations: u64,
    seed: u64,
) -> Output<'py> {
    let alternative = alternative(alternative_name)?;
    let differences = slice(&differences, "values")?;
    let found = compute(py, || {
        Ok(stats::sign_flip(differences, alternative, permutations, seed)?)
    })?;
    to_python(py, &found)
}

/// Student's t-test of paired differences, or Welch's of two samples.
#[pyfunction]
#[pyo3(signature = (treatment, control, alternative_name, confidence))]
pub(crate) fn t_test<'py>(
    py: Python<'py>,
    treatment: Floats<'py>,
    control: Option<Floats<'py>>,
    alternative_name: &Bound<'py, PyAny>,
    confidence: f64,
) -> Output<'py> {
    let alternative = alternative(alternative_name)?;
    let treatment = slice(&treatment, "values")?;
    let control = control
        .as_ref()
        .map(|control| slice(control, "control"))
        .transpose()?;
    let found = compute(py, || {
        Ok(match control {
            Some(control) => stats::welch_t(treatment, control, alternative, confidence)?,
            None => stats::one_sample_t(treatment, alternative, confidence)?,
        })
    })?;
    to_python(py, &found)
}

#[pyfunction]
pub(crate) fn sign_test(wins: u64, losses: u64, alternative_name: &Bound<'_, PyAny>) -> PyResult<f64> {
    Ok(stats::sign_test(wins, losses, alternative(alternative_name)?))
}

#[pyfunction]
pub(crate) fn wilson(py: Python<'_>, successes: u64, trials: u64, confidence: f64) -> Output<'_> {
    let interval = stats::wilson(successes, trials, confidence).map_err(Failure::from)?;
    to_python(py, &interval)
}

#[pyfunction]
pub(crate) fn pass_at_k(tries: u64, successes: u64, k: u64) -> PyResult<(f64, f64)> {
    let at = stats::pass_at_k(tries, successes, k).map_err(Failure::from)?;
    let hat = stats::pass_hat_k(tries, successes, k).map_err(Failure::from)?;
    Ok((at, hat))
}

/// Good-Turing mass of unseen kinds, and Chao's estimate of their number.
#[pyfunction]
pub(crate) fn unseen(py: Python<'_>, counts: Vec<u64>, confidence: f64) -> Output<'_> {
    let found = compute(py, || {
        let abundance = Abundance::from_counts(counts);
        Ok((
            stats::unseen_mass(&abundance, confidence)?,
            stats::chao1(&abundance, confidence)?,
        ))
    })?;
    to_python(py, &found)
}

#[pyfunction]
pub(crate) fn rank_correlation(py: Python<'_>, x: Floats<'_>, y: Floats<'_>) -> PyResult<(f64, f64)> {
    let (x, y) = (slice(&x, "x")?, slice(&y, "y")?);
    compute(py, || Ok((stats::kendall_tau(x, y)?, stats::spearman(x, y)?)))
}

/// Confidence sequence of a mean by betting, valid after every value.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct ConfidenceSequence(Mutex<BettingTest>);

#[pymethods]
impl ConfidenceSequence {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options: BettingSettings = settings(options, "options")?;
        let test = BettingTest::new(options).map_err(Failure::from)?;
        Ok(Self(Mutex::new(test)))
    }

    fn observe<'py>(
        &self,
        py: Python<'py>,
        values: Floats<'py>,
        alternative_name: &Bound<'py, PyAny>,
    ) -> Output<'py> {
        let alternative = alternative(alternative_name)?;
        let values = slice(&values, "values")?;
        let state = compute(py, || {
            let mut test = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // All or nothing: an invalid value leaves the test as it was.
            let mut next = test.clone();
            for value in values {
                next.observe(*value)?;
            }
            *test = next;
            let evidence = test.evidence(alternative);
            Ok(serde_json::json!({
                "samples": test.samples(),
                "mean": test.mean(),
                "interval": test.interval(),
                "e_value": evidence.e_value(),
                "p_value": evidence.p_value(),
            }))
        })?;
        to_python(py, &state)
    }
}

/// Sequential probability ratio test of a mean.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Sprt(Mutex<NormalSprt>);

#[pymethods]
impl Sprt {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options: SprtSettings = from_python(options, "options")?;
        let test = NormalSprt::new(options).map_err(Failure::from)?;
        Ok(Self(Mutex::new(test)))
    }

    fn observe<'py>(&self, py: Python<'py>, values: Floats<'py>) -> Output<'py> {
        let values = slice(&values, "values")?;
        let state = compute(py, || {
            let mut test = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut next = test.clone();
            for value in values {
                next.observe(*value)?;
            }
            *test = next;
            Ok(serde_json::json!({
                "decision": test.decision(),
                "samples": test.samples(),
                "sigma": test.sigma(),
                "log_likelihood_ratio": test.ln_likelihood_ratio(),
                "boundaries": test.boundaries(),
            }))
        })?;
        to_python(py, &state)
    }
}
