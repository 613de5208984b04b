//! The decision rules: turn the facts of a round and the history into a signal. The profile selects one of
//! three rules; all share the matrix of seed section 4.1. Rules never read texts.

use super::profile::{DecisionRules, NoveltyRules, Profile, Rule};
use super::report::{Level, Signal};

/// Facts about a round that decision rules use.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one round")]
pub(super) struct Facts {
    /// Combined novelty rate.
    pub(super) rate: f64,
    /// The rate without claims that answer an open question, and with claims near an earlier one counted
    /// half.
    pub(super) effective_rate: f64,
    pub(super) readiness: Level,
    pub(super) blocked: bool,
    pub(super) open_questions: usize,
    pub(super) actions: usize,
    pub(super) specific_actions: usize,
    /// Open questions that do not name a blocker.
    pub(super) other_questions: usize,
    /// Questions asked for the first time.
    pub(super) asked: usize,
    /// Actions named for the first time.
    pub(super) new_actions: usize,
    /// Whether this round closes the last open questions by an answer or a decision, and there is only one
    /// speaker.
    pub(super) closes: bool,
    pub(super) claims: usize,
    /// Whether there are no claims, decisions, questions or actions.
    pub(super) empty: bool,
    /// New claims.
    pub(super) new: usize,
    /// Repeated claims, except those that repeat the same speaker.
    pub(super) repeated: usize,
    pub(super) decisions: usize,
    /// Questions that the round answers.
    pub(super) answered: usize,
    /// Whether questions were open before the round.
    pub(super) had_questions: bool,
    /// Whether a decision hands the matter over.
    pub(super) escalates: bool,
    /// Whether the round copies an earlier one word for word and adds no action.
    pub(super) verbatim: bool,
    /// Whether two positions alternate without a change.
    pub(super) alternates: bool,
    /// Courtesies that end an exchange, in a round without other content.
    pub(super) partings: usize,
    /// Whether the findings of a review no longer reach the bar of the profile.
    pub(super) below_bar: bool,
}

/// Running totals of the rounds so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct History {
    rounds: u32,
    low_run: u32,
    empty_run: u32,
    high_readiness_in_run: bool,
    blocked_run: u32,
    repeats: u32,
    /// Largest number of new claims in any earlier round.
    peak: usize,
    /// Page's CUSUM over claims.
    pub(super) cusum: f64,
    signal: Option<Signal>,
    /// Consecutive courtesies that end an exchange.
    partings: usize,
    /// Whether the latest round with content had a specific action, and whether it was blocked.
    has_plan: bool,
    was_blocked: bool,
}

impl History {
    /// Largest number of new claims in any round so far.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

/// The signal and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) signal: Signal,
    pub(super) novelty: Level,
    pub(super) low_run: u32,
    pub(super) reason: Reason,
}

/// Reason for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The round is empty.
    Empty,
    /// Two consecutive rounds are empty.
    EmptyAgain,
    /// The round has no claims, but other content.
    NoClaims,
    /// Novelty is LOW and there is a blocker.
    Blocked,
    /// Only the blocker is left to discuss.
    BlockedOtherwiseDone,
    /// Novelty was LOW for long without HIGH readiness (4.2.3).
    LowForLong,
    /// Novelty and readiness are LOW.
    Stuck,
    /// Novelty is LOW and readiness HIGH.
    Converged,
    /// Novelty is LOW, questions are open and no action is specific.
    NothingToShip,
    /// Novelty is LOW and readiness MEDIUM.
    ConvergedWithGaps,
    /// Novelty is LOW and there is nothing to execute.
    NothingToExecute,
    /// The plan is finished and novelty tapers off.
    Settled,
    /// The plan was settled before and is unchanged.
    StillSettled,
    /// Novelty is low, but the round raises a new question or action.
    Pause,
    /// Novelty is low, but too few claims were repeated to decide.
    TooFewRepeats,
    /// Novelty is low, but not for `k` consecutive rounds.
    NotYetLow,
    /// New claims still come in.
    Producing,
    /// The round decides the last open questions and leaves nothing to execute.
    Decided,
    /// The speakers decided to hand the matter over.
    HandedOver,
    /// The round copies an earlier one without a specific plan.
    Repeats,
    /// Two positions alternate.
    Alternates,
    /// The speakers thank each other and part.
    Parted,
    /// The findings of a review no longer reach the bar.
    BelowBar,
}

