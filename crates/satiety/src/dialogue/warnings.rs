//! What looks wrong in a conversation, each with the texts that show it: the failure modes of seed section 5, loops,
//! contradictions and empty rounds. Warnings never change the signal.

use std::collections::BTreeSet;

use super::blockers::BlockerState;
use super::novelty::{ClaimFinding, ClaimLedger, MatchLevel, NearestClaim, RoundClaims};
use super::profile::WarningRules;
use super::questions::QuestionState;
use super::report::{Evidence, Level, Signal, Warning, WarningKind};
use super::wire::Round;

/// What the checks look at: the round just judged and a few things about those before.
pub(super) struct Seen<'a> {
    pub(super) round: &'a Round,
    pub(super) ledger: &'a ClaimLedger,
    pub(super) claims: &'a RoundClaims,
    pub(super) questions: &'a QuestionState,
    pub(super) open_before: usize,
    pub(super) blockers: &'a BlockerState,
    /// By rate alone, whatever the profile's rule makes of it.
    pub(super) novelty: Level,
    pub(super) readiness: Level,
    /// Number of the latest earlier round with HIGH readiness or a SHIP, if it was not this one.
    pub(super) was_ready: Option<u32>,
    pub(super) signal: Signal,
    pub(super) empty: bool,
    /// Clusters and speaker of every round up to this one.
    pub(super) course: &'a [Footprint],
}

/// What a round said, reduced to clusters, and who said it.
#[derive(Debug, Clone)]
pub(super) struct Footprint {
    pub(super) round: u32,
    pub(super) agent: Option<String>,
    pub(super) clusters: BTreeSet<usize>,
}

