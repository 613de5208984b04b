//! Stance detection: whether a claim endorses, modifies or contradicts an earlier one.

use std::cell::LazyCell;

use super::lexicon::{self, Phrases};
use super::novelty::{ClaimLedger, RoundClaims};
use super::profile::AgreementRules;

/// Detects the stance of claims.
#[derive(Debug, Clone)]
pub(super) struct StanceReader {
    endorsing: Phrases,
    modifying: Phrases,
    contradicting: Phrases,
    related: f64,
}

/// Stance of a claim on an earlier one.
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

    /// Share of the round's claims that take a stance on a claim of an earlier round; `None` in the first
    /// round and in rounds without claims.
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
        let earlier = |index: usize| ledger.recorded[index].at < at;
        claims
            .findings
            .iter()
            .map(|finding| {
                // Folding is lazy: most claims either restate one or are similar to none.
                let folded = LazyCell::new(|| lexicon::folded(&ledger.recorded[finding.index].text));
                let says = |phrases: &Phrases| phrases.found_in(&lexicon::words(&folded)).is_some();
                let related = finding
                    .nearest
                    .is_some_and(|near| earlier(near.index) && near.similarity >= self.related);
                match (&finding.differs, finding.restates) {
                    (Some(other), _) if earlier(other.near.index) && other.contradicts => {
                        Some(Stance::Contradicts)
                    }
                    (Some(other), _) if earlier(other.near.index) => Some(Stance::Modifies),
                    (_, Some(near)) if earlier(near.index) => Some(Stance::Endorses),
                    _ if !related => None,
                    _ if says(&self.contradicting) => Some(Stance::Contradicts),
                    _ if says(&self.modifying) => Some(Stance::Modifies),
                    _ if says(&self.endorsing) => Some(Stance::Endorses),
                    // Similar to an earlier claim without restating it.
                    _ => Some(Stance::Modifies),
                }
            })
            .collect()
    }
}