/// Decides on a signal after a round and updates the history.
pub(super) fn decide(history: &mut History, facts: Facts, profile: &Profile) -> Decision {
    let rules = &profile.decision;
    history.rounds += 1;
    history.empty_run = if facts.empty { history.empty_run + 1 } else { 0 };
    history.blocked_run = if facts.blocked { history.blocked_run + 1 } else { 0 };
    history.partings = if facts.partings > 0 {
        history.partings + facts.partings
    } else {
        0
    };
    let is_low = facts.claims > 0 && level(facts, profile) == Level::Low;
    if facts.claims > 0 {
        history.low_run = if is_low { history.low_run + 1 } else { 0 };
        history.high_readiness_in_run = is_low
            && (facts.readiness == Level::High || (history.low_run > 1 && history.high_readiness_in_run));
        history.repeats = if facts.new == 0 {
            history.repeats.saturating_add(count(facts.repeated))
        } else {
            count(facts.repeated)
        };
        history.cusum = cusum(history.cusum, facts.new, facts.repeated, rules);
    }
    let (signal, novelty, reason) = match rules.rule {
        _ if facts.claims == 0 => without_claims(history, facts, rules),
        Rule::KConsecutive => by_matrix(history, facts, profile, history.low_run >= rules.k),
        Rule::Cusum => by_matrix(history, facts, profile, history.cusum > rules.cusum_alarm),
        Rule::Course => by_course(history, facts, profile),
    };
    let (signal, reason) =
        if signal == Signal::Continue && facts.below_bar && !facts.blocked && rules.stop_signal {
            (Signal::Stop, Reason::BelowBar)
        } else {
            (signal, reason)
        };
    history.peak = history.peak.max(facts.new);
    history.signal = Some(signal);
    if facts.partings == 0 && !facts.empty {
        history.has_plan = facts.specific_actions > 0;
        history.was_blocked = facts.blocked;
    }
    Decision {
        signal,
        novelty,
        low_run: history.low_run,
        reason,
    }
}

/// Page's CUSUM over claims, one round at a time: `C <- max(0, C + llr)`, where llr sums ln((1-p1)/(1-p0)) for
/// each repeated claim and ln(p1/p0) for each new one. The order of the claims within a round has no effect.
fn cusum(start: f64, new: usize, repeated: usize, rules: &DecisionRules) -> f64 {
    let (p0, p1) = (rules.cusum_living, rules.cusum_exhausted);
    let llr = new as f64 * (p1 / p0).ln() + repeated as f64 * ((1.0 - p1) / (1.0 - p0)).ln();
    (start + llr).max(0.0)
}

