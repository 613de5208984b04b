//! Logistic regression with a ridge penalty, fitted by Newton's method (iteratively reweighted least
//! squares).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Result, StatsError, check_finite, check_same_length};

/// Fitted model: log-odds = intercept + weights · features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogisticModel {
    /// Log-odds when all features are zero.
    pub intercept: f64,
    /// One weight per feature.
    pub weights: Vec<f64>,
}

impl LogisticModel {
    /// Predicted probability for a feature vector.
    pub fn predict(&self, features: &[f64]) -> Result<f64> {
        check_same_length(features, &self.weights)?;
        check_finite(features)?;
        Ok(sigmoid(self.intercept + dot(&self.weights, features)))
    }
}

/// Fits a model by minimizing `−log-likelihood + ridge/2 · |weights|²`; the intercept is not penalized
/// (scikit-learn's `C = 1/ridge`). The penalty must be positive, which makes the minimum unique if both
/// outcomes occur.
pub fn fit_logistic<R: AsRef<[f64]>>(rows: &[R], outcomes: &[bool], ridge: f64) -> Result<LogisticModel> {
    let Some(first) = rows.first() else {
        return Err(StatsError::TooFew { needed: 2, got: 0 });
    };
    let prior = LogisticModel {
        intercept: 0.0,
        weights: vec![0.0; first.as_ref().len()],
    };
    let importance = vec![1.0; rows.len()];
    fit_logistic_towards(rows, outcomes, &importance, &prior, ridge)
}

/// Like [`fit_logistic`] with two more parameters: the importance of each observation (such as inverse
/// propensities), and the prior weights that the ridge shrinks towards, so that they persist when there is
/// little evidence. The intercept is not penalized; its prior value is only the starting point.
pub(crate) fn fit_logistic_towards<R: AsRef<[f64]>>(
    rows: &[R],
    outcomes: &[bool],
    importance: &[f64],
    prior: &LogisticModel,
    ridge: f64,
) -> Result<LogisticModel> {
    let penalties = vec![ridge; prior.weights.len()];
    fit_logistic_penalized(rows, outcomes, importance, prior, &penalties, prior)
}

/// Like [`fit_logistic_towards`] with a penalty of its own for each weight, and a starting point: the solution for
/// a similar problem saves iterations and does not change the result.
pub(crate) fn fit_logistic_penalized<R: AsRef<[f64]>>(
    rows: &[R],
    outcomes: &[bool],
    importance: &[f64],
    prior: &LogisticModel,
    penalties: &[f64],
    start: &LogisticModel,
) -> Result<LogisticModel> {
    check_same_length(rows, outcomes)?;
    check_same_length(rows, importance)?;
    check_same_length(penalties, &prior.weights)?;
    check_same_length(&start.weights, &prior.weights)?;
    check_finite(&start.weights)?;
    for &penalty in penalties {
        check_ridge(penalty)?;
    }
    check_finite(importance)?;
    check_finite(&prior.weights)?;
    check_finite(&[prior.intercept])?;
    if let Some(&value) = importance.iter().find(|value| **value < 0.0) {
        return Err(StatsError::OutOfRange {
            what: "importance",
            value,
            range: "[0, ∞)",
        });
    }
    if rows.is_empty() {
        return Err(StatsError::TooFew { needed: 2, got: 0 });
    }
    let width = prior.weights.len();
    for row in rows {
        if row.as_ref().len() != width {
            return Err(StatsError::LengthMismatch {
                left: width,
                right: row.as_ref().len(),
            });
        }
        check_finite(row.as_ref())?;
    }
    let counts = |wanted: bool| {
        let mut counted = outcomes.iter().zip(importance);
        counted.any(|(outcome, importance)| *outcome == wanted && *importance > 0.0)
    };
    if !(counts(true) && counts(false)) {
        return Err(StatsError::NoVariation { what: "outcomes" });
    }
    let problem = Problem {
        rows,
        outcomes,
        importance,
        prior: &prior.weights,
        penalties,
    };
    newton(&problem, start)
}

/// Objective to minimize.
struct Problem<'a, R> {
    rows: &'a [R],
    outcomes: &'a [bool],
    importance: &'a [f64],
    prior: &'a [f64],
    penalties: &'a [f64],
}

