//! A fit learns a preference, and never ships what does not help on unseen sessions.

use super::super::super::features::Term;
use super::super::super::simulation::{
    Agent, Budget, GeneratorSettings, LearningSettings, ReplayOptions, gather, generate,
};
use super::*;

fn labels(agent: Agent, proposals: usize) -> Vec<Label> {
    let sessions = generate(&GeneratorSettings {
        sessions: 12,
        turns: 150,
        seed: 3,
        ..GeneratorSettings::default()
    })
    .unwrap();
    let replay = ReplayOptions {
        budget: Budget::Tokens(12_000),
        agent: Some(agent),
        exploration: 0.05,
        ..ReplayOptions::default()
    };
    let settings = LearningSettings {
        replay,
        proposals: Some(proposals),
    };
    gather(&sessions, &Weights::heuristic(), &settings).unwrap()
}

#[test]
fn a_taste_is_learned_and_noise_is_not() {
    let taste = Weights::from_toml(
        "version = 't'\n[terms]\nbias = -0.5\nrecency = 0.3\nsize = -0.3\n[zones]\nmemory = { offset = 3.0 }\nchronicle = { offset = 2.0 }\n[kinds]\nfile = 1.0",
    )
    .unwrap();
    let learned = fit(
        &labels(
            Agent::Taste {
                weights: Box::new(taste),
                error: 0.05,
            },
            1200,
        ),
        &Weights::heuristic(),
        "w",
        &FitSettings::default(),
    )
    .unwrap();
    assert!(
        learned.gain.shown && learned.after.auc > learned.before.auc + 0.1,
        "{:?}",
        learned.gain
    );
    assert_eq!(learned.weights.version, "w");
    assert!(learned.weights.check().is_ok());
    let noise = fit(
        &labels(Agent::Noise { rate: 0.2 }, 150),
        &Weights::heuristic(),
        "n",
        &FitSettings::default(),
    )
    .unwrap();
    assert!(!noise.gain.shown && noise.after.auc < 0.6, "{:?}", noise.gain);
}

#[test]
fn too_few_labels_are_rejected() {
    let few = labels(Agent::Noise { rate: 0.2 }, 3);
    assert!(matches!(
        fit(&few, &Weights::heuristic(), "w", &FitSettings::default()),
        Err(EvictionError::Fit(StatsError::TooFew { needed: 5, got: 3 }))
    ));
    let never = labels(Agent::Noise { rate: 0.0 }, 20);
    assert!(fit(&never, &Weights::heuristic(), "w", &FitSettings::default()).is_err());
}

/// Labels whose outcome follows `intercept + slope·z + effect·recency` of the heuristic's log-odds `z`.
fn drawn(intercept: f64, slope: f64, effect: f64, sessions: usize) -> Vec<Label> {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let mut uniform = move || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut all = Vec::new();
    for session in 0..sessions {
        for number in 0..40 {
            let mut label = super::super::report::tests::label(session, number, "workspace", 3, 0.5, false);
            label.scope_id = format!("s{session}");
            label.features[Term::Recency as usize] = 4.0 * uniform();
            label.features[Term::Frequency as usize] = 2.0 * uniform();
            let z = 0.8 - 1.4 * label.features[Term::Recency as usize]
                + 0.6 * label.features[Term::Frequency as usize];
            let odds = intercept + slope * z + effect * label.features[Term::Frequency as usize];
            label.kept_back = uniform() < sigmoid(odds);
            all.push(label);
        }
    }
    all
}

#[test]
fn rescaling_is_free_and_features_ship_only_if_they_help() {
    let fitted = |labels: &[Label]| fit(labels, &Weights::heuristic(), "w", &FitSettings::default()).unwrap();
    let scaled = fitted(&drawn(-1.5, 0.5, 0.0, 60));
    assert_eq!(scaled.model, FittedModel::Rescaled);
    assert!(
        (scaled.slope - 0.5).abs() < 0.1 && (scaled.intercept + 1.5).abs() < 0.2,
        "{scaled:?}"
    );
    assert!(scaled.rescaling.shown && scaled.is_better());
    // Every weight is multiplied, those of zones without labels, too.
    let old = Weights::heuristic();
    assert!((scaled.weights.zone("memory").offset - scaled.slope * old.zone("memory").offset).abs() < 1e-12);
    assert!((scaled.weights.term("recency") - scaled.slope * old.term("recency")).abs() < 1e-9);
    let expected = scaled.intercept + scaled.slope * old.term("bias");
    assert!((scaled.weights.term("bias") - expected).abs() < 1e-9);
    let more = fitted(&drawn(-1.5, 0.5, 1.5, 60));
    assert_eq!(more.model, FittedModel::Features);
    assert!(more.features.log_loss < more.rescaled.log_loss);
    assert!(
        (more.weights.term("frequency") - (0.5 * 0.6 + 1.5)).abs() < 0.35,
        "{more:?}"
    );
}