fn without_claims(history: &History, facts: Facts, rules: &DecisionRules) -> (Signal, Level, Reason) {
    // Mutual thanks: one courtesy may be a pause, two end the exchange.
    const MUTUAL: usize = 2;
    let is_course = rules.rule == Rule::Course;
    match history.signal {
        _ if is_course && facts.escalates => (Signal::Escalate, Level::Low, Reason::HandedOver),
        Some(settled @ (Signal::Ship | Signal::Stop)) if !facts.blocked => {
            (settled, Level::Low, Reason::StillSettled)
        }
        _ if is_course && history.partings >= MUTUAL => {
            let signal = match (history.was_blocked, history.has_plan) {
                (true, _) => Signal::Escalate,
                (false, true) => Signal::Ship,
                (false, false) => Signal::Stop,
            };
            (signal, Level::Low, Reason::Parted)
        }
        _ if history.empty_run >= 2 => (Signal::Escalate, Level::Low, Reason::EmptyAgain),
        _ if facts.empty => (Signal::Continue, Level::Low, Reason::Empty),
        // A plan may consist of actions only, after the claims were made in earlier rounds.
        _ if history.rounds > 1 && facts.readiness == Level::High && facts.open_questions == 0 => {
            if facts.blocked {
                (Signal::Escalate, Level::Low, Reason::BlockedOtherwiseDone)
            } else {
                (Signal::Ship, Level::Low, Reason::Settled)
            }
        }
        _ if is_course && facts.had_questions && decides(facts, rules) => {
            (Signal::Stop, Level::Low, Reason::Decided)
        }
        _ => (Signal::Continue, Level::Low, Reason::NoClaims),
    }
}

/// Whether a round records a decision and leaves no question, action or blocker.
fn decides(facts: Facts, rules: &DecisionRules) -> bool {
    rules.stop_signal
        && facts.decisions > 0
        && facts.open_questions == 0
        && facts.actions == 0
        && !facts.blocked
}

/// Seed 4.1 and 4.2, given whether novelty counts as LOW.
fn by_matrix(history: &History, facts: Facts, profile: &Profile, low: bool) -> (Signal, Level, Reason) {
    if low {
        let (signal, reason) = when_low(history, facts, &profile.decision);
        return (signal, Level::Low, reason);
    }
    match classify(facts.rate, &profile.novelty) {
        // Low in this round, but not yet for `k` rounds (seed 2.4).
        Level::Low => (Signal::Continue, Level::Medium, Reason::NotYetLow),
        level => (Signal::Continue, level, Reason::Producing),
    }
}

fn by_course(history: &History, facts: Facts, profile: &Profile) -> (Signal, Level, Reason) {
    let rules = &profile.decision;
    let exhausted = history.cusum > rules.cusum_alarm;
    let level = level(facts, profile);
    let quiet = facts.effective_rate < profile.novelty.low && level == Level::Low;
    let tapering =
        history.rounds > 1 && (quiet || (facts.rate < 1.0 && facts.effective_rate <= rules.settled_novelty));
    let settled = matches!(history.signal, Some(Signal::Ship | Signal::Stop));
    let done = facts.readiness == Level::High && facts.open_questions == 0;
    if facts.escalates {
        return (Signal::Escalate, level, Reason::HandedOver);
    }
    if facts.alternates && !settled {
        return (Signal::Escalate, Level::Low, Reason::Alternates);
    }
    if level == Level::Low || exhausted {
        let (signal, reason) = if facts.blocked {
            (Signal::Escalate, Reason::Blocked)
        } else if let (true, Some(before)) = (settled, history.signal) {
            // A settled plan stays settled; STOP becomes SHIP when an action appears.
            if before == Signal::Stop && facts.actions > 0 {
                when_low(history, facts, rules)
            } else {
                (still_settled(before, facts, rules), Reason::StillSettled)
            }
        } else if facts.verbatim && facts.repeated == 0 {
            // A speaker who copies an own round in a discussion does not confirm it.
            (Signal::Continue, Reason::TooFewRepeats)
        } else if facts.verbatim {
            match when_low(history, facts, rules) {
                (Signal::Ship, Reason::ConvergedWithGaps) => (Signal::Escalate, Reason::Repeats),
                decided => decided,
            }
        } else if facts.readiness == Level::High || exhausted || history.low_run >= rules.k {
            when_low(history, facts, rules)
        } else if history.repeats < rules.minimum_repeats {
            (Signal::Continue, Reason::TooFewRepeats)
        } else if is_pause(facts) {
            (Signal::Continue, Reason::Pause)
        } else {
            when_low(history, facts, rules)
        };
        return (signal, Level::Low, reason);
    }
    if tapering && facts.blocked && (facts.other_questions == 0 || history.blocked_run > 1) {
        return (Signal::Escalate, level, Reason::BlockedOtherwiseDone);
    }
    // New claims are expected in the round that closes the last question. It ships unless it has more new
    // claims than any earlier round, which means that the conversation is still growing.
    let closing = history.rounds > 1 && facts.closes && facts.new <= history.peak;
    // Fewer new claims than at the peak are not enough: something must be concluded or repeated.
    let converging = settled || facts.answered > 0 || facts.decisions > 0 || facts.new * 2 <= facts.claims;
    let concluded = (tapering && converging) || closing;
    if concluded && done && !facts.blocked {
        return (Signal::Ship, level, Reason::Settled);
    }
    if concluded && !settled && decides(facts, rules) {
        return (Signal::Stop, level, Reason::Decided);
    }
    // New claims, new questions or a blocker reopen a settled plan; lower readiness alone does not.
    if let (true, Some(before)) = (settled && tapering && !facts.blocked, history.signal)
        && facts.open_questions == 0
    {
        return (still_settled(before, facts, rules), level, Reason::StillSettled);
    }
    (Signal::Continue, level, Reason::Producing)
}

