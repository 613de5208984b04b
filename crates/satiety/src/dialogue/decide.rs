//! From what a round showed to a signal. Three rules, chosen by the profile; all share the matrix of seed 4.1.
//! Sees facts and what went before, never texts.

use super::profile::{DecisionRules, NoveltyRules, Profile, Rule};
use super::report::{Level, Signal};

/// What a round showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Combined novelty rate.
    pub(super) rate: f64,
    /// The same without claims that answer an open question, and with claims near an earlier one counted half.
    pub(super) ground: f64,
    pub(super) readiness: Level,
    pub(super) blocked: bool,
    pub(super) open_questions: usize,
    pub(super) actions: usize,
    pub(super) specific_actions: usize,
    /// Open questions that do not name a blocker.
    pub(super) other_questions: usize,
    /// Questions asked for the first time, and actions that nobody named before.
    pub(super) asked: usize,
    pub(super) new_actions: usize,
    /// The last open questions were closed here, by an answer or a decision, and nobody else is left to be heard.
    pub(super) closes: bool,
    pub(super) claims: usize,
    /// No claims, decisions, questions or actions.
    pub(super) empty: bool,
    /// New and repeated claims, where a repeat by a speaker of what the same speaker said is neither.
    pub(super) new: usize,
    pub(super) repeated: usize,
}

/// What went before, in the few numbers that a rule may look at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    rounds: u32,
    low_run: u32,
    empty_run: u32,
    high_readiness_in_run: bool,
    blocked_run: u32,
    repeats: u32,
    /// Most new claims in any round before the present one.
    peak: usize,
    /// Page's CUSUM over claims.
    pub(super) cusum: f64,
    signal: Option<Signal>,
}

/// The answer, and which consideration gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) signal: Signal,
    pub(super) novelty: Level,
    pub(super) low_run: u32,
    pub(super) ground: Ground,
}

/// Which consideration decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// A round without content is no evidence.
    Empty,
    /// A second one is.
    EmptyAgain,
    /// A round without claims, on the way.
    NoClaims,
    /// LOW and a blocker.
    Blocked,
    /// Nothing left to talk about but the blocker.
    BlockedOtherwiseDone,
    /// LOW for long without HIGH readiness (4.2.3).
    LowForLong,
    /// LOW and not ready.
    Stuck,
    /// LOW and ready.
    Converged,
    /// LOW, questions open and nothing that could be carried out.
    NothingToShip,
    /// LOW and half ready.
    ConvergedWithGaps,
    /// LOW with nothing to execute.
    NothingToExecute,
    /// The plan is finished while new ground tapers off.
    Settled,
    /// Was settled, and nothing has changed that.
    StillSettled,
    /// Quiet, but it opens something.
    Pause,
    /// Quiet, but too little was said to tell.
    TooFewRepeats,
    /// Low, but not often enough in a row.
    NotYetLow,
    /// New claims keep coming.
    Producing,
}

/// Decides after a round and moves the course on.
pub(super) fn decide(course: &mut Course, facts: Facts, profile: &Profile) -> Decision {
    let rules = &profile.decision;
    course.rounds += 1;
    course.empty_run = if facts.empty { course.empty_run + 1 } else { 0 };
    course.blocked_run = if facts.blocked { course.blocked_run + 1 } else { 0 };
    let is_low = facts.claims > 0 && facts.rate < profile.novelty.low;
    if facts.claims > 0 {
        course.low_run = if is_low { course.low_run + 1 } else { 0 };
        course.high_readiness_in_run = is_low
            && (facts.readiness == Level::High || (course.low_run > 1 && course.high_readiness_in_run));
        course.repeats = if facts.new == 0 {
            course.repeats.saturating_add(count(facts.repeated))
        } else {
            count(facts.repeated)
        };
        course.cusum = cusum(course.cusum, facts.new, facts.repeated, rules);
    }
    let (signal, novelty, ground) = match rules.rule {
        _ if facts.claims == 0 => without_claims(course, facts),
        Rule::KConsecutive => by_matrix(course, facts, profile, course.low_run >= rules.k),
        Rule::Cusum => by_matrix(course, facts, profile, course.cusum > rules.cusum_alarm),
        Rule::Course => by_course(course, facts, profile),
    };
    course.peak = course.peak.max(facts.new);
    course.signal = Some(signal);
    Decision {
        signal,
        novelty,
        low_run: course.low_run,
        ground,
    }
}

