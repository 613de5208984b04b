//! Generates synthetic traces by the rules below, for comparing policies without recorded traces.
//!
//! A session is a sequence of tasks; each task lasts some turns. In each turn messages arrive, and with some
//! probability tool results and files. A turn uses items by these rules:
//!
//! - **recency**: a message is used again with a probability that falls with its age as a power law;
//! - **bursts**: each file or tool result belongs to the task in which it was added; in that task it is used
//!   often, and afterwards hardly ever, except by a later task that resumes the same files;
//! - **long-term facts**: some small items are used at a steady low rate regardless of age, some never;
//! - **noise**: occasionally a random item is used.
//!
//! Sizes are log-normal by kind. Each session draws its own rates, so sessions differ as agents do.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::item::ContextItem;
use super::trace::{Session, TraceTurn};

/// Settings of the trace generator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorSettings {
    /// Number of sessions, from 1 to 10000.
    pub sessions: u32,
    /// Number of turns per session, from 1 to 100000.
    pub turns: u64,
    /// Random seed; session `i` depends only on the seed and `i`.
    pub seed: u64,
    /// Mean number of turns per task, at least 1.
    pub task_turns: f64,
    /// Probability per turn that a random item is used, from 0 to 1.
    pub noise: f64,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self {
            sessions: 20,
            turns: 250,
            seed: 1,
            task_turns: 25.0,
            noise: 0.05,
        }
    }
}

/// Item of a generated session, with its rate of use.
struct GeneratedItem {
    id: String,
    kind: Kind,
    created: u64,
    last: u64,
    task: usize,
    /// Uses per turn while its task is active.
    rate: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    System,
    Message,
    ToolResult,
    File,
    Fact,
    Plan,
}

impl Kind {
    /// Returns zone, kind, median tokens and standard deviation of their logarithm.
    fn shape(self) -> (&'static str, &'static str, f64, f64) {
        match self {
            Self::System => ("system", "instruction", 600.0, 0.2),
            Self::Message => ("chronicle", "message", 160.0, 0.7),
            Self::ToolResult => ("workspace", "tool_result", 700.0, 1.0),
            Self::File => ("workspace", "file", 1100.0, 0.8),
            Self::Fact => ("memory", "fact", 60.0, 0.5),
            Self::Plan => ("workspace", "plan", 220.0, 0.4),
        }
    }
}

/// Generates synthetic sessions; fails if a setting is out of range.
pub fn generate(settings: &GeneratorSettings) -> Result<Vec<Session>, EvictionError> {
    let check = |what, value: f64, good: bool, range| {
        if good {
            Ok(())
        } else {
            Err(EvictionError::Setting { what, value, range })
        }
    };
    let (sessions, turns) = (f64::from(settings.sessions), settings.turns as f64);
    check(
        "sessions",
        sessions,
        (1.0..=10_000.0).contains(&sessions),
        "1 to 10000",
    )?;
    check("turns", turns, (1.0..=100_000.0).contains(&turns), "1 to 100000")?;
    check(
        "task_turns",
        settings.task_turns,
        (1.0..=1e6).contains(&settings.task_turns),
        "1 to 1000000",
    )?;
    check(
        "noise",
        settings.noise,
        (0.0..=1.0).contains(&settings.noise),
        "0 to 1",
    )?;
    Ok((0..settings.sessions)
        .map(|number| session(settings, number))
        .collect())
}

