//! Hash-based assignment of sessions and queries: deterministic across machines and processes, without stored
//! state.

use crate::text::normalize;

/// Arm of an experiment, that is, which of two pipelines answers.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The active pipeline without the feature.
    Control,
    /// The pipeline with the feature.
    Treatment,
}

impl Arm {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Treatment => "treatment",
        }
    }
}

/// Position of an identity in the range from 0 to 100 (exclusive): the first 53 bits of BLAKE3 over purpose,
/// feature and identity, each prefixed by its length. The feature acts as salt, so that assignments to
/// different features are independent; the purpose separates rollout from sampling.
///
/// ```
/// use satiety::experiment::bucket;
/// assert_eq!(bucket("rollout", "rrf", "session:a"), bucket("rollout", "rrf", "session:a"));
/// assert_ne!(bucket("rollout", "rrf", "session:a"), bucket("rollout", "other", "session:a"));
/// ```
pub fn bucket(purpose: &str, feature: &str, identity: &str) -> f64 {
    let mut hasher = blake3::Hasher::new();
    for part in [purpose, feature, identity] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    let bits = u64::from_le_bytes(first) >> 11;
    // A float represents 53 bits exactly, and there are 2^53 positions.
    bits as f64 / 9_007_199_254_740_992.0 * 100.0
}

/// Identity for the assignment: the session, so that one conversation always gets the same pipeline, or the
/// query text without a session.
pub fn identity(session: Option<&str>, query: &str) -> String {
    match session {
        Some(session) => format!("session:{session}"),
        None => format!("query:{}", normalize(query)),
    }
}

/// Assigns an arm. Raising the percentage never removes an identity from the treatment.
pub fn arm(feature: &str, identity: &str, rollout_percent: f64) -> Arm {
    if bucket("rollout", feature, identity) < rollout_percent {
        Arm::Treatment
    } else {
        Arm::Control
    }
}

/// Whether a query is also run with the other pipeline as a shadow run.
pub fn is_shadowed(feature: &str, query_id: &str, shadow_percent: f64) -> bool {
    bucket("shadow", feature, query_id) < shadow_percent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pearson's chi-squared statistic of counts that should be equal.
    fn chi_square(counts: &[u32]) -> f64 {
        let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        let squares = counts.iter().map(|count| (f64::from(*count) - expected).powi(2));
        squares.sum::<f64>() / expected
    }

    /// `scipy.stats.chi2.isf(1e-4, 99)`: 160.06; a fixed input, so that it passes always or never.
    #[test]
    fn buckets_are_uniform() {
        for (purpose, feature) in [("rollout", "rrf"), ("shadow", "rrf"), ("rollout", "no-graph")] {
            let mut counts = [0u32; 100];
            for one in 0..50_000 {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "from 0 to 100"
                )]
                let place = bucket(purpose, feature, &format!("session:{one}")) as usize;
                counts[place] += 1;
            }
            assert!(
                chi_square(&counts) < 160.06,
                "{purpose} {feature}: {}",
                chi_square(&counts)
            );
        }
    }

    /// Deciles of two features, and of rollout and shadow, cross-tabulated: `scipy.stats.chi2.isf(1e-4, 81)` is 136.5
    /// for independence; with known margins the 99 degrees of freedom of a uniform table apply.
    #[test]
    fn features_and_purposes_are_independent() {
        for (one, other) in [
            (("rollout", "a"), ("rollout", "b")),
            (("rollout", "a"), ("shadow", "a")),
        ] {
            let mut counts = [0u32; 100];
            for who in 0..50_000 {
                let who = format!("session:{who}");
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "from 0 to 10"
                )]
                let decile = |(purpose, feature)| (bucket(purpose, feature, &who) / 10.0) as usize;
                counts[10 * decile(one) + decile(other)] += 1;
            }
            assert!(chi_square(&counts) < 160.06, "{}", chi_square(&counts));
        }
    }

    #[test]
    fn a_tenth_is_sampled() {
        let count = (0..20_000)
            .filter(|id| is_shadowed("rrf", &format!("eq-{id}"), 10.0))
            .count();
        // 2,000 ± four standard deviations of a binomial.
        assert!((1830..=2170).contains(&count), "{count}");
    }

    /// Assignments must never change, because stored rows depend on them. Oracle, Python's `blake3` package:
    /// `h = b"".join(len(p).to_bytes(8, "little") + p for p in parts)`, then
    /// `(int.from_bytes(blake3(h).digest()[:8], "little") >> 11) / 2**53 * 100`.
    #[test]
    fn assignments_do_not_change_between_versions() {
        let found = [
            bucket("rollout", "rrf", "session:a"),
            bucket("shadow", "rrf", "eq-1"),
            bucket("rollout", "", ""),
        ];
        for (found, known) in found.into_iter().zip(KNOWN) {
            assert!((found * 1e6 - known).abs() < 1.0, "{found} {known}");
        }
    }

    const KNOWN: [f64; 3] = [27_513_584.0, 82_841_225.0, 89_095_243.0];

    #[test]
    fn queries_of_a_session_share_an_identity() {
        assert_eq!(identity(Some("s"), "one"), identity(Some("s"), "two"));
        assert_eq!(identity(None, "Why  SQLite?"), identity(None, "why sqlite"));
        assert_ne!(identity(Some("why sqlite"), ""), identity(None, "why sqlite"));
    }

    proptest! {
        #[test]
        fn raising_the_rollout_removes_no_identity(who in ".{0,20}", feature in "[a-z]{1,8}", low in 0.0..=100.0f64, more in 0.0..=100.0f64) {
            let high = (low + more).min(100.0);
            if arm(&feature, &who, low) == Arm::Treatment {
                prop_assert_eq!(arm(&feature, &who, high), Arm::Treatment);
            }
            prop_assert_eq!(arm(&feature, &who, 0.0), Arm::Control);
            prop_assert_eq!(arm(&feature, &who, 100.0), Arm::Treatment);
        }

        /// Lengths are part of the hashed input, so that field boundaries cannot be shifted.
        #[test]
        fn hashed_fields_have_boundaries(a in "[ab]{0,4}", b in "[ab]{0,4}", c in "[ab]{1,4}") {
            let (one, other) = (bucket("rollout", &format!("{a}{c}"), &b), bucket("rollout", &a, &format!("{c}{b}")));
            prop_assert!((one - other).abs() > 0.0);
        }
    }
}
