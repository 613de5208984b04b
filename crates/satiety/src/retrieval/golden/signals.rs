//! Graded judgments from implicit feedback: converts events to a grade, a confidence and reasons. The
//! likelihoods of the events are data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::FeedbackKind;

/// Number of grades, 0 to 3.
const GRADES: usize = 4;
/// Minimum grade of a relevant result.
const RELEVANT: usize = 2;

/// A feedback event on the results of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackSignal {
    /// Id of the result; `None` if the event concerns all results.
    pub memory_id: Option<String>,
    /// Kind of the event.
    pub kind: FeedbackKind,
    /// Id of the session.
    pub session: String,
    /// Time of the event; only the order matters.
    pub at: i64,
    /// Probability that the event belongs to this query, from 0 to 1. Its likelihoods count to this power.
    pub weight: f64,
}

/// Judgment of a result derived from feedback.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JudgedFromFeedback {
    /// Most probable grade, 0 to 3.
    pub grade: i32,
    /// Probability that the grade is on the same side of the relevance threshold (grade 2).
    pub confidence: f64,
    /// Probability of each grade from 0 to 3.
    pub probabilities: [f64; 4],
    /// Feedback that led to the grade.
    pub reasons: Vec<String>,
    /// Whether the feedback contains both positive and negative signals.
    pub conflict: bool,
}

/// Prior and likelihoods of feedback events by grade.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalRules {
    prior: [f64; GRADES],
    sessions: usize,
    selective: usize,
    signals: BTreeMap<FeedbackKind, [f64; GRADES]>,
}

#[expect(
    clippy::expect_used,
    reason = "a file of the program, read by the tests below"
)]
static RULES: LazyLock<SignalRules> =
    LazyLock::new(|| toml::from_str(include_str!("data/signals.toml")).expect("signals.toml can be read"));

/// Returns the built-in rules.
pub fn signal_rules() -> &'static SignalRules {
    &RULES
}

/// Judges the results of a query from feedback. Results without feedback get no judgment, because they may
/// not have been seen.
///
/// ```
/// use satiety::memory::FeedbackKind;
/// use satiety::retrieval::{FeedbackSignal, judge_from_feedback, signal_rules};
/// let useful = FeedbackSignal {
///     memory_id: Some("m1".into()), kind: FeedbackKind::ValidateUseful, session: "s".into(), at: 1, weight: 1.0,
/// };
/// let judged = judge_from_feedback(&[useful], signal_rules());
/// assert_eq!(judged["m1"].grade, 3);
/// ```
pub fn judge_from_feedback(
    signals: &[FeedbackSignal],
    rules: &SignalRules,
) -> BTreeMap<String, JudgedFromFeedback> {
    // Repeated events of a session count once; of contradicting ratings the last one counts.
    let mut events: BTreeMap<(&str, &str), BTreeMap<FeedbackKind, Event>> = BTreeMap::new();
    let mut searched_again: BTreeMap<&str, i64> = BTreeMap::new();
    // Results of each session with a signal of each kind.
    let mut named: BTreeMap<(&str, FeedbackKind), BTreeSet<&str>> = BTreeMap::new();
    for signal in signals {
        match &signal.memory_id {
            Some(memory) => {
                let kinds = events.entry((memory, &signal.session)).or_default();
                let event = kinds.entry(signal.kind).or_insert(Event {
                    at: signal.at,
                    weight: 0.0,
                });
                event.at = event.at.max(signal.at);
                event.weight = event.weight.max(signal.weight.clamp(0.0, 1.0));
                let alike = named.entry((&signal.session, signal.kind)).or_default();
                alike.insert(memory);
            }
            None if signal.kind == FeedbackKind::ReSearch => {
                searched_again.insert(&signal.session, signal.at);
            }
            None => {}
        }
    }
    let mut counts: BTreeMap<&str, BTreeMap<FeedbackKind, Vec<f64>>> = BTreeMap::new();
    for ((memory, session), kinds) in &events {
        let counted = counts.entry(memory).or_default();
        for kind in session_signals(kinds, searched_again.get(session).copied()) {
            let alike = named.get(&(*session, kind)).map_or(1, BTreeSet::len);
            let weight = kinds.get(&kind).map_or(1.0, |event| event.weight);
            let weight = weight * selectivity(kind, alike, rules.selective);
            counted.entry(kind).or_default().push(weight);
        }
    }
    counts
        .into_iter()
        .filter(|(_, kinds)| !kinds.is_empty())
        .map(|(memory, kinds)| (memory.to_owned(), judge(kinds, rules)))
        .collect()
}