/// All warnings that the round gives rise to, in a fixed order.
pub(super) fn warnings(seen: &Seen<'_>, rules: &WarningRules) -> Vec<Warning> {
    [
        paraphrase_gaming(seen, rules),
        claim_inflation(seen, rules),
        fake_readiness(seen),
        question_suppression(seen),
        blocker_evasion(seen),
        stale_readiness(seen),
        repeated_round(seen),
        alternation(seen),
        contradiction(seen),
        empty_round(seen),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Seen<'_> {
    fn warn(&self, kind: WarningKind, message: String, evidence: Vec<Evidence>) -> Warning {
        Warning {
            kind,
            round: self.round.round,
            message,
            evidence,
        }
    }

    fn pair(&self, finding: &ClaimFinding, near: NearestClaim) -> Evidence {
        let earlier = &self.ledger.said[near.said];
        Evidence {
            text: self.ledger.said[finding.said].text.clone(),
            against: Some(earlier.text.clone()),
            against_round: self.course.get(earlier.at).map(|footprint| footprint.round),
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

fn paraphrase_gaming(seen: &Seen<'_>, rules: &WarningRules) -> Option<Warning> {
    let reworded: Vec<&ClaimFinding> = seen
        .claims
        .findings
        .iter()
        .filter(|finding| finding.new_at.0)
        .collect();
    let restated: Vec<Evidence> = reworded
        .iter()
        .filter_map(|finding| finding.restates.map(|near| seen.pair(finding, near)))
        .collect();
    let share = restated.len() as f64 / reworded.len().max(1) as f64;
    if restated.len() < rules.paraphrase_minimum || share < rules.paraphrase_share {
        return None;
    }
    let message = format!(
        "{} of {} claims in new words say what was said before.",
        restated.len(),
        reworded.len()
    );
    Some(seen.warn(WarningKind::ParaphraseGaming, message, restated))
}

/// Seed 5.2: new over all claims below the ratio while the round stays long.
fn claim_inflation(seen: &Seen<'_>, rules: &WarningRules) -> Option<Warning> {
    let findings = &seen.claims.findings;
    let new = findings.iter().filter(|finding| finding.is_new()).count();
    let ratio = new as f64 / findings.len().max(1) as f64;
    let same_round = |near: &NearestClaim| seen.ledger.said[near.said].at + 1 == seen.course.len();
    let padded: Vec<Evidence> = findings
        .iter()
        .filter_map(|finding| {
            finding
                .restates
                .filter(same_round)
                .map(|near| seen.pair(finding, near))
        })
        .collect();
    if findings.len() >= rules.inflation_minimum && padded.len() * 2 >= findings.len() {
        let message = format!(
            "{} of the round's {} claims repeat another one of it.",
            padded.len(),
            findings.len()
        );
        return Some(seen.warn(WarningKind::ClaimInflation, message, padded));
    }
    if findings.len() < rules.inflation_minimum || ratio >= rules.inflation_ratio || seen.course.len() < 2 {
        return None;
    }
    let evidence = findings
        .iter()
        .filter_map(|finding| finding.restates.map(|near| seen.pair(finding, near)))
        .collect();
    let message = format!(
        "{} claims, of which {new} new: the list is long, what it adds is not.",
        findings.len()
    );
    Some(seen.warn(WarningKind::ClaimInflation, message, evidence))
}

fn fake_readiness(seen: &Seen<'_>) -> Option<Warning> {
    let premature = seen.course.len() > 1 && seen.novelty == Level::High && seen.readiness == Level::High;
    if !premature || seen.signal != Signal::Continue {
        return None;
    }
    let message =
        "Ready to act by its list of actions while most claims are still new: the actions may be premature.";
    Some(seen.warn(
        WarningKind::FakeReadiness,
        message.to_owned(),
        texts(&seen.round.outputs.next_actions),
    ))
}

fn question_suppression(seen: &Seen<'_>) -> Option<Warning> {
    let questions = seen.questions;
    let vanished = seen.open_before > 0
        && questions.open.is_empty()
        && !questions.dropped.is_empty()
        && seen.claims.findings.iter().any(ClaimFinding::is_new);
    if vanished {
        let message = format!(
            "{} open {} vanished unanswered in a round with new claims.",
            questions.dropped.len(),
            if questions.dropped.len() == 1 {
                "question"
            } else {
                "questions"
            }
        );
        return Some(seen.warn(
            WarningKind::QuestionSuppression,
            message,
            texts(&questions.dropped),
        ));
    }
    if questions.hidden.is_empty() || !questions.open.is_empty() {
        return None;
    }
    let message = "No question is listed as open, but there are questions among the claims.".to_owned();
    Some(seen.warn(
        WarningKind::QuestionSuppression,
        message,
        texts(&questions.hidden),
    ))
}

fn blocker_evasion(seen: &Seen<'_>) -> Option<Warning> {
    if seen.blockers.evasions.is_empty() {
        return None;
    }
    let evidence = seen
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
    let message = "Sounds like a blocker that nobody calls one.".to_owned();
    Some(seen.warn(WarningKind::BlockerEvasion, message, evidence))
}

fn stale_readiness(seen: &Seen<'_>) -> Option<Warning> {
    let ready = seen.was_ready?;
    if seen.readiness == Level::High || seen.novelty == Level::Low || seen.empty {
        return None;
    }
    let new = seen.claims.findings.iter().filter(|finding| finding.is_new());
    let evidence = texts(new.map(|finding| &seen.ledger.said[finding.said].text));
    let message = format!("Round {ready} was ready to act; the conversation has since gone elsewhere.");
    Some(seen.warn(WarningKind::StaleReadiness, message, evidence))
}

fn repeated_round(seen: &Seen<'_>) -> Option<Warning> {
    let (now, before) = seen.course.split_last()?;
    if now.clusters.is_empty() {
        return None;
    }
    let same = before
        .iter()
        .rev()
        .find(|earlier| earlier.clusters == now.clusters)?;
    let in_words = seen
        .claims
        .findings
        .iter()
        .all(|finding| finding.restates.is_some_and(|near| near.level == MatchLevel::L0));
    let how = if in_words {
        "word for word"
    } else {
        "in other words"
    };
    let message = format!("Says what round {} said, {how}.", same.round);
    Some(seen.warn(
        WarningKind::RepeatedRound,
        message,
        texts(seen.round.outputs.claims.iter().map(|claim| &claim.text)),
    ))
}

fn alternation(seen: &Seen<'_>) -> Option<Warning> {
    let [.., a, b, c, d] = seen.course else {
        return None;
    };
    let alternates = !d.clusters.is_empty()
        && a.clusters == c.clusters
        && b.clusters == d.clusters
        && a.clusters != b.clusters
        && !b.clusters.is_empty();
    let same_speakers = a.agent == c.agent && b.agent == d.agent && (a.agent.is_none() || a.agent != b.agent);
    if !alternates || !same_speakers {
        return None;
    }
    let who = match (&c.agent, &d.agent) {
        (Some(one), Some(other)) => format!("{one} and {other} answer each other"),
        _ => "Two positions answer each other".to_owned(),
    };
    let message = format!(
        "{who} with the same claims: rounds {}, {}, {}, {}.",
        a.round, b.round, c.round, d.round
    );
    let evidence = texts(seen.round.outputs.claims.iter().map(|claim| &claim.text));
    Some(seen.warn(WarningKind::Alternation, message, evidence))
}

fn contradiction(seen: &Seen<'_>) -> Option<Warning> {
    let evidence: Vec<Evidence> = seen
        .claims
        .findings
        .iter()
        .filter_map(|finding| {
            let differing = finding.differs.as_ref()?;
            differing.contradicts.then(|| seen.pair(finding, differing.near))
        })
        .collect();
    if evidence.is_empty() {
        return None;
    }
    let message = format!(
        "{} {} negated.",
        evidence.len(),
        if evidence.len() == 1 {
            "earlier claim is"
        } else {
            "earlier claims are"
        }
    );
    Some(seen.warn(WarningKind::Contradiction, message, evidence))
}

fn empty_round(seen: &Seen<'_>) -> Option<Warning> {
    if seen.empty {
        Some(seen.warn(
            WarningKind::EmptyRound,
            "The round says nothing, which is no evidence of anything.".to_owned(),
            Vec::new(),
        ))
    } else if seen.claims.findings.is_empty() {
        Some(seen.warn(
            WarningKind::EmptyRound,
            "The round makes no claim.".to_owned(),
            Vec::new(),
        ))
    } else {
        None
    }
}