/// Page's CUSUM of claims, in the order of their rounds: `C <- max(0, C + llr)`, llr(old) = ln((1-p1)/(1-p0)),
/// llr(new) = ln(p1/p0). Within a round the new claims come first, which is the order that forgives a round most.
fn cusum(start: f64, new: usize, repeated: usize, rules: &DecisionRules) -> f64 {
    let (p0, p1) = (rules.cusum_living, rules.cusum_exhausted);
    let after_new = (start + new as f64 * (p1 / p0).ln()).max(0.0);
    after_new + repeated as f64 * ((1.0 - p1) / (1.0 - p0)).ln()
}

fn without_claims(course: &Course, facts: Facts) -> (Signal, Level, Ground) {
    match course.signal {
        Some(settled @ (Signal::Ship | Signal::Stop)) if !facts.blocked => {
            (settled, Level::Low, Ground::StillSettled)
        }
        _ if course.empty_run >= 2 => (Signal::Escalate, Level::Low, Ground::EmptyAgain),
        _ if facts.empty => (Signal::Continue, Level::Low, Ground::Empty),
        // A plan may come as a list of actions alone, after the claims were made.
        _ if course.rounds > 1 && facts.readiness == Level::High && facts.open_questions == 0 => {
            (Signal::Ship, Level::Low, Ground::Settled)
        }
        _ => (Signal::Continue, Level::Low, Ground::NoClaims),
    }
}

/// Seed 4.1 and 4.2, given whether novelty is LOW for good.
fn by_matrix(course: &Course, facts: Facts, profile: &Profile, low: bool) -> (Signal, Level, Ground) {
    if low {
        let (signal, ground) = when_low(course, facts, &profile.decision);
        return (signal, Level::Low, ground);
    }
    match classify(facts.rate, &profile.novelty) {
        // Low in this round, but not for good (seed 2.4).
        Level::Low => (Signal::Continue, Level::Medium, Ground::NotYetLow),
        level => (Signal::Continue, level, Ground::Producing),
    }
}

fn by_course(course: &Course, facts: Facts, profile: &Profile) -> (Signal, Level, Ground) {
    let rules = &profile.decision;
    let level = classify(facts.rate, &profile.novelty);
    let exhausted = course.cusum > rules.cusum_alarm;
    let quiet = facts.ground < profile.novelty.low;
    let tapering =
        course.rounds > 1 && (quiet || (facts.rate < 1.0 && facts.ground <= rules.settled_novelty));
    let settled = matches!(course.signal, Some(Signal::Ship | Signal::Stop));
    let done = facts.readiness == Level::High && facts.open_questions == 0;
    if level == Level::Low || exhausted {
        let (signal, ground) = if facts.blocked {
            (Signal::Escalate, Ground::Blocked)
        } else if let (true, Some(before)) = (settled, course.signal) {
            // Waiting does not unmake a plan; STOP becomes SHIP when something to execute turns up.
            if before == Signal::Stop && facts.actions > 0 {
                when_low(course, facts, rules)
            } else {
                (before, Ground::StillSettled)
            }
        } else if facts.readiness == Level::High || exhausted || course.low_run >= rules.k {
            when_low(course, facts, rules)
        } else if course.repeats < rules.minimum_repeats {
            (Signal::Continue, Ground::TooFewRepeats)
        } else if is_pause(facts) {
            (Signal::Continue, Ground::Pause)
        } else {
            when_low(course, facts, rules)
        };
        return (signal, Level::Low, ground);
    }
    if tapering && facts.blocked && (facts.other_questions == 0 || course.blocked_run > 1) {
        return (Signal::Escalate, level, Ground::BlockedOtherwiseDone);
    }
    // The round that closes the last question may be full of new claims: they are what was asked for. Only a round
    // that finds more than any before is still on the way up.
    let closing = course.rounds > 1 && facts.closes && facts.new <= course.peak;
    if (tapering || closing) && done && !facts.blocked {
        return (Signal::Ship, level, Ground::Settled);
    }
    // What was settled is reopened by new ground, new questions or a blocker, not by a plan worded less well.
    if let (true, Some(before)) = (settled && tapering && !facts.blocked, course.signal)
        && facts.open_questions == 0
    {
        return (before, level, Ground::StillSettled);
    }
    (Signal::Continue, level, Ground::Producing)
}