/// Latest time and largest weight of the events of one kind.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: i64,
    weight: f64,
}

/// Weight of a signal that a session gave to `alike` results of a query: a session that reads or praises everything
/// says nothing about any of it.
fn selectivity(kind: FeedbackKind, alike: usize, selective: usize) -> f64 {
    match kind {
        FeedbackKind::ReadAfterSearch | FeedbackKind::Reference | FeedbackKind::ValidateUseful => {
            (selective as f64 / alike.max(1) as f64).min(1.0)
        }
        _ => 1.0,
    }
}

/// Effective signals of one session about a result.
fn session_signals(
    kinds: &BTreeMap<FeedbackKind, Event>,
    searched_again: Option<i64>,
) -> BTreeSet<FeedbackKind> {
    use FeedbackKind::{ReSearch, ReadAfterSearch, Reference, ScrollPast, ValidateNotUseful, ValidateUseful};
    let mut signals: BTreeSet<FeedbackKind> = kinds.keys().copied().collect();
    match (kinds.get(&ValidateUseful), kinds.get(&ValidateNotUseful)) {
        (Some(yes), Some(no)) if yes.at >= no.at => signals.remove(&ValidateNotUseful),
        (Some(_), Some(_)) => signals.remove(&ValidateUseful),
        _ => false,
    };
    let used = [ReadAfterSearch, Reference, ValidateUseful, ValidateNotUseful];
    // A result that was used later does not count as skipped.
    if used.iter().any(|kind| signals.contains(kind)) {
        signals.remove(&ScrollPast);
    }
    // Searching again after reading counts against the result, unless there is explicit feedback on it.
    let read = kinds.get(&ReadAfterSearch);
    let has_explicit = signals.contains(&ValidateUseful)
        || signals.contains(&ValidateNotUseful)
        || signals.contains(&Reference);
    if !has_explicit
        && read
            .zip(searched_again)
            .is_some_and(|(read, again)| read.at <= again)
    {
        signals.insert(ReSearch);
    } else {
        signals.remove(&ReSearch);
    }
    signals
}

fn judge(kinds: BTreeMap<FeedbackKind, Vec<f64>>, rules: &SignalRules) -> JudgedFromFeedback {
    let mut probabilities = rules.prior;
    let mut reasons = Vec::new();
    let (mut pro, mut contra) = (false, false);
    for (kind, mut weights) in kinds {
        let Some(likelihood) = rules.signals.get(&kind) else {
            continue;
        };
        weights.sort_by(|a, b| b.total_cmp(a));
        for weight in weights.iter().take(rules.sessions) {
            for (probability, likely) in probabilities.iter_mut().zip(likelihood) {
                *probability *= likely.powf(*weight);
            }
        }
        let [low, .., high] = likelihood;
        pro |= high > low;
        contra |= high < low;
        let times = match weights.len() {
            1 => String::new(),
            sessions => format!(" in {sessions} sessions"),
        };
        let strongest = weights.first().copied().unwrap_or(1.0);
        let weight = if strongest < 0.995 {
            format!(" (weight {strongest:.2})")
        } else {
            String::new()
        };
        reasons.push(format!("{}{times}{weight}", describe(kind)));
    }
    let total: f64 = probabilities.iter().sum();
    for probability in &mut probabilities {
        *probability /= total.max(f64::MIN_POSITIVE);
    }
    let mut grade = 0;
    for (at, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[grade] {
            grade = at;
        }
    }
    let relevant: f64 = probabilities[RELEVANT..].iter().sum();
    let confidence = if grade >= RELEVANT {
        relevant
    } else {
        1.0 - relevant
    };
    if pro && contra {
        reasons.push(format!("conflicting signals; grade {grade} is the most likely"));
    }
    JudgedFromFeedback {
        grade: i32::try_from(grade).unwrap_or(0),
        confidence,
        probabilities,
        reasons,
        conflict: pro && contra,
    }
}

