//! Text of verdicts: rationale, hint, the three strongest reasons and the explanation tree.

use super::decide::{Decision, Facts, Reason};
use super::profile::Profile;
use super::report::{Level, RoundNovelty, RoundReadiness, Signal, Warning};
use crate::explanation::{Explanation, Number, Relation};

/// The recommended action as one sentence.
pub(super) fn hint(decision: Decision) -> &'static str {
    match (decision.signal, decision.reason) {
        (Signal::Continue, Reason::Empty | Reason::NoClaims) => {
            "Run one more round: this one contains no evidence."
        }
        (Signal::Continue, Reason::Pause) => {
            "Run one more round: this one is quiet but raises a new question or action."
        }
        (Signal::Continue, Reason::NotYetLow | Reason::TooFewRepeats) => {
            "Run one more round: novelty is low, but not for long enough."
        }
        (Signal::Continue, _) => "Let it run: new claims still come in.",
        (Signal::Ship, Reason::ConvergedWithGaps) => "Ship the decision and track the remaining gaps.",
        (Signal::Ship, _) => "Ship the decision and verify it.",
        (Signal::Stop, Reason::BelowBar) => "End the review; what it still finds is below your bar.",
        (Signal::Stop, _) => "End the conversation and keep the result; there is nothing to execute.",
        (Signal::Escalate, Reason::Blocked | Reason::BlockedOtherwiseDone) => {
            "Hand the blocker to someone who can remove it; more discussion will not."
        }
        (Signal::Escalate, _) => {
            "Change the setup: involve a person or another agent, or narrow the question."
        }
    }
}

/// The `rationale` of seed section 4.3.
pub(super) fn rationale(decision: Decision, readiness: &RoundReadiness) -> String {
    format!("{} {}", about_novelty(decision), about_readiness(readiness))
}

/// Gaps that a SHIP leaves; `None` for other signals and for HIGH readiness.
pub(super) fn caveat(signal: Signal, readiness: &RoundReadiness) -> Option<String> {
    if signal != Signal::Ship || readiness.classification == Level::High {
        return None;
    }
    let mut gaps = Vec::new();
    if !readiness.open_questions.is_empty() {
        gaps.push(counted(
            readiness.open_questions.len(),
            "question is still open",
            "questions are still open",
        ));
    }
    if readiness.detail.next_actions_score <= 0.0 {
        gaps.push("the round has no next action".to_owned());
    } else if readiness.detail.next_actions_score < 0.7 {
        gaps.push("no next action is specific".to_owned());
    }
    Some(if gaps.is_empty() {
        "Readiness is not high.".to_owned()
    } else {
        sentence(&gaps.join(", "))
    })
}

fn about_novelty(decision: Decision) -> String {
    match decision.reason {
        Reason::Empty => "The round is empty, so there is no evidence either way.".to_owned(),
        Reason::EmptyAgain => "Two consecutive rounds are empty.".to_owned(),
        Reason::NoClaims => "The round contains no claims.".to_owned(),
        Reason::Settled => "The plan is complete and novelty is tapering off.".to_owned(),
        Reason::StillSettled => {
            "The plan was already complete, and this round does not change it.".to_owned()
        }
        Reason::Pause => "Few claims are new, but the round raises a new question or action.".to_owned(),
        Reason::TooFewRepeats => "The round has too few claims to decide.".to_owned(),
        Reason::BlockedOtherwiseDone => "Novelty is tapering off and the blocker remains.".to_owned(),
        Reason::NothingToShip => {
            "Few claims are new, questions are open and no action is specific.".to_owned()
        }
        Reason::Decided => "The round decides what was open and leaves nothing to execute.".to_owned(),
        Reason::HandedOver => "The speakers decided to escalate.".to_owned(),
        Reason::Repeats => "The round copies an earlier one word for word.".to_owned(),
        Reason::Alternates => "Two positions alternate without progress.".to_owned(),
        Reason::Parted => "The speakers thank each other and add nothing.".to_owned(),
        Reason::BelowBar => {
            "What remains is below your bar: the latest rounds found only minor issues.".to_owned()
        }
        Reason::Producing => match decision.novelty {
            Level::High => "Most claims are new.".to_owned(),
            _ => "New claims still come in, but fewer than at the peak.".to_owned(),
        },
        _ => match decision.low_run {
            0 => "Very few of the latest claims were new.".to_owned(),
            1 => "Novelty is low in this round.".to_owned(),
            run => format!("Novelty has been low for {run} consecutive rounds."),
        },
    }
}

