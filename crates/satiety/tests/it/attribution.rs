//! Measures how often a use of a memory is credited to the right query. Simulates agents that work on several tasks at
//! once: they search for each, and read, quote or validate results later, in any order.
//!
//! `cargo test -p satiety --test it attribution -- --nocapture` prints the table of docs/measurements.md.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use satiety::memory::{
    AttributionRule, FeedbackKind, LoggedEvent, PastQuery, UsedMemory, attribution_settings, reattribute,
};
use satiety::retrieval::{FeedbackSignal, judge_from_feedback, signal_rules};

const SESSIONS: usize = 200;
const TASKS: usize = 6;
const DIMENSION: usize = 64;
const MINUTE: i64 = 60_000_000;

struct World(ChaCha8Rng);

impl World {
    fn chance(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.0.next_u64() % count as u64).unwrap()
    }

    fn direction(&mut self) -> Vec<f32> {
        let values: Vec<f64> = (0..DIMENSION).map(|_| self.chance() - 0.5).collect();
        unit(&values)
    }

    /// A vector with about this cosine to another one.
    fn near(&mut self, vector: &[f32], cosine: f64) -> Vec<f32> {
        let other = self.direction();
        let rest = (1.0 - cosine * cosine).sqrt();
        let mixed: Vec<f64> = vector
            .iter()
            .zip(&other)
            .map(|(a, b)| cosine * f64::from(*a) + rest * f64::from(*b))
            .collect();
        unit(&mixed)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a component of a unit vector")]
fn unit(values: &[f64]) -> Vec<f32> {
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values.iter().map(|value| (value / length) as f32).collect()
}

/// A task: what the agent asks, and the memory that answers it.
struct Task {
    query: PastQuery,
    answer: String,
}

/// One session: the tasks of an agent, what it did, and the memories.
fn session(world: &mut World, number: usize) -> (Vec<Task>, Vec<LoggedEvent>, BTreeMap<String, UsedMemory>) {
    let vector = |vector: Vec<f32>| ("model".to_owned(), vector);
    let topics: Vec<Vec<f32>> = (0..TASKS).map(|_| world.direction()).collect();
    let mut memories = BTreeMap::new();
    for (at, topic) in topics.iter().enumerate() {
        let id = format!("m{at}");
        let cosine = 0.6 + 0.35 * world.chance();
        let own = vec![vector(world.near(topic, cosine))];
        let text = format!("topic{at} detail{at} reason{at}");
        memories.insert(
            id.clone(),
            UsedMemory::new(&id, &format!("memory {at}"), &text, own),
        );
    }
    let mut tasks = Vec::new();
    let mut events = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        // The memory is small: every list has all answers, the right one at a random place near the top.
        let mut results: Vec<String> = memories
            .keys()
            .filter(|id| **id != format!("m{at}"))
            .cloned()
            .collect();
        for place in (1..results.len()).rev() {
            let other = world.below(place + 1);
            results.swap(place, other);
        }
        let place = world.below(3);
        results.insert(place, format!("m{at}"));
        let cosine = 0.5 + 0.4 * world.chance();
        let known = if world.chance() < 0.5 {
            format!("topic{at}")
        } else {
            "something".into()
        };
        tasks.push(Task {
            query: PastQuery {
                id: format!("s{number}q{at}"),
                text: format!("how about {known} question{at}"),
                results,
                at: i64::try_from(at).unwrap() * MINUTE,
                vector: Some(vector(world.near(topic, cosine))),
            },
            answer: format!("m{at}"),
        });
    }
    // The agent reads and validates later, task by task in random order.
    let mut order: Vec<usize> = (0..TASKS).collect();
    for place in (1..TASKS).rev() {
        let other = world.below(place + 1);
        order.swap(place, other);
    }
    for (turn, task) in order.into_iter().enumerate() {
        let at = (10 + i64::try_from(turn).unwrap()) * MINUTE;
        let event = |kind| LoggedEvent {
            kind,
            query_id: None,
            memory_id: Some(tasks[task].answer.clone()),
            asked_again_as: None,
            at,
        };
        events.push(event(FeedbackKind::ReadAfterSearch));
        if world.chance() < 0.7 {
            events.push(event(FeedbackKind::ValidateUseful));
        }
    }
    (tasks, events, memories)
}