/// The signal of a settled conversation after another round: without an action, nothing is left to execute.
fn still_settled(before: Signal, facts: Facts, rules: &DecisionRules) -> Signal {
    if rules.stop_signal && facts.actions == 0 && facts.open_questions == 0 {
        Signal::Stop
    } else {
        before
    }
}

/// Whether a quiet round raises a new question or action while questions are open.
fn is_pause(facts: Facts) -> bool {
    let opens = facts.asked > 0 || (facts.readiness == Level::Low && facts.new_actions > 0);
    opens && facts.open_questions > 0
}

/// The LOW row of the matrix with the conditions of 4.2.
fn when_low(history: &History, facts: Facts, rules: &DecisionRules) -> (Signal, Reason) {
    if facts.blocked {
        (Signal::Escalate, Reason::Blocked)
    } else if facts.readiness == Level::Low {
        (Signal::Escalate, Reason::Stuck)
    } else if rules.escalate_after.is_some_and(|k| history.low_run >= k) && !history.high_readiness_in_run {
        (Signal::Escalate, Reason::LowForLong)
    } else if rules.stop_signal && facts.actions == 0 && facts.open_questions == 0 {
        (Signal::Stop, Reason::NothingToExecute)
    } else if rules.ship_needs_action && facts.specific_actions == 0 && facts.open_questions > 0 {
        (Signal::Escalate, Reason::NothingToShip)
    } else if facts.readiness == Level::High {
        (Signal::Ship, Reason::Converged)
    } else {
        (Signal::Ship, Reason::ConvergedWithGaps)
    }
}

/// Novelty level of a round. With the rule `course`, a round is not LOW while most of its claims are new: after
/// a round with very many new claims it is small, but not repetitive.
fn level(facts: Facts, profile: &Profile) -> Level {
    let mostly_new = facts.new * 2 > facts.claims && profile.decision.rule == Rule::Course;
    match classify(facts.rate, &profile.novelty) {
        Level::Low if mostly_new => Level::Medium,
        level => level,
    }
}