fn about_readiness(readiness: &RoundReadiness) -> String {
    let detail = &readiness.detail;
    let actions = if detail.next_actions_score >= 0.7 {
        "specific next actions present"
    } else if detail.next_actions_score > 0.0 {
        "next actions are vague"
    } else {
        "no next actions"
    };
    let questions = match readiness.open_questions.len() {
        0 => "no open questions".to_owned(),
        open => counted(open, "open question", "open questions"),
    };
    let blockers = match readiness.blockers.len() {
        0 => "no blockers".to_owned(),
        blockers => counted(blockers, "blocker", "blockers"),
    };
    let level = readiness.classification.as_str().to_lowercase();
    format!("Action readiness is {level}: {actions}, {questions}, {blockers}.")
}

/// The three strongest reasons: the deciding one first, then readiness details, then warnings.
pub(super) fn reasons(
    decision: Decision,
    novelty: &RoundNovelty,
    readiness: &RoundReadiness,
    warnings: &[Warning],
) -> Vec<String> {
    let mut reasons = vec![about_novelty(decision)];
    if let Some(blocker) = readiness.blockers.first() {
        let blocker = blocker.trim_end_matches('.');
        reasons.push(format!("Blocked: \u{201c}{blocker}\u{201d}."));
    }
    if novelty.claims > 0 {
        let how = match novelty.restatements.first() {
            Some(first) if novelty.new_claims * 2 <= novelty.claims => {
                format!(
                    ": \u{201c}{}\u{201d} was said in round {}",
                    first.claim.trim_end_matches('.'),
                    first.of_round
                )
            }
            _ => String::new(),
        };
        reasons.push(format!(
            "{} of {} claims are new{how}.",
            novelty.new_claims, novelty.claims
        ));
    }
    reasons.push(about_readiness(readiness));
    if let Some(answered) = readiness.answered_questions.first() {
        reasons.push(format!(
            "{} answered: \u{201c}{}\u{201d}",
            counted(
                readiness.answered_questions.len(),
                "question was",
                "questions were"
            ),
            answered.question
        ));
    }
    reasons.extend(warnings.iter().map(|warning| warning.message.clone()));
    reasons.truncate(3);
    reasons
}

pub(super) fn explanation(
    decision: Decision,
    facts: Facts,
    cusum: f64,
    novelty: &RoundNovelty,
    readiness: &RoundReadiness,
    reasons: &[String],
    profile: &Profile,
) -> Explanation {
    let rules = &profile.novelty;
    let mut about_novelty = Explanation::new("novelty", decision.novelty.as_str())
        .with(Number::of("novelty_rate", novelty.novelty_rate).compared(Relation::Below, rules.low))
        .with(Number::of("novelty_rate", novelty.novelty_rate).compared(Relation::Above, rules.high))
        .with(Number::of("novelty_rate_L0", novelty.novelty_rate_l0))
        .with(Number::of("novelty_rate_L1", novelty.novelty_rate_l1))
        .with(match novelty.novelty_rate_l2 {
            Some(rate) => Number::of("novelty_rate_L2", rate),
            None => Number::absent(
                "novelty_rate_L2",
                "no embedder: similarity of meaning was not computed",
            ),
        })
        .with(
            Number::of("low rounds in a row", f64::from(decision.low_run))
                .compared(Relation::AtLeast, f64::from(profile.decision.k)),
        )
        .with(
            Number::of("CUSUM of repeated claims", cusum)
                .compared(Relation::Above, profile.decision.cusum_alarm),
        );
    if profile.decision.settled_novelty > 0.0 {
        about_novelty = about_novelty.with(
            Number::of("new ground", facts.effective_rate)
                .compared(Relation::AtMost, profile.decision.settled_novelty),
        );
    }
    let about_readiness = Explanation::new("readiness", readiness.classification.as_str())
        .with(
            Number::of("action_readiness", readiness.action_readiness)
                .compared(Relation::AtLeast, profile.readiness.high),
        )
        .with(
            Number::of("action_readiness", readiness.action_readiness)
                .compared(Relation::AtLeast, profile.readiness.medium),
        )
        .with(Number::of(
            "next_actions_score",
            readiness.detail.next_actions_score,
        ))
        .with(Number::of(
            "open_questions_score",
            readiness.detail.open_questions_score,
        ))
        .with(Number::of("blocker_score", readiness.detail.blocker_score));
    let mut tree = Explanation::new("signal", decision.signal.as_str());
    tree.reasons = reasons.to_vec();
    tree.part(about_novelty).part(about_readiness)
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
