//! Estimates of unseen claims: Good-Turing and Chao1 over claim clusters. They are reported but never used
//! for the decision, because every undetected paraphrase counts as a claim made once and inflates them.

use super::report::{RoundUnseen, Unseen};
use crate::stats::{Abundance, chao1, unseen_mass};

const CONFIDENCE: f64 = 0.95;
/// Minimum number of claims for an estimate.
const MIN_CLAIMS: u64 = 5;

/// Estimates after a round, from the numbers of sources of the claim clusters.
pub(super) fn after_round(round: u32, abundance: &Abundance) -> RoundUnseen {
    let mut unseen = RoundUnseen {
        round,
        claims: abundance.observations,
        distinct: abundance.kinds,
        unseen_share: None,
        unseen_interval: None,
        total_estimate: None,
        total_interval: None,
        absent_because: None,
    };
    if abundance.observations < MIN_CLAIMS {
        unseen.absent_because = Some(format!("not enough evidence: fewer than {MIN_CLAIMS} claims"));
        return unseen;
    }
    if abundance.singletons == abundance.observations {
        unseen.absent_because = Some("not enough evidence: no claim was made twice".to_owned());
        return unseen;
    }
    if let Ok(mass) = unseen_mass(abundance, CONFIDENCE) {
        unseen.unseen_share = Some(mass.estimate);
        unseen.unseen_interval = mass.interval;
    }
    if let Ok(total) = chao1(abundance, CONFIDENCE) {
        unseen.total_estimate = Some(total.estimate);
        unseen.total_interval = Some(total.interval);
    }
    unseen
}

/// Combines the estimates of all rounds and summarizes the last one.
pub(super) fn summarize(by_round: Vec<RoundUnseen>) -> Unseen {
    let summary = by_round.last().and_then(|last| {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let share = last.unseen_share?;
        let range = last
            .unseen_interval
            .map(|interval| format!(" ({} to {})", percent(interval.low), percent(interval.high)))
            .unwrap_or_default();
        Some(format!(
            "About {}{range} of what this conversation would still bring up is unsaid.",
            percent(share)
        ))
    });
    Unseen { by_round, summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_round(round: u32, counts: &[u64]) -> RoundUnseen {
        super::after_round(round, &Abundance::from_counts(counts.iter().copied()))
    }

    #[test]
    fn too_little_gives_no_number_and_the_reason() {
        assert!(
            after_round(1, &[1, 1])
                .absent_because
                .unwrap()
                .contains("fewer than 5")
        );
        let singles = after_round(1, &[1; 8]);
        assert_eq!(singles.unseen_share, None);
        assert!(singles.absent_because.unwrap().contains("twice"));
    }

    #[test]
    fn good_turing_is_the_share_of_claims_made_once() {
        let unseen = after_round(3, &[5, 3, 2, 1, 1]);
        assert!((unseen.unseen_share.unwrap() - 2.0 / 12.0).abs() < 1e-12);
        let summary = summarize(vec![unseen]).summary.unwrap();
        assert!(summary.starts_with("About 17 % (0 % to "), "{summary}");
    }
}
