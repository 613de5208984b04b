//! Anytime-valid evidence from paired pass/fail results. Pairs with the same result say nothing; of the others, wins
//! and losses are equally likely under the null. The e-value is the Krichevsky-Trofimov (Jeffreys) mixture over win
//! rates against a fair coin, so it depends on the counts alone.

use super::Evidence;
use crate::stats::distribution::{beta_regularized, ln_beta, solve_decreasing};
use crate::stats::error::{Result, check_open_unit};
use crate::stats::hypothesis::Alternative;
use crate::stats::interval::Interval;

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
    // A side whose posterior vanished below the smallest float is as good as refuted.
    Evidence { ln_e: ln_e.max(-1e6) }
}

/// The win rates among discordant pairs that are not refuted at level `alpha`, at all times at once.
pub fn win_rate_sequence(wins: u64, losses: u64, alpha: f64) -> Result<Interval> {
    check_open_unit("alpha", alpha)?;
    let (w, l) = (wins as f64, losses as f64);
    let ln_mixture = ln_beta(w + 0.5, l + 0.5) - std::f64::consts::PI.ln();
    let term = |count: f64, rate: f64| if count > 0.0 { count * rate.ln() } else { 0.0 };
    // How much of the limit is left at a rate; largest at the observed rate, falling to either side.
    let slack = |rate: f64| -alpha.ln() - ln_mixture + term(w, rate) + term(l, 1.0 - rate);
    let observed = if w + l > 0.0 { w / (w + l) } else { 0.5 };
    let low = if wins == 0 {
        0.0
    } else {
        solve_decreasing(|rate| -slack(rate), 0.0, observed)
    };
    let high = if losses == 0 {
        1.0
    } else {
        solve_decreasing(slack, observed, 1.0)
    };
    Ok(Interval {
        low,
        high,
        confidence: 1.0 - alpha,
    })
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
    fn win_rates_agree_with_mpmath() {
        for (wins, losses, low, high) in [
            (5, 3, 0.16364900533090626, 0.9558503033564295),
            (9, 0, 0.5944814908542314, 1.0),
            (40, 22, 0.4396446665696775, 0.8193166688407874),
            (120, 80, 0.47913083634285003, 0.7131772265216039),
        ] {
            let interval = win_rate_sequence(wins, losses, 0.05).unwrap();
            assert_close(interval.low, low, 1e-10);
            assert_close(interval.high, high, 1e-10);
        }
    }

    #[test]
    fn no_pairs_no_evidence() {
        for alternative in [Alternative::TwoSided, Alternative::Greater, Alternative::Less] {
            assert_close(discordant_evidence(0, 0, alternative).ln_e, 0.0, 1e-14);
        }
        let interval = win_rate_sequence(0, 0, 0.05).unwrap();
        assert_eq!((interval.low, interval.high), (0.0, 1.0));
        assert!(win_rate_sequence(1, 1, 0.0).is_err());
        assert!(
            discordant_evidence(0, 1_000_000, Alternative::Greater)
                .ln_e
                .is_finite()
        );
    }

    proptest! {
        // A fair gamble: the expected wealth after the next fair toss is the wealth now.
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
            let (here, there) = (win_rate_sequence(wins, losses, 0.1).unwrap(), win_rate_sequence(losses, wins, 0.1).unwrap());
            assert_close(here.low, 1.0 - there.high, 1e-9);
            let evidence = discordant_evidence(wins, losses, Alternative::TwoSided).ln_e;
            let limit = -0.1f64.ln();
            if (evidence - limit).abs() > 1e-9 {
                prop_assert_eq!(evidence < limit, here.contains(0.5));
            }
        }
    }
}