fn session(settings: &GeneratorSettings, number: u32) -> Session {
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    random.set_stream(u64::from(number));
    // Rates of this session.
    let tools_a_turn = random.random_range(0.4..0.9);
    let files_a_task = random.random_range(2.0..6.0);
    let facts_a_turn = random.random_range(0.1..0.3);
    let returns = random.random_range(0.2..0.5);
    let decay = random.random_range(1.2..1.8);
    let mut items: Vec<GeneratedItem> = Vec::new();
    let mut turns = Vec::new();
    let (mut task, mut tasks) = (0_usize, 1_usize);
    let mut starts = true;
    for turn in 0..settings.turns {
        let mut add = Vec::new();
        let mut make = |kind: Kind, rate: f64, items: &mut Vec<GeneratedItem>, random: &mut ChaCha8Rng| {
            let (zone, name, median, spread) = kind.shape();
            let id = format!("{name}-{}", items.len());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few tokens to a few hundred thousand"
            )]
            let tokens = (median * (spread * normal(random)).exp()).round().clamp(5.0, 2e5) as u64;
            let mut item = ContextItem::new(id.clone(), zone, tokens);
            name.clone_into(&mut item.kind);
            item.pinned = kind == Kind::System;
            (item.created_turn, item.last_referenced_turn) = (turn, turn);
            add.push(item);
            items.push(GeneratedItem {
                id,
                kind,
                created: turn,
                last: turn,
                task,
                rate,
            });
        };
        if turn == 0 {
            make(Kind::System, 1.0, &mut items, &mut random);
        }
        if starts {
            make(Kind::Plan, 0.35, &mut items, &mut random);
            let files = poisson(files_a_task, &mut random);
            for _ in 0..files {
                let rate = random.random_range(0.05..0.35);
                make(Kind::File, rate, &mut items, &mut random);
            }
        }
        make(Kind::Message, 0.6, &mut items, &mut random);
        if random.random_bool(tools_a_turn) {
            // Most results are read once; some are used repeatedly.
            let rate = if random.random_bool(0.25) { 0.3 } else { 0.02 };
            make(Kind::ToolResult, rate, &mut items, &mut random);
        }
        if random.random_bool(facts_a_turn) {
            let rate = if random.random_bool(0.6) {
                random.random_range(0.02..0.08)
            } else {
                0.002
            };
            make(Kind::Fact, rate, &mut items, &mut random);
        }
        let mut uses = Vec::new();
        for item in &mut items {
            if item.created == turn {
                continue;
            }
            let age = (turn - item.created) as f64;
            let p = match item.kind {
                Kind::System => 1.0,
                Kind::Message => item.rate * age.powf(-decay),
                Kind::Fact => item.rate,
                Kind::Plan | Kind::File | Kind::ToolResult if item.task == task => item.rate,
                Kind::Plan | Kind::File | Kind::ToolResult => item.rate * 0.01,
            };
            if random.random_bool(p.clamp(0.0, 1.0)) {
                item.last = turn;
                uses.push(item.id.clone());
            }
        }
        if random.random_bool(settings.noise) && !items.is_empty() {
            let any = random.random_range(0..items.len());
            if items[any].created < turn && !uses.contains(&items[any].id) {
                uses.push(items[any].id.clone());
            }
        }
        let goal = starts.then(|| format!("task {task}"));
        turns.push(TraceTurn {
            session: session_name(number),
            turn,
            goal,
            add,
            uses,
            broad_uses: Vec::new(),
        });
        starts = random.random_bool((1.0 / settings.task_turns).min(1.0));
        if starts {
            // A later task often resumes an earlier one.
            task = if tasks > 1 && random.random_bool(returns) {
                random.random_range(0..tasks)
            } else {
                tasks += 1;
                tasks - 1
            };
        }
    }
    Session {
        id: session_name(number),
        turns,
    }
}

fn session_name(number: u32) -> String {
    format!("session-{number:04}")
}

/// Draws a standard normal variate (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let u: f64 = random.random_range(f64::MIN_POSITIVE..1.0);
    let v: f64 = random.random_range(0.0..1.0);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Draws a Poisson variate by Knuth's product of uniforms, which is fast enough for small means.
fn poisson(mean: f64, random: &mut ChaCha8Rng) -> u32 {
    let limit = (-mean).exp();
    let (mut count, mut product) = (0, random.random_range(0.0..1.0_f64));
    while product > limit && count < 1000 {
        count += 1;
        product *= random.random_range(0.0..1.0_f64);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::trace::{read_trace, write_trace};
    use super::*;

    #[test]
    fn sessions_are_valid_traces_and_depend_on_the_seed_alone() {
        let settings = GeneratorSettings {
            sessions: 3,
            turns: 60,
            ..GeneratorSettings::default()
        };
        let sessions = generate(&settings).unwrap();
        assert_eq!(sessions, generate(&settings).unwrap());
        assert_eq!(read_trace(&write_trace(&sessions)).unwrap(), sessions);
        assert_ne!(
            sessions,
            generate(&GeneratorSettings { seed: 2, ..settings }).unwrap()
        );
        assert_eq!(
            sessions[..2],
            generate(&GeneratorSettings {
                sessions: 2,
                ..settings
            })
            .unwrap()[..]
        );
        assert!(
            generate(&GeneratorSettings {
                noise: 2.0,
                ..settings
            })
            .is_err()
        );
        assert!(
            generate(&GeneratorSettings {
                sessions: 0,
                ..settings
            })
            .is_err()
        );
    }

    #[test]
    fn messages_are_used_soon_or_never_and_facts_late() {
        let sessions = generate(&GeneratorSettings::default()).unwrap();
        let mut ages: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        for session in &sessions {
            let mut created = std::collections::BTreeMap::new();
            for turn in &session.turns {
                created.extend(turn.add.iter().map(|item| (item.ctx_id.clone(), turn.turn)));
                for id in &turn.uses {
                    if let Some(list) = ["message-", "fact-"].iter().position(|kind| id.starts_with(kind)) {
                        ages[list].push(turn.turn - created[id]);
                    }
                }
            }
        }
        let median = |ages: &mut Vec<u64>| {
            ages.sort_unstable();
            ages[ages.len() / 2]
        };
        assert!(
            median(&mut ages[0]) < 6 && median(&mut ages[1]) > 30,
            "{:?}",
            ages.map(|a| a.len())
        );
    }
}