// Oracle: `python perf/peers/eviction_oracle.py` (scikit-learn, no penalty): the same rows, importance and outcomes.
#[test]
fn rescaling_agrees_with_scikit_learn() {
    let mut labels = Vec::new();
    for number in 0..60_u32 {
        let mut label = super::super::report::tests::label(number as usize, 0, "workspace", 3, 0.5, false);
        label.scope_id = format!("s{number}");
        label.features[Term::Recency as usize] = f64::from(number % 7) * 0.5;
        label.features[Term::Frequency as usize] = f64::from(number % 5) * 0.4;
        label.propensity = if number % 4 == 0 { 0.5 } else { 1.0 };
        label.kept_back = (number * 7 + number / 3) % 3 == 0;
        labels.push(label);
    }
    let found = fit(&labels, &Weights::heuristic(), "w", &FitSettings::default()).unwrap();
    assert_eq!(found.model, FittedModel::Rescaled);
    assert!((found.intercept - ORACLE.0).abs() < 1e-6, "{}", found.intercept);
    assert!((found.slope - ORACLE.1).abs() < 1e-6, "{}", found.slope);
}

const ORACLE: (f64, f64) = (-0.6550043399574762, 0.05316322666854706);

/// Labels of sessions in which a feature helps, and of others in which it misleads by more.
fn conflicting(helped: usize, misled: usize) -> Vec<Label> {
    let mut labels = drawn(-1.0, 0.5, 1.2, helped);
    for mut label in drawn(-1.0, 0.5, -2.4, misled) {
        label.scope_id = format!("misled-{}", label.scope_id);
        label.proposal_id = format!("misled-{}", label.proposal_id);
        labels.push(label);
    }
    labels
}

/// A gain that a few sessions decide is not a gain on the next sessions: its interval may be above zero, its risk is not.
#[test]
fn a_gain_that_depends_on_the_sample_of_sessions_does_not_ship() {
    let fitted = |labels: &[Label]| fit(labels, &Weights::heuristic(), "w", &FitSettings::default()).unwrap();
    let mixed = fitted(&conflicting(12, 4));
    assert_eq!(mixed.model, FittedModel::Rescaled, "{:?}", mixed.gain);
    assert!(mixed.gain.risk >= MAX_RISK && !mixed.gain.shown);
    // What ships is exactly the rescaled score.
    let rescaled = rescale(
        &conflicting(12, 4),
        &Weights::heuristic(),
        "w",
        &FitSettings::default(),
    )
    .unwrap();
    let mut shipped = mixed.weights;
    shipped.floor = rescaled.floor;
    assert_eq!(shipped, rescaled);
    let helped = fitted(&conflicting(60, 0));
    assert!(
        helped.gain.risk < MAX_RISK && helped.model == FittedModel::Features,
        "{:?}",
        helped.gain
    );
}

#[test]
fn risk_is_that_of_another_sample_of_the_same_size() {
    let groups: Vec<usize> = (0..40).collect();
    let gains: Vec<f64> = groups
        .iter()
        .map(|number| if number % 2 == 0 { 1.1 } else { -0.9 })
        .collect();
    // Mean 0.1, standard error 0.1601: a difference of two such means has 0.2265.
    let found = risk(&gains, &groups).unwrap();
    assert!(
        (found - student_sf(0.1 / 0.226_455_406, 39.0)).abs() < 1e-6,
        "{found}"
    );
    assert!(risk(&vec![0.5; 40], &groups).unwrap() <= 0.0);
    assert!(risk(&vec![0.0; 40], &groups).unwrap() >= 1.0);
}
