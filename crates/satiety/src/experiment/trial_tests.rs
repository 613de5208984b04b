//! Properties of a trial: correct, final and anytime-valid decisions, and resuming from JSON.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn pair(control: f64, treatment: f64) -> Observation {
    let outcome = |mrr| Outcome { mrr, ndcg: mrr };
    Observation {
        control: outcome(control),
        treatment: outcome(treatment),
    }
}

fn settings(method: Method, min_samples: u64) -> TrialSettings {
    TrialSettings {
        method,
        min_samples,
        ..TrialSettings::default()
    }
}

/// A reciprocal rank among five, or zero.
fn reciprocal(random: &mut ChaCha8Rng, found: f64) -> f64 {
    if random.random_bool(found) {
        1.0 / f64::from(random.random_range(1..=5u32))
    } else {
        0.0
    }
}

#[test]
fn a_better_treatment_is_accepted_and_a_worse_one_rejected() {
    for method in [Method::Betting, Method::Sprt] {
        for (control, treatment, expected) in [
            (0.5, 1.0, Decision::AcceptTreatment),
            (1.0, 0.5, Decision::AcceptControl),
        ] {
            let mut trial = Trial::new(settings(method, 30)).unwrap();
            let mut count = 0;
            // Wald's test requires some variance to estimate.
            while trial.decision() == Decision::Continue && count < 500 {
                let same = count % 3 == 0;
                trial
                    .observe(if same {
                        pair(0.5, 0.5)
                    } else {
                        pair(control, treatment)
                    })
                    .unwrap();
                count += 1;
            }
            assert_eq!(trial.decision(), expected, "{method:?}");
            assert!(trial.samples() >= 30);
            let standing = trial.standing();
            let evidence = standing.log_likelihood_ratio.unwrap();
            assert!(evidence >= standing.upper_bound || evidence <= standing.lower_bound);
            // A decision is final: further observations do not count.
            let before = trial.clone();
            assert!(!trial.observe(pair(treatment, control)).unwrap());
            assert_eq!(trial, before);
        }
    }
}

#[test]
fn identical_arms_stay_undecided() {
    for method in [Method::Betting, Method::Sprt] {
        let mut trial = Trial::new(settings(method, 10)).unwrap();
        for at in 0..3000 {
            let same = 1.0 / f64::from(1 + at % 5);
            trial.observe(pair(same, same)).unwrap();
        }
        assert_eq!((trial.decision(), trial.samples()), (Decision::Continue, 3000));
        assert_eq!(trial.standing().mrr_delta, Some(0.0));
    }
}

#[test]
fn no_decision_before_minimum_samples() {
    for method in [Method::Betting, Method::Sprt] {
        let mut trial = Trial::new(settings(method, 80)).unwrap();
        for at in 0..79 {
            trial
                .observe(pair(0.0, if at % 2 == 0 { 1.0 } else { 0.5 }))
                .unwrap();
            assert_eq!(trial.decision(), Decision::Continue);
        }
        trial.observe(pair(0.0, 1.0)).unwrap();
        assert_eq!(trial.decision(), Decision::AcceptTreatment, "{method:?}");
    }
}

#[test]
fn out_of_range_observations_change_nothing() {
    let mut trial = Trial::new(settings(Method::Betting, 10)).unwrap();
    trial.observe(pair(0.5, 1.0)).unwrap();
    let before = trial.clone();
    for bad in [f64::NAN, 7.0] {
        assert!(trial.observe(pair(0.5, bad)).is_err());
        assert_eq!(trial, before);
    }
}

/// Arms with equal expectation, evaluated after every query: any decision is an error. 600 runs of up to 400
/// queries; with probability .05 at most, 43 is beyond the 99th percentile of a binomial
/// (`scipy.stats.binom.ppf(.99, 600, .05)`: 43). studies/src/bin/ab.rs runs thousands.
#[test]
fn peeking_at_equal_arms_keeps_the_error_rate() {
    for (method, wrong) in [
        (
            Method::Betting,
            &[Decision::AcceptTreatment, Decision::AcceptControl][..],
        ),
        (Method::Sprt, &[Decision::AcceptTreatment]),
    ] {
        let mut errors = 0;
        for run in 0..600 {
            let mut random = ChaCha8Rng::seed_from_u64(run);
            let mut trial = Trial::new(settings(method, 20)).unwrap();
            for _ in 0..400 {
                let observation = pair(reciprocal(&mut random, 0.8), reciprocal(&mut random, 0.8));
                trial.observe(observation).unwrap();
            }
            errors += u32::from(wrong.contains(&trial.decision()));
        }
        assert!(errors <= 43, "{method:?}: {errors} of 600");
    }
}

/// The same simulation with a real effect: it must be detected, or the test above would pass for a trial that
/// never decides.
#[test]
fn a_real_difference_is_detected() {
    for method in [Method::Betting, Method::Sprt] {
        let mut found = 0;
        for run in 0..100 {
            let mut random = ChaCha8Rng::seed_from_u64(run);
            let mut trial = Trial::new(settings(method, 20)).unwrap();
            for _ in 0..600 {
                let observation = pair(reciprocal(&mut random, 0.6), reciprocal(&mut random, 0.9));
                trial.observe(observation).unwrap();
            }
            found += u32::from(trial.decision() == Decision::AcceptTreatment);
        }
        assert!(found >= 90, "{method:?}: {found} of 100");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A trial stored as JSON between any two observations continues bit-identically.
    #[test]
    fn a_stored_trial_resumes_identically(seed in any::<u64>(), sprt in any::<bool>(), gaps in proptest::collection::vec(any::<bool>(), 60)) {
        let method = if sprt { Method::Sprt } else { Method::Betting };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut here = Trial::new(settings(method, 10)).unwrap();
        let mut there = here.clone();
        for gap in gaps {
            let observation = pair(reciprocal(&mut random, 0.6), reciprocal(&mut random, 0.8));
            here.observe(observation).unwrap();
            there.observe(observation).unwrap();
            if gap {
                there = serde_json::from_str(&serde_json::to_string(&there).unwrap()).unwrap();
            }
        }
        prop_assert_eq!(here, there);
    }
}
