//! For any finite input, small or astronomically large, the result is an answer without NaN or an error. Never a panic.

use proptest::prelude::*;
use satiety::stats::*;
use serde::Serialize;

/// Finite numbers of every magnitude, with many ties and zeros among them.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => -2.0..2.0f64,
        2 => (-3i32..4).prop_map(f64::from),
        1 => any::<f64>().prop_filter("finite", |value| value.is_finite()),
        1 => prop_oneof![Just(f64::MAX), Just(f64::MIN), Just(f64::MIN_POSITIVE), Just(-0.0), Just(5e-324), Just(1e200)],
    ]
}

fn numbers(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), length)
}

/// JSON has no NaN and no infinity: they become null, as absent options do, of which only this many are allowed.
#[track_caller]
fn check<T: Serialize>(what: &str, result: Result<T>, may_be_absent: usize) {
    if let Ok(value) = result {
        let value = serde_json::to_value(&value).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(nulls(&value) <= may_be_absent, "{what} answered {value}");
    }
}

fn nulls(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Null => 1,
        serde_json::Value::Array(items) => items.iter().map(nulls).sum(),
        serde_json::Value::Object(fields) => fields.values().map(nulls).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn samples(values in numbers(0..30), other in numbers(0..30), p in 0.001..0.999f64, labels in prop::collection::vec(0usize..5, 30)) {
        let labels = &labels[..values.len()];
        let settings = BootstrapSettings { resamples: 20, confidence: p, ..Default::default() };
        check("mean", mean(&values), 0);
        check("variance", variance(&values), 0);
        check("quantile", quantile(&values, p), 0);
        check("mean_interval", mean_interval(&values, p), 1);
        check("clustered_mean_interval", clustered_mean_interval(&values, labels, p), 1);
        check("one_sample_t", one_sample_t(&values, Alternative::TwoSided, p), 0);
        check("welch_t", welch_t(&values, &other, Alternative::Greater, p), 0);
        check("sign_flip", sign_flip(&values, Alternative::TwoSided, 20, 1), 0);
        check("bootstrap_mean", bootstrap_mean(&values, &settings), 0);
        check("bootstrap_clustered_mean", bootstrap_clustered_mean(&values, labels, &settings), 0);
        let n = values.len().min(other.len());
        let (x, y) = (&values[..n], &other[..n]);
        check("paired_t", paired_t(x, y, Alternative::TwoSided, p), 0);
        check("bootstrap_paired_mean", bootstrap_paired_mean(x, y, &settings), 0);
        check("least_squares", least_squares(x, y, p), 1);
        check("kendall_tau", kendall_tau(x, y), 0);
        check("spearman", spearman(x, y), 0);
        let outcomes: Vec<bool> = y.iter().map(|value| *value > 0.0).collect();
        check("auc", auc(x, &outcomes), 0);
        let rows: Vec<[f64; 1]> = x.iter().map(|value| [*value]).collect();
        check("fit_logistic", fit_logistic(&rows, &outcomes, p), 0);
    }

    #[test]
    fn counts(a in any::<u64>(), b in any::<u64>(), c in 0u64..1000, d in 0u64..1000, p in 0.001..0.999f64) {
        for (a, b) in [(a, b), (c, d), (a >> 24, b >> 40)] {
            check("wilson", wilson(a.min(b), b, p), 0);
            check("sign_test", Ok(sign_test(a, b, Alternative::TwoSided)), 0);
            check("pass_at_k", pass_at_k(b.min(5000), a.min(b).min(5000), c), 0);
            check("pass_hat_k", pass_hat_k(b.min(5000), a.min(b).min(5000), c), 0);
            check("discordant", Ok(discordant_evidence(a, b, Alternative::Greater)), 0);
            check("smallest_p", Ok(smallest_p(a, Alternative::TwoSided)), 0);
            let abundance = Abundance { observations: a, kinds: b, singletons: c, doubletons: d };
            check("unseen", unseen_mass(&abundance, p), 1);
            check("chao1", chao1(&abundance, p), 0);
            if let Ok(posterior) = BetaPosterior::uniform(c, d) {
                check("credible", posterior.credible_interval(p), 0);
            }
        }
    }

    #[test]
    fn sequences(values in numbers(0..40), effect in number(), sigma in number()) {
        let settings = SprtSettings { effect, alpha: 0.05, beta: 0.2, sigma: SprtSigma::Known(sigma), minimum_samples: 0 };
        for source in [SprtSigma::Known(sigma), SprtSigma::BurnIn(5)] {
            if let Ok(mut test) = NormalSprt::new(SprtSettings { sigma: source, ..settings }) {
                for &value in &values {
                    check("sprt", test.observe(value), 0);
                    prop_assert!(test.ln_likelihood_ratio().is_none_or(|ratio| !ratio.is_nan()));
                }
            }
        }
        let mut test = BettingTest::new(BettingSettings { low: -2.0, high: 2.0, grid: 10, ..Default::default() }).unwrap();
        for &value in &values {
            let _ = test.observe(value);
            check("betting", Ok(test.interval()), 0);
            check("evidence", Ok(test.evidence(Alternative::TwoSided)), 0);
        }
    }
}
