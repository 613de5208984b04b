//! Anytime-valid evidence that a rate is small: tests "the rate is at least `bound`" against a mixture of all
//! smaller rates (Jeffreys' prior truncated at the bound). The e-value depends only on the counts.

use super::Evidence;
use crate::stats::distribution::{beta_regularized, ln_beta};
use crate::stats::error::{Result, StatsError, check_open_unit};

/// Evidence against "events happen at a rate of at least `bound`" from `events` in `trials`: `B(k+½, m−k+½)
/// I_f(k+½, m−k+½) / (B(½, ½) I_f(½, ½) f^k (1−f)^(m−k))`.
///
/// The likelihood ratio of each smaller rate falls in the true rate, so it is a fair or losing bet under
/// every rate at or above the bound; without the truncation, a rate *above* the bound would also count as
/// evidence. It is linear in each result, hence (arithmetic and geometric mean) also fair for a batch of
/// trials with different rates whose *mean* is the bound, if it is checked only after whole batches.
///
/// ```
/// use satiety::stats::sequential::rate_below_evidence;
/// assert!(rate_below_evidence(0, 100, 0.05)?.rejects(0.05));
/// assert!(!rate_below_evidence(4, 100, 0.05)?.rejects(0.05));
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn rate_below_evidence(events: u64, trials: u64, bound: f64) -> Result<Evidence> {
    check_open_unit("bound", bound)?;
    let Some(others) = trials.checked_sub(events) else {
        return Err(StatsError::OutOfRange {
            what: "events",
            value: events as f64,
            range: "at most the number of trials",
        });
    };
    let (k, rest) = (events as f64, others as f64);
    // Logarithm of the mixture's weight below the bound.
    let below = |a: f64, b: f64| ln_beta(a, b) + beta_regularized(a, b, bound, 1.0 - bound).ln();
    let ln_e = below(k + 0.5, rest + 0.5) - below(0.5, 0.5) - k * bound.ln() - rest * (-bound).ln_1p();
    // A posterior that underflowed counts as refuted.
    Ok(Evidence { ln_e: ln_e.max(-1e6) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::assert_close;

    // Oracle, scipy 1.17.1, a, b = k + .5, m − k + .5:
    // `betaln(a, b) + log(betainc(a, b, f)) - betaln(.5, .5) - log(betainc(.5, .5, f)) - k*log(f) - (m-k)*log(1-f)`.
    #[test]
    fn evidence_agrees_with_scipy() {
        for (events, trials, bound, expected) in [
            (0, 100, 0.05, 4.192745322659149),
            (0, 200, 0.05, 8.9774627989947),
            (4, 100, 0.05, -0.9083630181267743),
            (5, 100, 0.05, -1.3479675022599533),
            (12, 100, 0.05, -2.8026422341189745),
            (8, 400, 0.05, 3.5700523836170106),
            (3, 1000, 0.005, -0.3322447976302412),
            (0, 20, 0.25, 4.775132958188963),
            (1, 1, 0.05, -1.0918050706752314),
            (0, 1, 0.05, 0.03437039920380734),
        ] {
            let found = rate_below_evidence(events, trials, bound).unwrap();
            assert_close(found.ln_e, expected, 1e-11);
        }
    }

    #[test]
    fn invalid_input_is_rejected_and_large_input_stays_finite() {
        assert!(rate_below_evidence(2, 1, 0.05).is_err());
        for bound in [0.0, 1.0, f64::NAN] {
            assert!(rate_below_evidence(0, 1, bound).is_err());
        }
        assert_close(rate_below_evidence(0, 0, 0.05).unwrap().ln_e, 0.0, 1e-12);
        let refuted = rate_below_evidence(900_000, 1_000_000, 0.05).unwrap();
        assert!(refuted.ln_e.is_finite() && refuted.ln_e < 0.0);
    }

    proptest! {
        // At the bound the expected wealth after the next trial equals the current wealth; at larger rates it
        // is less.
        #[test]
        fn a_fair_bet_at_the_bound_and_a_losing_one_above(
            events in 0u64..40,
            others in 0u64..400,
            bound in 0.01f64..0.5,
            more in 0.0f64..0.5,
        ) {
            let ln = |events, trials| rate_below_evidence(events, trials, bound).unwrap().ln_e;
            let trials = events + others;
            let now = ln(events, trials);
            let (hit, miss) = ((ln(events + 1, trials + 1) - now).exp(), (ln(events, trials + 1) - now).exp());
            assert_close(bound * hit + (1.0 - bound) * miss, 1.0, 1e-7);
            let rate = bound + more;
            prop_assert!(rate * hit + (1.0 - rate) * miss <= 1.0 + 1e-7);
        }
    }
}
