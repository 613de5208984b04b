//! Multiple testing: adjusted p-values that can be compared with alpha directly.

use super::error::{Result, check_probability};

/// Holm's (1979) step-down adjustment: bounds the probability of any false alarm by alpha, for any dependence
/// between the tests.
pub(crate) fn holm(p_values: &[f64]) -> Result<Vec<f64>> {
    let order = ascending(p_values)?;
    let m = p_values.len();
    let mut adjusted = vec![0.0; m];
    let mut highest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max((p_values[index] * (m - rank) as f64).min(1.0));
        adjusted[index] = highest;
    }
    Ok(adjusted)
}

fn ascending(p_values: &[f64]) -> Result<Vec<usize>> {
    p_values
        .iter()
        .try_for_each(|&p| check_probability("p-value", p))?;
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&i, &j| p_values[i].total_cmp(&p_values[j]));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assert_close;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py multiple` (statsmodels multipletests).
    #[test]
    fn agrees_with_statsmodels() {
        let p = [0.01, 0.04, 0.03, 0.005, 0.2, 0.03, 1.0];
        for (actual, expected) in holm(&p)
            .unwrap()
            .into_iter()
            .zip([0.06, 0.15, 0.15, 0.035, 0.4, 0.15, 1.0])
        {
            assert_close(actual, expected, 1e-15);
        }
    }

    #[test]
    fn empty_and_invalid_input() {
        assert_eq!(holm(&[]), Ok(vec![]));
        assert!(holm(&[0.1, f64::NAN]).is_err());
        assert!(holm(&[-0.1]).is_err());
    }

    proptest! {
        #[test]
        fn adjusting_keeps_order_and_only_raises(p in prop::collection::vec(0.0..=1.0f64, 1..30)) {
            let strict = holm(&p).unwrap();
            for i in 0..p.len() {
                prop_assert!(strict[i] >= p[i] - 1e-15 && strict[i] <= 1.0);
                for j in 0..p.len() {
                    if p[i] < p[j] {
                        prop_assert!(strict[i] <= strict[j]);
                    }
                }
            }
        }
    }
}