#[derive(Default)]
struct Tally {
    uses: usize,
    credited: usize,
    right: usize,
    judged: usize,
    right_grades: usize,
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn measure(rule: AttributionRule) -> Tally {
    let mut world = World(ChaCha8Rng::seed_from_u64(20_261_118));
    let mut tally = Tally::default();
    for number in 0..SESSIONS {
        let (tasks, events, memories) = session(&mut world, number);
        let newest_first: Vec<PastQuery> = tasks.iter().rev().map(|task| task.query.clone()).collect();
        let again = reattribute(&newest_first, &events, &memories, rule, attribution_settings());
        let mut signals: BTreeMap<String, Vec<FeedbackSignal>> = BTreeMap::new();
        tally.uses += events.len();
        for (event, weight) in again {
            let query = event.query_id.clone().unwrap();
            let task = tasks.iter().find(|task| task.query.id == query).unwrap();
            if event.kind != FeedbackKind::ScrollPast {
                tally.credited += 1;
                tally.right += usize::from(event.memory_id.as_ref() == Some(&task.answer));
            }
            signals.entry(query).or_default().push(FeedbackSignal {
                memory_id: event.memory_id,
                kind: event.kind,
                session: number.to_string(),
                at: event.at,
                weight,
            });
        }
        for task in &tasks {
            let own = signals.remove(&task.query.id).unwrap_or_default();
            for (memory, judged) in judge_from_feedback(&own, signal_rules()) {
                if judged.confidence >= 0.6 {
                    tally.judged += 1;
                    tally.right_grades += usize::from((judged.grade >= 2) == (memory == task.answer));
                }
            }
        }
    }
    tally
}

#[test]
fn uses_of_interleaved_tasks_are_credited_to_the_query_they_fit() {
    println!("| rule | uses | credited | credited to the right query | judgments | right side of relevant |");
    println!("|---|---|---|---|---|---|");
    let mut found = Vec::new();
    for (name, rule) in [
        ("latest query", AttributionRule::Latest),
        ("fit", AttributionRule::Fit),
    ] {
        let tally = measure(rule);
        println!(
            "| {name} | {} | {} | {:.3} | {} | {:.3} |",
            tally.uses,
            tally.credited,
            share(tally.right, tally.credited),
            tally.judged,
            share(tally.right_grades, tally.judged)
        );
        found.push(tally);
    }
    let [latest, fit] = &found[..] else { panic!() };
    assert!(
        share(latest.right, latest.credited) < 0.5,
        "the old rule credits the last query"
    );
    assert!(share(fit.right, fit.credited) >= 0.95);
    assert!(share(fit.right_grades, fit.judged) >= 0.95);
    assert!(
        share(fit.credited, fit.uses) >= 0.9,
        "few uses are credited to none"
    );
}

/// An agent that reads memories that do not fit its query gets no credit for them, however often it reads.
#[test]
fn reading_spam_does_not_raise_the_measure() {
    let mut world = World(ChaCha8Rng::seed_from_u64(7));
    let topic = world.direction();
    let spam: BTreeMap<String, UsedMemory> = (0..10)
        .map(|number| {
            let id = format!("spam{number}");
            let own = vec![("model".to_owned(), world.direction())];
            (
                id.clone(),
                UsedMemory::new(&id, "spam", "Read me, I am the best memory.", own),
            )
        })
        .collect();
    let query = PastQuery {
        id: "q".into(),
        text: "why is sqlite locked".into(),
        results: spam.keys().cloned().collect(),
        at: 0,
        vector: Some(("model".into(), topic)),
    };
    let mut signals = Vec::new();
    for visit in 0..50 {
        let reads: Vec<LoggedEvent> = spam
            .keys()
            .map(|id| LoggedEvent {
                kind: FeedbackKind::ReadAfterSearch,
                query_id: None,
                memory_id: Some(id.clone()),
                asked_again_as: None,
                at: visit + 1,
            })
            .collect();
        let rule = AttributionRule::Fit;
        for (event, weight) in reattribute(
            std::slice::from_ref(&query),
            &reads,
            &spam,
            rule,
            attribution_settings(),
        ) {
            signals.push(FeedbackSignal {
                memory_id: event.memory_id,
                kind: event.kind,
                session: visit.to_string(),
                at: event.at,
                weight,
            });
        }
    }
    let judged = judge_from_feedback(&signals, signal_rules());
    let relevant: BTreeSet<&String> = judged
        .iter()
        .filter(|(_, judged)| judged.grade >= 2)
        .map(|(id, _)| id)
        .collect();
    assert!(relevant.is_empty(), "{relevant:?}");
}
