//! Anytime-valid evidence from paired pass/fail results. Concordant pairs carry no information; among the
//! others, wins and losses are equally likely under the null. The e-value is the Krichevsky-Trofimov
//! (Jeffreys) mixture over win rates against a fair coin, so it depends only on the counts.

use super::Evidence;
use crate::stats::distribution::{beta_regularized, ln_beta};
use crate::stats::hypothesis::Alternative;

/// Evidence against "wins and losses are equally likely": `2^{w+l} B(w+½, l+½) / B(½, ½)`; one-sided with the
/// mixture restricted to the better (or worse) half.
///
/// ```
/// use satiety::stats::{Alternative, discordant_evidence};
/// assert!(!discordant_evidence(5, 0, Alternative::TwoSided).rejects(0.05));
/// assert!(discordant_evidence(9, 0, Alternative::TwoSided).rejects(0.05));
/// ```
pub fn discordant_evidence(wins: u64, losses: u64, alternative: Alternative) -> Evidence {
    let (w, l) = (wins as f64, losses as f64);
    let (a, b) = (w + 0.5, l + 0.5);
    let both = (w + l) * std::f64::consts::LN_2 + ln_beta(a, b) - std::f64::consts::PI.ln();
    // The prior puts half of its weight on either side, hence the factor two.
    let side = |p: f64| both + (2.0 * p).ln();
    let ln_e = match alternative {
        Alternative::TwoSided => both,
        Alternative::Greater => side(beta_regularized(b, a, 0.5, 0.5)),
        Alternative::Less => side(beta_regularized(a, b, 0.5, 0.5)),
    };
    // A side whose posterior underflowed counts as refuted.
    Evidence { ln_e: ln_e.max(-1e6) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::assert_close;

    // Oracle: `python perf/peers/stats_oracle.py sequential` (mpmath).
    #[test]
    fn evidence_agrees_with_mpmath() {
        for (wins, losses, two_sided, greater) in [
            (5, 0, 2.063693184711697, 2.749944338935972),
            (9, 0, 4.553465622830607, 5.246274864657659),
            (12, 5, -0.1741397869120568, 0.4747624781166814),
            (3, 3, -1.1631508098056809, -1.1631508098056809),
            (40, 22, 0.35726750085137676, 1.0396141219815596),
            (1, 30, 15.083298104727756, -3.853791390943601),
            (120, 80, 1.1508679584975112, 1.841734094395604),
        ] {
            assert_close(
                discordant_evidence(wins, losses, Alternative::TwoSided).ln_e,
                two_sided,
                1e-11,
            );
            assert_close(
                discordant_evidence(wins, losses, Alternative::Greater).ln_e,
                greater,
                1e-11,
            );
        }
    }

    #[test]
    fn without_pairs_there_is_no_evidence() {
        for alternative in [Alternative::TwoSided, Alternative::Greater, Alternative::Less] {
            assert_close(discordant_evidence(0, 0, alternative).ln_e, 0.0, 1e-14);
        }
        assert!(
            discordant_evidence(0, 1_000_000, Alternative::Greater)
                .ln_e
                .is_finite()
        );
    }

    proptest! {
        // Martingale: the expected wealth after the next fair toss equals the current wealth.
        #[test]
        fn evidence_is_a_martingale(wins in 0u64..300, losses in 0u64..300) {
            for alternative in [Alternative::TwoSided, Alternative::Greater, Alternative::Less] {
                let now = discordant_evidence(wins, losses, alternative).ln_e;
                let won = discordant_evidence(wins + 1, losses, alternative).ln_e;
                let lost = discordant_evidence(wins, losses + 1, alternative).ln_e;
                assert_close(f64::midpoint((won - now).exp(), (lost - now).exp()), 1.0, 1e-9);
            }
        }

        #[test]
        fn swapping_mirrors(wins in 0u64..300, losses in 0u64..300) {
            let forward = discordant_evidence(wins, losses, Alternative::Greater).ln_e;
            assert_close(forward, discordant_evidence(losses, wins, Alternative::Less).ln_e, 1e-12);
        }
    }
}