/// A quiet round that opens something while there is something to find out.
fn is_pause(facts: Facts) -> bool {
    let opens = facts.asked > 0 || (facts.readiness == Level::Low && facts.new_actions > 0);
    opens && facts.open_questions > 0
}

/// The LOW row of the matrix with the conditions of 4.2.
fn when_low(course: &Course, facts: Facts, rules: &DecisionRules) -> (Signal, Ground) {
    if facts.blocked {
        (Signal::Escalate, Ground::Blocked)
    } else if facts.readiness == Level::Low {
        (Signal::Escalate, Ground::Stuck)
    } else if rules.escalate_after.is_some_and(|k| course.low_run >= k) && !course.high_readiness_in_run {
        (Signal::Escalate, Ground::LowForLong)
    } else if rules.stop_signal && facts.actions == 0 && facts.open_questions == 0 {
        (Signal::Stop, Ground::NothingToExecute)
    } else if rules.ship_needs_action && facts.specific_actions == 0 && facts.open_questions > 0 {
        (Signal::Escalate, Ground::NothingToShip)
    } else if facts.readiness == Level::High {
        (Signal::Ship, Ground::Converged)
    } else {
        (Signal::Ship, Ground::ConvergedWithGaps)
    }
}

/// Seed 2.3: HIGH above one half, LOW below 0.15.
pub(super) fn classify(rate: f64, rules: &NoveltyRules) -> Level {
    if rate > rules.high {
        Level::High
    } else if rate < rules.low {
        Level::Low
    } else {
        Level::Medium
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(new: usize, repeated: usize, peak: usize, readiness: Level) -> Facts {
        let rate = new as f64 / peak as f64;
        Facts {
            rate,
            ground: rate,
            readiness,
            blocked: false,
            open_questions: 0,
            actions: 1,
            specific_actions: 1,
            other_questions: 0,
            asked: 0,
            new_actions: 0,
            closes: false,
            claims: new + repeated,
            empty: new + repeated == 0,
            new,
            repeated,
        }
    }

    fn signals(profile: &str, rounds: &[Facts]) -> Vec<Signal> {
        let profile = Profile::built_in(profile).unwrap();
        let mut course = Course::default();
        rounds
            .iter()
            .map(|facts| decide(&mut course, *facts, &profile).signal)
            .collect()
    }

    use Level::{High, Low, Medium};
    use Signal::{Continue, Escalate, Ship, Stop};

    #[test]
    fn spec_is_the_seeds_matrix_after_k_low_rounds() {
        for (readiness, expected) in [(High, Ship), (Medium, Ship), (Low, Escalate)] {
            let rounds = [
                facts(4, 0, 4, readiness),
                facts(0, 4, 4, readiness),
                facts(0, 4, 4, readiness),
            ];
            assert_eq!(
                signals("spec", &rounds),
                [Continue, Continue, expected],
                "{readiness}"
            );
        }
        for rate in 1..=4 {
            for readiness in [Low, Medium, High] {
                let rounds = [facts(4, 0, 4, readiness), facts(rate, 0, 4, readiness)];
                assert_eq!(signals("spec", &rounds)[1], Continue);
            }
        }
    }

    #[test]
    fn spec_escalates_a_third_low_round_without_high_readiness_and_default_does_not() {
        let rounds: Vec<Facts> = std::iter::once(facts(4, 0, 4, Medium))
            .chain((0..3).map(|_| facts(0, 4, 4, Medium)))
            .collect();
        assert_eq!(signals("spec", &rounds), [Continue, Continue, Ship, Escalate]);
        assert_eq!(signals("default", &rounds), [Continue, Ship, Ship, Ship]);
    }

    #[test]
    fn a_blocker_never_ships() {
        for profile in Profile::built_in_names() {
            let blocked = Facts {
                blocked: true,
                ..facts(0, 4, 4, High)
            };
            let rounds = [facts(4, 0, 4, High), blocked, blocked, blocked];
            let answers = signals(profile, &rounds);
            assert!(!answers.contains(&Ship), "{profile}: {answers:?}");
            assert_eq!(answers[3], Escalate);
        }
    }

    #[test]
    fn one_empty_round_is_no_evidence_and_a_second_one_is() {
        for profile in Profile::built_in_names() {
            let empty = Facts {
                actions: 0,
                ..facts(0, 0, 4, Medium)
            };
            assert_eq!(
                signals(profile, &[facts(4, 0, 4, Low), empty, empty]),
                [Continue, Continue, Escalate]
            );
        }
    }

    #[test]
    fn converged_with_nothing_to_execute_is_stop_where_the_profile_has_it() {
        let idle = Facts {
            actions: 0,
            ..facts(0, 3, 3, Medium)
        };
        assert_eq!(signals("default", &[facts(3, 0, 3, Medium), idle, idle])[2], Stop);
        assert_eq!(signals("spec", &[facts(3, 0, 3, Medium), idle, idle])[2], Ship);
    }

    #[test]
    fn a_finished_plan_ships_when_new_ground_tapers_off() {
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), facts(2, 2, 4, High)]),
            [Continue, Ship]
        );
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), facts(3, 0, 4, High)]),
            [Continue, Continue]
        );
        let asking = Facts {
            open_questions: 1,
            ..facts(2, 2, 4, High)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), asking]),
            [Continue, Continue]
        );
    }

    #[test]
    fn the_round_that_closes_the_last_question_ships_unless_it_finds_more_than_any_before() {
        let closing = Facts {
            closes: true,
            ..facts(4, 0, 4, High)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), closing]),
            [Continue, Ship]
        );
        assert_eq!(
            signals("default", &[facts(3, 0, 3, Low), closing]),
            [Continue, Continue]
        );
    }

    #[test]
    fn a_plan_that_only_waits_for_its_blocker_is_escalated_before_it_falls_silent() {
        let blocked = Facts {
            blocked: true,
            open_questions: 1,
            ..facts(1, 3, 4, Medium)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), blocked]),
            [Continue, Escalate]
        );
        let busy = Facts {
            other_questions: 1,
            ..blocked
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), busy]),
            [Continue, Continue]
        );
    }

    #[test]
    fn a_quiet_round_that_opens_something_is_a_pause() {
        let pause = Facts {
            asked: 1,
            open_questions: 2,
            ..facts(0, 3, 4, Low)
        };
        let rounds = [facts(4, 0, 4, Low), pause, facts(3, 0, 4, Low)];
        assert_eq!(signals("default", &rounds), [Continue, Continue, Continue]);
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), pause, pause])[2],
            Escalate
        );
        let stuck = Facts {
            other_questions: 0,
            asked: 0,
            new_actions: 0,
            closes: false,
            ..pause
        };
        assert_eq!(signals("default", &[facts(4, 0, 4, Low), stuck])[1], Escalate);
    }

    #[test]
    fn a_settled_plan_stands_while_nothing_happens_and_falls_when_something_does() {
        let quiet = Facts {
            actions: 0,
            ..facts(0, 1, 4, Medium)
        };
        let reopened = Facts {
            open_questions: 2,
            ..facts(3, 0, 4, Medium)
        };
        let rounds = [facts(4, 0, 4, Low), facts(1, 3, 4, High), quiet, reopened];
        assert_eq!(signals("default", &rounds), [Continue, Ship, Ship, Continue]);
    }

    #[test]
    fn the_cusum_ends_a_long_tail_that_never_falls_silent() {
        // Ten claims a round, two of them new, peak ten: the rate stays at 0.2 and is never LOW.
        let tail = Facts {
            open_questions: 1,
            ..facts(2, 8, 10, Low)
        };
        let rounds: Vec<Facts> = std::iter::once(facts(10, 0, 10, Low))
            .chain((0..40).map(|_| tail))
            .collect();
        assert!(signals("spec", &rounds).iter().all(|signal| *signal == Continue));
        let busy = Facts {
            ..facts(1, 9, 10, Low)
        };
        let rounds: Vec<Facts> = std::iter::once(facts(10, 0, 10, Low))
            .chain((0..40).map(|_| busy))
            .collect();
        assert!(signals("default", &rounds).contains(&Escalate));
    }

    #[test]
    fn cusum_moves_as_its_formula_says() {
        let rules = Profile::default().decision;
        // ln(0.9/0.65) = 0.325422, ln(0.1/0.35) = -1.252763 (bc -l).
        assert!((cusum(0.0, 0, 10, &rules) - 3.254224).abs() < 1e-6);
        assert!((cusum(3.0, 1, 0, &rules) - 1.747237).abs() < 1e-6);
        assert!(cusum(1.0, 3, 0, &rules).abs() < 1e-12);
    }
}
