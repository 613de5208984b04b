//! How the claims of a round stand to those before: does a claim endorse, modify or contradict an earlier one?

use std::cell::LazyCell;

use super::lexicon::{self, Phrases};
use super::novelty::{ClaimLedger, RoundClaims};
use super::profile::AgreementRules;

/// Finds the stance of claims.
#[derive(Debug, Clone)]
pub(super) struct StanceReader {
    endorsing: Phrases,
    modifying: Phrases,
    contradicting: Phrases,
    related: f64,
}

/// How a claim stands to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stance {
    Endorses,
    Modifies,
    Contradicts,
}

impl StanceReader {
    pub(super) fn new(rules: &AgreementRules) -> Self {
        Self {
            endorsing: Phrases::new(&rules.endorsing),
            modifying: Phrases::new(&rules.modifying),
            contradicting: Phrases::new(&rules.contradicting),
            related: rules.related_similarity,
        }
    }

    /// The share of the round's claims that take a stance on a claim of an earlier round; none in the first round or
    /// without claims.
    pub(super) fn structural_agreement(
        &self,
        ledger: &ClaimLedger,
        claims: &RoundClaims,
        at: usize,
    ) -> Option<f64> {
        if at == 0 || claims.findings.is_empty() {
            return None;
        }
        let stances = self.stances(ledger, claims, at).iter().flatten().count();
        Some(stances as f64 / claims.findings.len() as f64)
    }

    pub(super) fn stances(
        &self,
        ledger: &ClaimLedger,
        claims: &RoundClaims,
        at: usize,
    ) -> Vec<Option<Stance>> {
        let earlier = |said: usize| ledger.said[said].at < at;
        claims
            .findings
            .iter()
            .map(|finding| {
                // Most claims need no reading: they restate, or are near nothing.
                let folded = LazyCell::new(|| lexicon::folded(&ledger.said[finding.said].text));
                let says = |phrases: &Phrases| phrases.found_in(&lexicon::words(&folded)).is_some();
                let related = finding
                    .nearest
                    .is_some_and(|near| earlier(near.said) && near.similarity >= self.related);
                match (&finding.differs, finding.restates) {
                    (Some(other), _) if earlier(other.near.said) && other.contradicts => {
                        Some(Stance::Contradicts)
                    }
                    (Some(other), _) if earlier(other.near.said) => Some(Stance::Modifies),
                    (_, Some(near)) if earlier(near.said) => Some(Stance::Endorses),
                    _ if !related => None,
                    _ if says(&self.contradicting) => Some(Stance::Contradicts),
                    _ if says(&self.modifying) => Some(Stance::Modifies),
                    _ if says(&self.endorsing) => Some(Stance::Endorses),
                    // Near an earlier claim and not the same: it adds to it.
                    _ => Some(Stance::Modifies),
                }
            })
            .collect()
    }
}
