//! Verdicts in words: rationale, hint, the three most telling reasons and the explanation tree.

use super::decide::{Decision, Facts, Ground};
use super::profile::Profile;
use super::report::{Level, RoundNovelty, RoundReadiness, Signal, Warning};
use crate::explanation::{Explanation, Number, Relation};

/// What to do, in a sentence.
pub(super) fn hint(decision: Decision) -> &'static str {
    match (decision.signal, decision.ground) {
        (Signal::Continue, Ground::Empty | Ground::NoClaims) => {
            "No evidence in this round. Let it speak once more."
        }
        (Signal::Continue, Ground::Pause) => {
            "A quiet round that opened something. See what the next one brings."
        }
        (Signal::Continue, Ground::NotYetLow | Ground::TooFewRepeats) => {
            "Quiet, but not for long enough. One more round."
        }
        (Signal::Continue, _) => "Still producing. Let it run.",
        (Signal::Ship, Ground::ConvergedWithGaps) => {
            "Converged. Ship the decision, and mind what is left open."
        }
        (Signal::Ship, _) => "Converged. Ship the decision and verify.",
        (Signal::Stop, _) => "Converged with nothing to execute. End it and keep the result.",
        (Signal::Escalate, Ground::Blocked | Ground::BlockedOtherwiseDone) => {
            "Talking will not remove the blocker. Take it to whoever can."
        }
        (Signal::Escalate, _) => {
            "Stuck. Change something: bring in a person, another agent, or a narrower question."
        }
    }
}

/// Seed 4.3 `rationale`.
pub(super) fn rationale(decision: Decision, readiness: &RoundReadiness) -> String {
    format!("{} {}", about_novelty(decision), about_readiness(readiness))
}

/// What a SHIP leaves undone.
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
        gaps.push("this round names no next action".to_owned());
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
    match decision.ground {
        Ground::Empty => "The round says nothing, which is no evidence.".to_owned(),
        Ground::EmptyAgain => "Two rounds in a row say nothing.".to_owned(),
        Ground::NoClaims => "The round makes no claim.".to_owned(),
        Ground::Settled => "The plan is complete and little new ground is broken.".to_owned(),
        Ground::StillSettled => {
            "The plan was complete before, and nothing has been added that changes it.".to_owned()
        }
        Ground::Pause => "Hardly anything new was claimed, but the round opens something.".to_owned(),
        Ground::TooFewRepeats => "Hardly anything was claimed, too little to tell.".to_owned(),
        Ground::BlockedOtherwiseDone => "Little new ground is broken and the same blocker stands.".to_owned(),
        Ground::NothingToShip => {
            "Hardly anything new is said, questions are open and no action is specific.".to_owned()
        }
        Ground::Producing => match decision.novelty {
            Level::High => "Most of what is said is new.".to_owned(),
            _ => "New claims still come, fewer than at the peak.".to_owned(),
        },
        _ => match decision.low_run {
            0 => "Over many claims hardly any was new.".to_owned(),
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

/// The three most telling reasons: what decided, then what stands out on the other side, then what looks wrong.
pub(super) fn reasons(
    decision: Decision,
    novelty: &RoundNovelty,
    readiness: &RoundReadiness,
    warnings: &[Warning],
) -> Vec<String> {
    let mut reasons = vec![about_novelty(decision)];
    if let Some(blocker) = readiness.blockers.first() {
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
            None => Number::absent("novelty_rate_L2", "no embedder: meaning was not compared"),
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
            Number::of("new ground", facts.ground)
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
