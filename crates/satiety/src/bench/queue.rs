//! How runs share the workers: priorities, and the longest wait that they allow.
//!
//! Runs take turns by start-time fair queueing. Each run has a position on a virtual time line. The run with
//! the smallest position is next; each of its cases moves it ahead by [`Priority::cost`]. A run that joins,
//! or that had no waiting case for a while, starts at the position of the run that was served last. So a run
//! of a higher priority gets a larger share, never all of it, and a run never saves up turns.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of the workers that a distributed run gets next to other runs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// One case for every 4 of a normal run and every 16 of a high one.
    Low,
    /// Equal shares with other normal runs.
    #[default]
    Normal,
    /// Four cases for every case of a normal run.
    High,
}

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// Name used in flags, JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }

    /// Relative share of the workers: cases per round.
    pub fn weight(self) -> u32 {
        match self {
            Self::Low => 1,
            Self::Normal => 4,
            Self::High => 16,
        }
    }

    /// The priority with this weight; the default for a weight of another version.
    pub fn of_weight(weight: i64) -> Self {
        let all = Self::ALL.into_iter();
        all.rev()
            .find(|priority| i64::from(priority.weight()) == weight)
            .unwrap_or_default()
    }

    /// Virtual time that one case costs: [`FULL_ROUND`] divided by the weight.
    pub fn cost(self) -> u32 {
        FULL_ROUND / self.weight()
    }
}

/// Virtual time of a case with a weight of 1; every weight divides it.
pub const FULL_ROUND: u32 = 16;

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|priority| priority.name() == text);
        found.ok_or_else(|| format!("unknown priority {text:?} (expected one of: low, normal, high)"))
    }
}

/// Maximum number of cases that other runs get before the next case of a waiting run, if workers take one
/// case at a time. Claims that are in flight at the same moment come on top, at most one per worker.
///
/// ```
/// use satiety::bench::queue::{Priority, longest_wait};
/// // One case of a low run after at most 17 of a high one.
/// assert_eq!(longest_wait(Priority::Low, &[Priority::High]), 17);
/// assert_eq!(longest_wait(Priority::Normal, &[Priority::Normal; 3]), 6);
/// ```
pub fn longest_wait(own: Priority, others: &[Priority]) -> u64 {
    let of_one = |other: &Priority| u64::from(own.cost() / other.cost()) + 1;
    others.iter().map(of_one).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rule on the virtual time line, as the store applies it.
    #[derive(Debug, Clone)]
    struct Run {
        priority: Priority,
        turn: u64,
        served: u64,
        waiting: u32,
    }

    fn claim(runs: &mut [Run]) -> Option<usize> {
        let now = runs.iter().map(|run| run.served).max()?;
        let ready = (0..runs.len()).filter(|at| runs[*at].waiting > 0);
        let next = ready.min_by_key(|at| (runs[*at].turn, *at))?;
        let run = &mut runs[next];
        run.served = run.turn.max(now);
        run.turn = run.served + u64::from(run.priority.cost());
        run.waiting -= 1;
        Some(next)
    }

    fn priority() -> impl Strategy<Value = Priority> {
        proptest::sample::select(&Priority::ALL[..])
    }

    proptest! {
        #[test]
        fn no_waiting_run_waits_longer_than_the_bound(
            priorities in proptest::collection::vec(priority(), 2..8),
            arrivals in proptest::collection::vec((0_usize..8, 1_u32..30), 1..200),
        ) {
            let mut runs: Vec<Run> = priorities
                .iter()
                .map(|priority| Run { priority: *priority, turn: 0, served: 0, waiting: 0 })
                .collect();
            let mut waited = vec![0_u64; runs.len()];
            for (run, cases) in arrivals {
                let run = run % runs.len();
                if runs[run].waiting == 0 {
                    waited[run] = 0;
                }
                runs[run].waiting += cases;
                for _ in 0..=(cases / 2) {
                    let Some(taken) = claim(&mut runs) else { break };
                    for (at, run) in runs.iter().enumerate() {
                        let others: Vec<Priority> = (0..runs.len())
                            .filter(|other| *other != at)
                            .map(|other| runs[other].priority)
                            .collect();
                        waited[at] = if at == taken || run.waiting == 0 { 0 } else { waited[at] + 1 };
                        prop_assert!(waited[at] <= longest_wait(run.priority, &others), "run {at} of {runs:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        let run = |priority| Run {
            priority,
            turn: 0,
            served: 0,
            waiting: 10_000,
        };
        let mut runs = [run(Priority::Low), run(Priority::Normal), run(Priority::High)];
        for _ in 0..2100 {
            claim(&mut runs).unwrap();
        }
        let got = runs.map(|run| 10_000 - run.waiting);
        assert_eq!(got, [100, 400, 1600]);
    }

    #[test]
    fn weights_divide_a_round_and_identify_a_priority() {
        for priority in Priority::ALL {
            assert_eq!(FULL_ROUND % priority.weight(), 0);
            assert_eq!(Priority::of_weight(i64::from(priority.weight())), priority);
            assert_eq!(priority.name().parse(), Ok(priority));
        }
        assert_eq!(Priority::of_weight(7), Priority::Normal);
        assert!(
            "urgent"
                .parse::<Priority>()
                .unwrap_err()
                .contains("low, normal, high")
        );
    }
}
