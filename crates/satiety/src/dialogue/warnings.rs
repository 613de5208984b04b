//! Warnings about conversations, each with evidence: the failure modes of seed section 5, loops,
//! contradictions and empty rounds. Copied and alternating rounds also reach the decision rule as facts; the other
//! warnings do not change the signal.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::blockers::BlockerState;
use super::novelty::{ClaimFinding, ClaimLedger, MatchLevel, NearestClaim, RoundClaims};
use super::profile::WarningRules;
use super::questions::QuestionState;
use super::report::{Evidence, Level, Signal, Warning, WarningKind};
use super::wire::Round;
use crate::text::normalize;

/// Input of the checks: the current round and a summary of the earlier ones.
pub(super) struct RoundContext<'a> {
    pub(super) round: &'a Round,
    pub(super) ledger: &'a ClaimLedger,
    pub(super) claims: &'a RoundClaims,
    pub(super) questions: &'a QuestionState,
    pub(super) open_before: usize,
    pub(super) blockers: &'a BlockerState,
    /// Classification of the novelty rate, independent of the decision rule.
    pub(super) novelty: Level,
    pub(super) readiness: Level,
    /// Number of the previous round, if it had HIGH readiness and no open question.
    pub(super) was_ready: Option<u32>,
    /// Whether any earlier round had HIGH readiness.
    pub(super) ever_ready: bool,
    /// Largest number of new claims in any earlier round.
    pub(super) peak: usize,
    pub(super) signal: Signal,
    pub(super) empty: bool,
    /// Footprints of all rounds up to and including this one.
    pub(super) footprints: &'a [Footprint],
    /// Number of the latest earlier round with the same claim clusters.
    pub(super) repeats: Option<u32>,
}

/// Claim clusters and speaker of a round.
#[derive(Debug, Clone)]
pub(super) struct Footprint {
    pub(super) round: u32,
    pub(super) agent: Option<String>,
    pub(super) clusters: BTreeSet<usize>,
}

/// The footprints of all rounds, searchable by claims and clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct Footprints {
    rounds: Vec<Footprint>,
    /// Normal forms of the claims of each round, in their order.
    claims: FxHashSet<Vec<String>>,
    /// Number of the latest round with the same clusters.
    latest: FxHashMap<BTreeSet<usize>, u32>,
}

/// Earlier rounds that a round repeats.
pub(super) struct EarlierRounds {
    /// Whether an earlier round made the same claims word for word and in the same order.
    pub(super) is_copy: bool,
    /// Number of the latest earlier round with the same clusters.
    pub(super) same_clusters: Option<u32>,
}

impl Footprints {
    pub(super) fn rounds(&self) -> &[Footprint] {
        &self.rounds
    }

    /// Records a round and returns the earlier ones that it repeats. A round without claims repeats none.
    pub(super) fn record(
        &mut self,
        round: &Round,
        ledger: &ClaimLedger,
        claims: &RoundClaims,
    ) -> EarlierRounds {
        let recorded = || {
            claims
                .findings
                .iter()
                .map(|finding| &ledger.recorded[finding.index])
        };
        let clusters: BTreeSet<usize> = recorded().map(|claim| claim.cluster).collect();
        let normal: Vec<String> = recorded().map(|claim| normalize(&claim.text)).collect();
        let earlier = EarlierRounds {
            is_copy: !normal.is_empty() && !self.claims.insert(normal),
            same_clusters: (!clusters.is_empty())
                .then(|| self.latest.insert(clusters.clone(), round.round))
                .flatten(),
        };
        self.rounds.push(Footprint {
            round: round.round,
            agent: round.agent.clone(),
            clusters,
        });
        earlier
    }
}

/// Whether the latest four rounds alternate between two sets of claims, each held by the same speaker.
pub(super) fn alternates(footprints: &[Footprint]) -> bool {
    let [.., a, b, c, d] = footprints else {
        return false;
    };
    let same_speakers = a.agent == c.agent && b.agent == d.agent && (a.agent.is_none() || a.agent != b.agent);
    same_speakers
        && !b.clusters.is_empty()
        && !d.clusters.is_empty()
        && a.clusters == c.clusters
        && b.clusters == d.clusters
        && a.clusters != b.clusters
}