fn newton<R: AsRef<[f64]>>(problem: &Problem<'_, R>, start: &LogisticModel) -> Result<LogisticModel> {
    const MOST: usize = 100;
    let size = start.weights.len() + 1;
    let mut theta: Vec<f64> = std::iter::once(start.intercept)
        .chain(start.weights.iter().copied())
        .collect();
    let mut loss = objective(problem, &theta);
    let mut previous = f64::INFINITY;
    for _ in 0..MOST {
        let mut gradient = vec![0.0; size];
        let mut hessian = vec![0.0; size * size];
        let mut x = vec![1.0; size];
        let observations = problem.rows.iter().zip(problem.outcomes).zip(problem.importance);
        for ((row, &outcome), &importance) in observations {
            let features = row.as_ref();
            let p = sigmoid(theta[0] + dot(&theta[1..], features));
            let residual = importance * (p - f64::from(u8::from(outcome)));
            let weight = importance * p * (1.0 - p);
            x[1..].copy_from_slice(features);
            for (i, (slope, row)) in gradient
                .iter_mut()
                .zip(hessian.chunks_exact_mut(size))
                .enumerate()
            {
                *slope += residual * x[i];
                let scaled = weight * x[i];
                for (entry, other) in row.iter_mut().zip(&x[..=i]) {
                    *entry += scaled * other;
                }
            }
        }
        for i in 1..size {
            let penalty = problem.penalties[i - 1];
            gradient[i] += penalty * (theta[i] - problem.prior[i - 1]);
            hessian[i * size + i] += penalty;
        }
        // Perfectly certain predictions leave the intercept without curvature.
        hessian[0] += 1e-12;
        let step = solve_cholesky(&mut hessian, &gradient, size)?;
        let largest = step.iter().fold(0.0_f64, |most, s| most.max(s.abs()));
        let scale = theta.iter().fold(1.0_f64, |most, t| most.max(t.abs()));
        // Halve the step until the loss does not rise: Newton's method may overshoot.
        let mut factor = 1.0;
        loop {
            let candidate: Vec<f64> = theta.iter().zip(&step).map(|(t, s)| t - factor * s).collect();
            let next = objective(problem, &candidate);
            if next <= loss + 1e-12 * loss.abs() || factor < 1e-10 {
                (theta, loss) = (candidate, next);
                break;
            }
            factor *= 0.5;
        }
        // Newton's steps shrink quadratically until rounding, which grows with the number of observations, keeps the last
        // digits changing: accept a small step that does not shrink, or cannot lower the loss.
        let stalls = largest >= 0.5 * previous || factor < 1.0;
        previous = largest;
        if largest <= 1e-13 * scale || (largest <= 1e-9 * scale && stalls) {
            return Ok(LogisticModel {
                intercept: theta[0],
                weights: theta[1..].to_vec(),
            });
        }
    }
    Err(StatsError::NotConverged { iterations: MOST })
}

fn objective<R: AsRef<[f64]>>(problem: &Problem<'_, R>, theta: &[f64]) -> f64 {
    let distances = theta[1..]
        .iter()
        .zip(problem.prior)
        .zip(problem.penalties)
        .map(|((t, prior), penalty)| penalty * (t - prior).powi(2));
    let penalty = 0.5 * distances.sum::<f64>();
    let observations = problem.rows.iter().zip(problem.outcomes).zip(problem.importance);
    let losses = observations.map(|((row, &outcome), &importance)| {
        let z = theta[0] + dot(&theta[1..], row.as_ref());
        let signed = if outcome { -z } else { z };
        let loss = if signed > 0.0 {
            signed + (-signed).exp().ln_1p()
        } else {
            signed.exp().ln_1p()
        };
        importance * loss
    });
    losses.sum::<f64>() + penalty
}

/// Solves `A x = b` for a symmetric positive definite matrix given by its lower triangle.
pub(crate) fn solve_cholesky(matrix: &mut [f64], b: &[f64], size: usize) -> Result<Vec<f64>> {
    for i in 0..size {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| matrix[i * size + k] * matrix[j * size + k]).sum();
            let value = matrix[i * size + j] - known;
            if i == j {
                if value.is_nan() || value <= 0.0 {
                    return Err(StatsError::NoVariation { what: "features" });
                }
                matrix[i * size + i] = value.sqrt();
            } else {
                matrix[i * size + j] = value / matrix[j * size + j];
            }
        }
    }
    let mut x = b.to_vec();
    for i in 0..size {
        let known: f64 = (0..i).map(|k| matrix[i * size + k] * x[k]).sum();
        x[i] = (x[i] - known) / matrix[i * size + i];
    }
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|k| matrix[k * size + i] * x[k]).sum();
        x[i] = (x[i] - known) / matrix[i * size + i];
    }
    Ok(x)
}

fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 {
        1.0 / (1.0 + (-z).exp())
    } else {
        let e = z.exp();
        e / (1.0 + e)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn check_ridge(ridge: f64) -> Result<()> {
    if ridge > 0.0 && ridge.is_finite() {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        what: "ridge",
        value: ridge,
        range: "(0, ∞)",
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{A, B, assert_close};
    use super::*;

    const OUTCOMES: [bool; 12] = [
        true, false, true, true, true, false, false, false, true, false, true, true,
    ];

    fn rows() -> Vec<[f64; 2]> {
        A.iter().zip(B).map(|(&a, b)| [a, b]).collect()
    }

    // Oracle: `python perf/peers/stats_oracle.py logistic` (scikit-learn, newton-cholesky, tol 1e-14).
    #[test]
    fn batch_agrees_with_scikit_learn() {
        for (ridge, intercept, first, second) in [
            (1.0, -0.33253185880890535, 0.7173556868751633, 0.4973201288600532),
            (0.01, -3.4295845017329634, 5.603846286523975, 1.2875528041113782),
            (10.0, 0.25224802222329, 0.08885614254544814, 0.06291759177794139),
        ] {
            let model = fit_logistic(&rows(), &OUTCOMES, ridge).unwrap();
            assert_close(model.intercept, intercept, 1e-9);
            assert_close(model.weights[0], first, 1e-9);
            assert_close(model.weights[1], second, 1e-9);
        }
    }

    // Oracle: `python perf/peers/stats_oracle.py logistic` (scipy, root of the gradient).
    #[test]
    fn importance_and_prior_agree_with_scipy() {
        let importance = [1.0, 2.0, 1.0, 1.0, 20.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 0.5];
        let prior = LogisticModel {
            intercept: 0.0,
            weights: vec![-1.0, 2.0],
        };
        for (ridge, intercept, first, second) in [
            (1.0, -0.533834600356629, 0.028715894044204892, 3.0300518201369067),
            (0.01, -7.932565819024716, 4.42555344859983, 12.624752913189072),
            (10.0, 0.481146594897445, -0.872132928605108, 2.124202321324275),
        ] {
            let model = fit_logistic_towards(&rows(), &OUTCOMES, &importance, &prior, ridge).unwrap();
            assert_close(model.intercept, intercept, 1e-9);
            assert_close(model.weights[0], first, 1e-9);
            assert_close(model.weights[1], second, 1e-9);
        }
        let one_sided: Vec<f64> = OUTCOMES
            .iter()
            .map(|outcome| f64::from(u8::from(*outcome)))
            .collect();
        assert!(fit_logistic_towards(&rows(), &OUTCOMES, &one_sided, &prior, 1.0).is_err());
        assert!(fit_logistic_towards(&rows(), &OUTCOMES, &[-1.0; 12], &prior, 1.0).is_err());
    }

    // Oracle: the same recursion with numpy matrices.
    #[test]
    fn separable_data_have_a_ridge_solution() {
        let model = fit_logistic(&[[-1.0], [1.0]], &[false, true], 1e-4).unwrap();
        assert!(model.weights[0] > 3.0 && model.weights[0].is_finite());
        assert_close(model.predict(&[0.0]).unwrap(), 0.5, 1e-6);
    }

    #[test]
    fn invalid_input_is_rejected() {
        let empty: [[f64; 1]; 0] = [];
        assert!(fit_logistic(&empty, &[], 1.0).is_err());
        assert!(fit_logistic(&[[1.0], [2.0]], &[true, true], 1.0).is_err());
        assert!(matches!(
            fit_logistic(&[[1.0], [2.0]], &[true, false], 0.0),
            Err(StatsError::OutOfRange { what: "ridge", .. })
        ));
        assert!(fit_logistic(&[vec![1.0], vec![]], &[true, false], 1.0).is_err());
        assert!(fit_logistic(&[[f64::NAN], [2.0]], &[true, false], 1.0).is_err());
        // A constant feature is allowed: the ridge determines its weight.
        assert!(fit_logistic(&[[1.0], [1.0]], &[true, false], 1.0).is_ok());
    }
}