/// Classifies a novelty rate (seed 2.3: HIGH above 0.5, LOW below 0.15).
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
            effective_rate: rate,
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
            decisions: 0,
            answered: 0,
            had_questions: false,
            escalates: false,
            verbatim: false,
            alternates: false,
            partings: 0,
            below_bar: false,
        }
    }

    fn signals(profile: &str, rounds: &[Facts]) -> Vec<Signal> {
        let profile = Profile::built_in(profile).unwrap();
        let mut history = History::default();
        rounds
            .iter()
            .map(|facts| decide(&mut history, *facts, &profile).signal)
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
        assert_eq!(signals("default", &rounds), [Continue, Ship, Stop, Continue]);
        let same_plan = facts(0, 3, 4, Medium);
        let rounds = [facts(4, 0, 4, Low), facts(1, 3, 4, High), same_plan, quiet];
        assert_eq!(signals("default", &rounds), [Continue, Ship, Ship, Stop]);
    }

    #[test]
    fn a_copied_round_is_not_saved_by_a_question_and_ships_only_a_specific_plan() {
        let copied = Facts {
            verbatim: true,
            asked: 1,
            open_questions: 1,
            ..facts(0, 4, 4, Low)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), copied]),
            [Continue, Escalate]
        );
        let copied = |readiness, actions| Facts {
            verbatim: true,
            actions,
            ..facts(0, 4, 4, readiness)
        };
        for (readiness, actions, expected) in [(High, 1, Ship), (Medium, 1, Escalate), (Medium, 0, Stop)] {
            let rounds = [facts(4, 0, 4, readiness), copied(readiness, actions)];
            assert_eq!(
                signals("default", &rounds),
                [Continue, expected],
                "{readiness} {actions}"
            );
        }
    }

    #[test]
    fn positions_that_alternate_escalate_and_never_ship() {
        let own = Facts {
            verbatim: true,
            ..Facts {
                repeated: 0,
                ..facts(0, 2, 2, High)
            }
        };
        let alternating = Facts {
            alternates: true,
            ..own
        };
        let rounds = [facts(2, 0, 2, High), facts(2, 0, 2, High), own, alternating];
        assert_eq!(
            signals("default", &rounds),
            [Continue, Continue, Continue, Escalate]
        );
    }

    #[test]
    fn a_small_round_of_new_claims_is_not_low_and_does_not_settle() {
        // 36 new claims at the peak, then 7 of 8 are new: the rate is 0.19, the round is not repetitive.
        let rounds = [
            facts(36, 0, 36, High),
            facts(7, 1, 36, High),
            facts(3, 0, 36, High),
        ];
        assert_eq!(signals("default", &rounds), [Continue; 3]);
        let answering = Facts {
            answered: 1,
            ..facts(2, 0, 4, High)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), answering]),
            [Continue, Ship]
        );
    }

    #[test]
    fn a_decision_that_leaves_nothing_open_stops_and_one_to_escalate_escalates() {
        let decided = Facts {
            decisions: 1,
            actions: 0,
            specific_actions: 0,
            ..facts(1, 1, 4, Medium)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), decided]),
            [Continue, Stop]
        );
        let alone = Facts {
            had_questions: true,
            empty: false,
            ..Facts {
                claims: 0,
                new: 0,
                repeated: 0,
                ..decided
            }
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), alone]),
            [Continue, Stop]
        );
        let handed_over = Facts {
            escalates: true,
            decisions: 1,
            ..facts(4, 0, 4, High)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, Low), handed_over]),
            [Continue, Escalate]
        );
    }

    #[test]
    fn mutual_thanks_end_a_conversation_as_its_state_says() {
        let thanks = Facts {
            partings: 1,
            actions: 0,
            specific_actions: 0,
            empty: false,
            ..facts(0, 0, 4, Medium)
        };
        let talk = |specific_actions, blocked| Facts {
            blocked,
            specific_actions,
            ..facts(4, 0, 4, Medium)
        };
        for (last, expected) in [
            (talk(0, false), Stop),
            (talk(1, false), Ship),
            (talk(1, true), Escalate),
        ] {
            assert_eq!(
                signals("default", &[last, thanks, thanks]),
                [Continue, Continue, expected]
            );
        }
    }

    #[test]
    fn a_review_below_its_bar_stops() {
        let nits = Facts {
            below_bar: true,
            ..facts(4, 0, 4, High)
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, High), nits]),
            [Continue, Stop]
        );
        let blocked = Facts {
            blocked: true,
            ..nits
        };
        assert_eq!(
            signals("default", &[facts(4, 0, 4, High), blocked]),
            [Continue, Continue]
        );
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