fn describe(kind: FeedbackKind) -> &'static str {
    match kind {
        FeedbackKind::ValidateUseful => "marked useful",
        FeedbackKind::ValidateNotUseful => "marked not useful",
        FeedbackKind::ReadAfterSearch => "read",
        FeedbackKind::Reference => "quoted verbatim",
        FeedbackKind::ScrollPast => "skipped",
        FeedbackKind::ReSearch => "searched again after reading",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FeedbackKind::{ReSearch, ReadAfterSearch, Reference, ScrollPast, ValidateNotUseful, ValidateUseful};
    use proptest::prelude::*;

    fn signal(kind: FeedbackKind, session: &str, at: i64) -> FeedbackSignal {
        FeedbackSignal {
            memory_id: (kind != ReSearch).then(|| "m".into()),
            kind,
            session: session.into(),
            at,
            weight: 1.0,
        }
    }

    /// Reading all results of a query says nothing about them, while reading two of them does.
    #[test]
    fn reading_or_praising_everything_counts_less() {
        let all = |kind: FeedbackKind, count: usize| -> Vec<FeedbackSignal> {
            let named = |at: usize| FeedbackSignal {
                memory_id: Some(format!("m{at}")),
                ..signal(kind, "s", 0)
            };
            (0..count).map(named).collect()
        };
        for kind in [ReadAfterSearch, Reference, ValidateUseful] {
            let found = judge_from_feedback(&all(kind, 20), signal_rules());
            assert!(
                found.values().all(|judged| judged.grade < 2),
                "{kind:?}: {found:?}"
            );
            let found = judge_from_feedback(&all(kind, 2), signal_rules());
            assert!(
                found.values().all(|judged| judged.grade >= 2),
                "{kind:?}: {found:?}"
            );
        }
    }

    #[test]
    fn an_uncertain_attribution_counts_less() {
        let sure = judged(&[(ValidateUseful, "s")]).unwrap();
        let unsure = FeedbackSignal {
            weight: 0.5,
            ..signal(ValidateUseful, "s", 0)
        };
        let unsure = judge_from_feedback(&[unsure], signal_rules())
            .remove("m")
            .unwrap();
        assert!(unsure.confidence < sure.confidence);
        assert_eq!(unsure.reasons, ["marked useful (weight 0.50)"]);
    }

    fn judged(signals: &[(FeedbackKind, &str)]) -> Option<JudgedFromFeedback> {
        let signals: Vec<FeedbackSignal> = signals
            .iter()
            .enumerate()
            .map(|(at, (kind, session))| signal(*kind, session, i64::try_from(at).unwrap()))
            .collect();
        judge_from_feedback(&signals, signal_rules()).remove("m")
    }

    /// The first four rows are the specification's table (§2.1, phase B).
    #[test]
    fn feedback_becomes_a_grade() {
        for (signals, grade, conflict) in [
            (vec![(ReadAfterSearch, "s")], 2, false),
            (vec![(ValidateUseful, "s")], 3, false),
            (vec![(ValidateNotUseful, "s")], 0, false),
            (vec![(ReadAfterSearch, "s"), (ValidateUseful, "s")], 3, false),
            (vec![(Reference, "s")], 2, false),
            (vec![(ReadAfterSearch, "s"), (Reference, "s")], 3, false),
            (vec![(ScrollPast, "s")], 0, false),
            // Read, then searched again.
            (vec![(ReadAfterSearch, "s"), (ReSearch, "s")], 1, true),
            // A search in another session does not count.
            (vec![(ReadAfterSearch, "s"), (ReSearch, "t")], 2, false),
            // The last rating counts.
            (vec![(ValidateNotUseful, "s"), (ValidateUseful, "s")], 3, false),
            (vec![(ValidateUseful, "s"), (ValidateNotUseful, "s")], 0, false),
            // Skipped, then read.
            (vec![(ScrollPast, "s"), (ReadAfterSearch, "s")], 2, false),
            // Two sessions disagree.
            (vec![(ValidateUseful, "s"), (ScrollPast, "t")], 3, true),
            // Explicit feedback outweighs implicit feedback.
            (vec![(ReadAfterSearch, "s"), (ValidateNotUseful, "t")], 0, true),
        ] {
            let found = judged(&signals).unwrap();
            assert_eq!(
                (found.grade, found.conflict),
                (grade, conflict),
                "{signals:?}: {found:?}"
            );
        }
        assert_eq!(judged(&[(ReSearch, "s")]), None);
        assert_eq!(judged(&[]), None);
    }

    // prior × likelihood: .0025 .006 .018 .054, so P(relevant) = .072/.0805.
    #[test]
    fn confidence_is_the_probability_of_the_side() {
        let found = judged(&[(ValidateUseful, "s")]).unwrap();
        assert!((found.confidence - 0.072 / 0.0805).abs() < 1e-12, "{found:?}");
        assert!((found.probabilities[3] - 0.054 / 0.0805).abs() < 1e-12);
        let twice = judged(&[(ValidateUseful, "s"), (ValidateUseful, "t")]).unwrap();
        assert!(twice.confidence > found.confidence);
        assert_eq!(twice.reasons, ["marked useful in 2 sessions"]);
        // Repetition within a session does not add evidence.
        assert_eq!(
            judged(&[(ValidateUseful, "s"), (ValidateUseful, "s")])
                .unwrap()
                .reasons,
            found.reasons
        );
    }

    #[test]
    fn the_table_is_complete_and_makes_sense() {
        let rules = signal_rules();
        assert!((rules.prior.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(rules.signals.len(), 6);
        for (kind, likelihood) in &rules.signals {
            assert!(
                likelihood.iter().all(|likely| *likely > 0.0 && *likely < 1.0),
                "{kind:?}"
            );
            let up = likelihood.is_sorted();
            let down = likelihood.iter().rev().is_sorted();
            assert!(up || down, "{kind:?} speaks neither for nor against");
        }
    }

    proptest! {
        #[test]
        fn more_praise_never_lowers_a_grade_and_order_does_not_matter(
            events in proptest::collection::vec((0..5_usize, 0..4_u8), 1..12), seed in 0..24_usize,
        ) {
            let kinds = [ValidateUseful, ValidateNotUseful, ReadAfterSearch, Reference, ScrollPast];
            // Distinct timestamps, because the last rating counts.
            let signals: Vec<FeedbackSignal> = events.iter().enumerate()
                .map(|(at, (kind, session))| signal(kinds[*kind], &session.to_string(), i64::try_from(at).unwrap()))
                .collect();
            let found = judge_from_feedback(&signals, signal_rules()).remove("m").unwrap();
            let sum: f64 = found.probabilities.iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9 && (0.5 - 1e-9..=1.0).contains(&found.confidence.max(0.5)));
            let mut turned = signals.clone();
            turned.rotate_left(seed % signals.len());
            prop_assert_eq!(judge_from_feedback(&turned, signal_rules()).remove("m").unwrap(), found.clone());
            let mut praised = signals;
            praised.push(signal(ValidateUseful, "another", 99));
            let better = judge_from_feedback(&praised, signal_rules()).remove("m").unwrap();
            prop_assert!(better.grade >= found.grade);
        }
    }
}