/// Returns all warnings about the round, in a fixed order.
pub(super) fn warnings(context: &RoundContext<'_>, rules: &WarningRules) -> Vec<Warning> {
    [
        paraphrase_gaming(context, rules),
        claim_inflation(context, rules),
        fake_readiness(context),
        question_suppression(context),
        blocker_evasion(context),
        stale_readiness(context),
        repeated_round(context),
        alternation(context),
        contradiction(context),
        empty_round(context),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl RoundContext<'_> {
    fn warn(&self, kind: WarningKind, message: String, evidence: Vec<Evidence>) -> Warning {
        Warning {
            kind,
            round: self.round.round,
            message,
            evidence,
        }
    }

    fn pair(&self, finding: &ClaimFinding, near: NearestClaim) -> Evidence {
        let earlier = &self.ledger.recorded[near.index];
        Evidence {
            text: self.ledger.recorded[finding.index].text.clone(),
            against: Some(earlier.text.clone()),
            against_round: self.footprints.get(earlier.at).map(|footprint| footprint.round),
            value: Some(near.similarity),
        }
    }
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<Evidence> {
    texts
        .into_iter()
        .map(|text| Evidence {
            text: text.clone(),
            ..Evidence::default()
        })
        .collect()
}

fn paraphrase_gaming(context: &RoundContext<'_>, rules: &WarningRules) -> Option<Warning> {
    let reworded: Vec<&ClaimFinding> = context
        .claims
        .findings
        .iter()
        .filter(|finding| finding.new_at.0)
        .collect();
    let restated: Vec<Evidence> = reworded
        .iter()
        .filter_map(|finding| finding.restates.map(|near| context.pair(finding, near)))
        .collect();
    let share = restated.len() as f64 / reworded.len().max(1) as f64;
    if restated.len() < rules.paraphrase_minimum || share < rules.paraphrase_share {
        return None;
    }
    let message = format!(
        "{} of {} reworded claims restate earlier ones.",
        restated.len(),
        reworded.len()
    );
    Some(context.warn(WarningKind::ParaphraseGaming, message, restated))
}

/// Seed 5.2: a long round with a share of new claims below the threshold.
fn claim_inflation(context: &RoundContext<'_>, rules: &WarningRules) -> Option<Warning> {
    let findings = &context.claims.findings;
    let new = findings.iter().filter(|finding| finding.is_new()).count();
    let ratio = new as f64 / findings.len().max(1) as f64;
    let same_round =
        |near: &NearestClaim| context.ledger.recorded[near.index].at + 1 == context.footprints.len();
    let padded: Vec<Evidence> = findings
        .iter()
        .filter_map(|finding| {
            finding
                .restates
                .filter(same_round)
                .map(|near| context.pair(finding, near))
        })
        .collect();
    if findings.len() >= rules.inflation_minimum && padded.len() * 2 >= findings.len() {
        let message = format!(
            "{} of {} claims repeat another claim of the same round.",
            padded.len(),
            findings.len()
        );
        return Some(context.warn(WarningKind::ClaimInflation, message, padded));
    }
    if findings.len() < rules.inflation_minimum
        || ratio >= rules.inflation_ratio
        || context.footprints.len() < 2
    {
        return None;
    }
    let evidence = findings
        .iter()
        .filter_map(|finding| finding.restates.map(|near| context.pair(finding, near)))
        .collect();
    let message = format!("Only {new} of {} claims are new in a long round.", findings.len());
    Some(context.warn(WarningKind::ClaimInflation, message, evidence))
}

/// Seed 5.3: a plan appears for the first time in the round that breaks the most new ground.
fn fake_readiness(context: &RoundContext<'_>) -> Option<Warning> {
    let new = context.claims.findings.iter().filter(|finding| finding.is_new());
    let premature = context.footprints.len() > 1
        && context.novelty == Level::High
        && context.readiness == Level::High
        && !context.ever_ready
        && new.count() >= context.peak;
    if !premature || context.signal != Signal::Continue {
        return None;
    }
    let message = "Readiness is high while most claims are still new: the actions may be premature.";
    Some(context.warn(
        WarningKind::FakeReadiness,
        message.to_owned(),
        texts(&context.round.outputs.next_actions),
    ))
}

fn question_suppression(context: &RoundContext<'_>) -> Option<Warning> {
    let questions = context.questions;
    let vanished = context.open_before > 0
        && questions.open.is_empty()
        && !questions.dropped.is_empty()
        && context.claims.findings.iter().any(ClaimFinding::is_new);
    if vanished {
        let message = format!(
            "{} open {} disappeared without an answer in a round with new claims.",
            questions.dropped.len(),
            if questions.dropped.len() == 1 {
                "question"
            } else {
                "questions"
            }
        );
        return Some(context.warn(
            WarningKind::QuestionSuppression,
            message,
            texts(&questions.dropped),
        ));
    }
    if questions.hidden.is_empty() || !questions.open.is_empty() {
        return None;
    }
    let message = "No open question is listed, but some claims are questions.".to_owned();
    Some(context.warn(
        WarningKind::QuestionSuppression,
        message,
        texts(&questions.hidden),
    ))
}

fn blocker_evasion(context: &RoundContext<'_>) -> Option<Warning> {
    if context.blockers.evasions.is_empty() {
        return None;
    }
    let evidence = context
        .blockers
        .evasions
        .iter()
        .map(|blocker| Evidence {
            text: blocker.text.clone(),
            against: Some(blocker.because.clone()),
            against_round: None,
            value: blocker.similarity,
        })
        .collect();
    let message = "Possible blocker that is not stated as one.".to_owned();
    Some(context.warn(WarningKind::BlockerEvasion, message, evidence))
}

/// Seed 5.6: a plan without open questions is followed by new claims and new questions.
fn stale_readiness(context: &RoundContext<'_>) -> Option<Warning> {
    let ready = context.was_ready?;
    let reopens =
        context.readiness != Level::High && context.novelty != Level::Low && context.questions.asked > 0;
    if !reopens {
        return None;
    }
    let new = context.claims.findings.iter().filter(|finding| finding.is_new());
    let evidence = texts(new.map(|finding| &context.ledger.recorded[finding.index].text));
    let message = format!("Round {ready} was ready to act, but this round asks new questions.");
    Some(context.warn(WarningKind::StaleReadiness, message, evidence))
}

fn repeated_round(context: &RoundContext<'_>) -> Option<Warning> {
    let same = context.repeats?;
    let in_words = context
        .claims
        .findings
        .iter()
        .all(|finding| finding.restates.is_some_and(|near| near.level == MatchLevel::L0));
    let how = if in_words {
        "word for word"
    } else {
        "in other words"
    };
    let message = format!("Repeats round {same} {how}.");
    Some(context.warn(
        WarningKind::RepeatedRound,
        message,
        texts(context.round.outputs.claims.iter().map(|claim| &claim.text)),
    ))
}

fn alternation(context: &RoundContext<'_>) -> Option<Warning> {
    let [.., a, b, c, d] = context.footprints else {
        return None;
    };
    if !alternates(context.footprints) {
        return None;
    }
    let who = match (&c.agent, &d.agent) {
        (Some(one), Some(other)) => format!("{one} and {other} alternate"),
        _ => "Two positions alternate".to_owned(),
    };
    let message = format!(
        "{who} with the same claims in rounds {}, {}, {} and {}.",
        a.round, b.round, c.round, d.round
    );
    let evidence = texts(context.round.outputs.claims.iter().map(|claim| &claim.text));
    Some(context.warn(WarningKind::Alternation, message, evidence))
}

fn contradiction(context: &RoundContext<'_>) -> Option<Warning> {
    let evidence: Vec<Evidence> = context
        .claims
        .findings
        .iter()
        .filter_map(|finding| {
            let differing = finding.differs.as_ref()?;
            differing
                .contradicts
                .then(|| context.pair(finding, differing.near))
        })
        .collect();
    if evidence.is_empty() {
        return None;
    }
    let message = format!(
        "{} {} contradicted.",
        evidence.len(),
        if evidence.len() == 1 {
            "earlier claim is"
        } else {
            "earlier claims are"
        }
    );
    Some(context.warn(WarningKind::Contradiction, message, evidence))
}

fn empty_round(context: &RoundContext<'_>) -> Option<Warning> {
    if context.empty {
        Some(context.warn(
            WarningKind::EmptyRound,
            "The round is empty, so there is no evidence either way.".to_owned(),
            Vec::new(),
        ))
    } else if context.claims.findings.is_empty() && context.round.outputs.partings.is_empty() {
        Some(context.warn(
            WarningKind::EmptyRound,
            "The round contains no claims.".to_owned(),
            Vec::new(),
        ))
    } else {
        None
    }
}
